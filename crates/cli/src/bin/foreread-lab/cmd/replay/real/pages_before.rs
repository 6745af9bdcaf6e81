//! Remembers which pages of the target were cached before a replay.
//!
//! After each run, all other pages are dropped, so that every run starts the same. Pages stay if
//! another process uses them, or if the kernel does not report which pages are cached.

use std::fs::File;
use std::num::NonZero;
use std::ops::Range;
use std::time::Duration;

use foreread_core::units::PAGE_SIZE;
use foreread_tune::pages::resident;
use rustix::fs::{Advice, fadvise};

use super::targets::TargetFile;
use foreread_cli::clock::{clock, sleep_until};

/// Drops pages cached by runs, and again on drop.
#[derive(Debug)]
pub(super) struct PagesBefore<'t> {
    files: Vec<(&'t TargetFile, CachedBefore)>,
}

/// Earlier cached parts of a file.
#[derive(Debug)]
enum CachedBefore {
    /// Cached ranges.
    Parts(Vec<Range<u64>>),
    /// Not reported by the kernel, or too fragmented: nothing is dropped.
    Unknown,
}

impl<'t> PagesBefore<'t> {
    /// Surveys all files.
    pub(super) fn look(files: &'t [TargetFile]) -> Self {
        let look = |file: &'t TargetFile| (file, cached(file));
        Self { files: files.iter().map(look).collect() }
    }

    /// Returns the bytes cached before.
    pub(super) fn bytes(&self) -> u64 {
        let parts = self.files.iter().filter_map(|(_, before)| before.parts()).flatten();
        parts.map(|part| part.end - part.start).sum()
    }

    /// Returns the number of files with an unknown state.
    pub(super) fn unknown(&self) -> usize {
        self.files.iter().filter(|(_, before)| before.parts().is_none()).count()
    }

    /// Drops all pages not cached before, including those in flight.
    pub(super) fn drop_ours(&self) {
        for (file, before) in &self.files {
            let Some(parts) = before.parts() else { continue };
            let Ok(opened) = File::open(&file.path) else { continue };
            drop_gaps(&opened, file.len, parts);
        }
    }
}

impl Drop for PagesBefore<'_> {
    fn drop(&mut self) {
        self.drop_ours();
    }
}

impl CachedBefore {
    fn parts(&self) -> Option<&[Range<u64>]> {
        match self {
            Self::Parts(parts) => Some(parts),
            Self::Unknown => None,
        }
    }
}

fn cached(file: &TargetFile) -> CachedBefore {
    let Ok(opened) = File::open(&file.path) else { return CachedBefore::Unknown };
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < file.len {
        let piece = at..file.len.min(at.saturating_add(SURVEY_BYTES));
        let Some(found) = resident(&opened, &piece) else { return CachedBefore::Unknown };
        for part in found {
            match parts.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                Some(_) | None => parts.push(part),
            }
        }
        if parts.len() > PARTS_MAX {
            return CachedBefore::Unknown;
        }
        at = piece.end;
    }
    CachedBefore::Parts(parts)
}

/// Drops the gaps between the parts. Windows in flight cannot be dropped, so the call is repeated
/// for a short time.
fn drop_gaps(file: &File, len: u64, parts: &[Range<u64>]) {
    let before = parts.iter().map(|part| (part.end - part.start).div_ceil(PAGE_SIZE)).sum();
    let patience = clock() + ON_THEIR_WAY;
    loop {
        for gap in gaps(len, parts) {
            // A page that stays is in use by another process.
            let _ = fadvise(file, gap.start, NonZero::new(gap.end - gap.start), Advice::DontNeed);
        }
        let is_gone = foreread::cached_pages(file).is_ok_and(|pages| pages <= before);
        if is_gone || clock() >= patience {
            return;
        }
        sleep_until(clock() + LOOK_AGAIN);
    }
}

/// Returns the gaps between the parts of a file and after the last one.
fn gaps(len: u64, parts: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> {
    let ends = [0].into_iter().chain(parts.iter().map(|part| part.end));
    let end = len.next_multiple_of(PAGE_SIZE);
    let starts = parts.iter().map(|part| part.start).chain([end]);
    ends.zip(starts).map(|(from, to)| from..to).filter(|gap| !gap.is_empty())
}

/// Bytes surveyed per call.
const SURVEY_BYTES: u64 = 1 << 30;

/// Largest number of parts kept: 2 MiB.
const PARTS_MAX: usize = 1 << 17;

/// Time in which a slow disk reads a window.
const ON_THEIR_WAY: Duration = Duration::from_millis(300);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_all_but_what_was_there() {
        let of = |len, parts: &[(u64, u64)]| {
            let parts: Vec<_> = parts.iter().map(|(start, end)| *start..*end).collect();
            gaps(len, &parts).map(|gap| (gap.start, gap.end)).collect::<Vec<_>>()
        };
        assert_eq!(of(10_000, &[]), [(0, 12_288)], "the last page is whole");
        assert_eq!(of(40_960, &[(0, 4096), (8192, 12_288)]), [(4096, 8192), (12_288, 40_960)]);
        assert_eq!(of(8192, &[(0, 8192)]), []);
        // What the kernel says of the last page may end behind the file.
        assert_eq!(of(5000, &[(4096, 8192)]), [(0, 4096)]);
    }
}
