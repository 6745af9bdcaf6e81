//! Several alternating streams, through one shared handle or one handle each.
//!
//! ```text
//!   streams = 2    | 0  1  2  3 ..                | 1000  1001  1002 ..
//!   in the order     1  3  5  7                      2     4     6
//! ```
//!
//! With one handle, each turn overwrites the kernel's state for the reader. `pages` sets an
//! arbitrary order: `[1, 1001, 2, 1002, "3+1"]`.

use std::fmt;

use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::reader::SimReader;
use crate::size::Size;
use crate::validate::check;

/// Streams that share a handle.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interleaved {
    /// File to read.
    pub file: String,
    /// Number of streams; each reads an equal part of the file.
    #[serde(default = "two")]
    pub streams: u64,
    /// Bytes per turn.
    #[serde(default = "Size::page")]
    pub read: Size,
    /// Turns of each stream; by default, to the end of its part.
    pub reads: Option<u64>,
    /// Open a separate handle for each stream.
    #[serde(default)]
    pub own_handles: bool,
    /// Drop each page from the cache once it is read, like `posix_fadvise` with `DONTNEED`.
    #[serde(default)]
    pub drops_behind: bool,
    /// Explicit access order instead: pages, each by index, or `"64+32"` for 32 pages from page 64.
    #[serde(default)]
    pub pages: Vec<PageSpan>,
}

/// Pages of a single read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageSpan {
    /// First page.
    pub start: PageIndex,
    /// Number of pages.
    pub count: Pages,
}

impl PageSpan {
    /// Creates a span of one page.
    #[must_use]
    pub fn page(index: u64) -> Self {
        Self { start: PageIndex(index), count: Pages(1) }
    }
}

impl Interleaved {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        let size = machine.file(&self.file)?.size.0;
        if !self.pages.is_empty() {
            check(self.reads.is_none(), "reads", "absent when pages is given")?;
            check(!self.own_handles, "own_handles", "false when pages is given")?;
            let holds = |run: &PageSpan| run.start.offset() < size;
            return check(self.pages.iter().all(holds), "pages", "within the file");
        }
        check((1..=65_536).contains(&self.streams), "streams", "1 to 65536")?;
        check(self.read.0 > ByteCount::ZERO, "read", "at least a byte")?;
        check(self.read.0.0 <= size.0 / self.streams, "read", "at most a stream's part of the file")
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let file = building.file(&self.file)?;
        let params = self.clone();
        building.begin(name, start, async move |process: Process| {
            let handles = if params.own_handles { params.streams } else { 1 };
            let readers: Vec<_> = (0..handles).map(|_| process.open(file)).collect();
            if params.pages.is_empty() {
                params.in_turns(&readers).await;
            } else {
                params.in_order(&readers[0]).await;
            }
        });
        Ok(())
    }

    async fn in_turns(&self, readers: &[SimReader]) {
        let part = readers[0].len().0 / self.streams / self.read.0.0 * self.read.0.0;
        let most = part / self.read.0.0;
        for turn in 0..self.reads.unwrap_or(most).min(most) {
            for (stream, reader) in (0..self.streams).zip(readers.iter().cycle()) {
                let pos = ByteCount(stream * part + turn * self.read.0.0);
                let Ok(got) = reader.read(pos, self.read.0).await else { return };
                if self.drops_behind {
                    reader.forget_read(pos, got);
                }
            }
        }
    }

    async fn in_order(&self, reader: &SimReader) {
        for PageSpan { start, count } in &self.pages {
            if reader.read(start.offset(), count.bytes()).await.is_err() {
                return;
            }
        }
    }
}

impl<'de> Deserialize<'de> for PageSpan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OfText)
    }
}

struct OfText;

impl Visitor<'_> for OfText {
    type Value = PageSpan;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page such as 64, or several such as \"64+32\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PageSpan, E> {
        let (start, count) = text.split_once('+').unwrap_or((text, "1"));
        let run = start.parse().ok().zip(count.parse().ok());
        let run =
            run.filter(|(start, count)| (0..MOST).contains(start) && (1..MOST).contains(count));
        let (start, count) = run.ok_or_else(|| E::custom(format!("{text:?}: must be {WANTS}")))?;
        Ok(PageSpan { start: PageIndex(start), count: Pages(count) })
    }

    fn visit_u64<E: Error>(self, start: u64) -> Result<PageSpan, E> {
        self.visit_str(&start.to_string())
    }

    fn visit_i64<E: Error>(self, start: i64) -> Result<PageSpan, E> {
        self.visit_str(&start.to_string())
    }
}

const WANTS: &str = "PAGE or PAGE+COUNT, as 64 or \"64+32\", both less than 2^40";

/// Upper bound of page indices and counts, so that byte offsets and sums fit in 64 bits.
const MOST: u64 = 1 << 40;

fn two() -> u64 {
    2
}

#[cfg(test)]
mod tests {
    use foreread_core::units::Nanos;

    use crate::record::RecordMode;
    use crate::scenario::Scenario;

    #[test]
    fn streams_take_strict_turns_to_the_end_of_their_parts() {
        let text = "name = 'turns'\ncache.policy = 'none'\n\
                    device.disk.model.flash = { capacity = '1G', mb_per_s = 100.0 }\n\
                    file.data = { device = 'disk', size = '36K' }\n\
                    [[process]]\nname = 'reader'\n\
                    run.interleaved = { file = 'data', streams = 3, read = '4K', reads = 2 }\n";
        let mut building =
            Scenario::built_in(text).build(RecordMode::Lines).expect("the scenario is valid");
        building.run.go(Nanos(u64::MAX));
        let ran = building.run.end();
        let sectors: Vec<_> = ran
            .lines
            .iter()
            .filter_map(|line| line.split_once(" R")?.1.strip_suffix("+8")?.parse::<u64>().ok())
            .collect();
        let pages: Vec<_> = sectors.iter().map(|sector| sector / 8).collect();
        assert_eq!(pages, [0, 3, 6, 1, 4, 7]);
    }
}
