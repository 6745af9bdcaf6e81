//! A bounded picture of a run: reads by time and position, and the windows of the largest streams.
//! A grid of at most [`COLUMNS`] times [`ROWS`] cells; as the run goes on, pairs of columns are
//! merged.
//!
//! ```text
//!   place ^  . . w p p h h .        h hit, p prefetched, w waited, x wasted: evicted unread
//!         |  w p p p . . . x
//!         +------------------> time
//! ```

use std::collections::{BTreeMap, HashMap};

use foreread_core::path::StreamId;
use foreread_core::prefetch::Decided;
use foreread_core::table::{FileSlot, PageTable};
use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE, PageIndex, Pages};

/// Outcome of a read, or of a page that was read ahead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PictureKind {
    /// A read of pages that were cached from an earlier use.
    Hit,
    /// A read of prefetched pages that did not wait.
    Prefetched,
    /// A prefetched page that was evicted before its first use, at the time of its request.
    Wasted,
    /// A read that waited for the device.
    Waited,
}

/// A picture of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunPicture {
    /// Width of a column.
    pub column_ns: u64,
    /// Height of a row.
    pub row_bytes: u64,
    /// Non-empty cells, by column and row.
    pub cells: Vec<PictureCell>,
    /// Number of reads, and of [`PictureKind::Wasted`] pages, in the order of the kinds.
    pub counts: [u64; KINDS],
    /// Streams that requested most, largest first.
    pub streams: Vec<StreamPicture>,
}

/// A cell of a picture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PictureCell {
    /// Column index.
    pub column: u32,
    /// Row index.
    pub row: u32,
    /// Kind that the cell shows: `Waited` if a tenth of its reads waited, else the most frequent.
    pub kind: PictureKind,
}

/// Requests of one stream over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamPicture {
    /// Thread of the stream.
    pub thread: u32,
    /// Number of its file.
    pub file: u32,
    /// Pages requested by its decisions.
    pub pages: u64,
    /// One point for each column with a decision.
    pub points: Vec<StreamPoint>,
}

/// A stream's window and memory in one column.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StreamPoint {
    /// Column index.
    pub column: u32,
    /// Largest window.
    pub window: ByteCount,
    /// Most bytes requested ahead of the reader: the stream's memory.
    pub ahead: ByteCount,
}

/// Collects a picture. A cell shows [`PictureKind::Waited`] if a tenth of its reads waited, else
/// its most frequent kind.
#[derive(Debug)]
pub(crate) struct PictureRecorder {
    began: Nanos,
    column_ns: u64,
    row_bytes: u64,
    /// By column, then row, then kind.
    counts: Vec<[[u32; KINDS]; ROWS]>,
    totals: [u64; KINDS],
    /// Offset of each file on the device.
    files: HashMap<FileSlot, u64>,
    streams: HashMap<u32, StreamLabel>,
    tracks: BTreeMap<(u32, u32), StreamTrack>,
    /// Prefetched pages not yet seen used or evicted, with the time of their request.
    unread: HashMap<(FileSlot, PageIndex), Nanos>,
    unread_limit: usize,
    has_met_unread: bool,
}

#[derive(Clone, Copy, Debug)]
struct StreamLabel {
    thread: u32,
    file: u32,
    slot: FileSlot,
}

#[derive(Clone, Debug, Default)]
struct StreamTrack {
    pages: u64,
    columns: BTreeMap<u32, StreamPoint>,
}

impl PictureRecorder {
    /// Creates a recorder that starts at `began`, for a device with `bytes` in use.
    pub(crate) fn new(began: Nanos, bytes: u64, frames: u32) -> Self {
        Self {
            began,
            column_ns: FIRST_COLUMN_NS,
            row_bytes: bytes.div_ceil(ROWS as u64).max(PAGE_SIZE),
            counts: Vec::new(),
            totals: [0; KINDS],
            files: HashMap::new(),
            streams: HashMap::new(),
            tracks: BTreeMap::new(),
            unread: HashMap::new(),
            unread_limit: 2 * frames as usize + 4096,
            has_met_unread: false,
        }
    }

    /// Names a stream of the file at `start` on the device.
    pub(crate) fn name(
        &mut self,
        stream: StreamId,
        (thread, file): (u32, u32),
        slot: FileSlot,
        start: u64,
    ) {
        self.files.insert(slot, start);
        self.streams.insert(stream.index(), StreamLabel { thread, file, slot });
    }

    /// Records the pages that a decision requested, right after it.
    pub(crate) fn decided(
        &mut self,
        now: Nanos,
        stream: StreamId,
        decided: &Decided,
        table: &PageTable,
    ) {
        let Some(label) = self.streams.get(&stream.index()).copied() else { return };
        if decided.submitted == Pages::ZERO {
            return;
        }
        let window = decided.decision.window;
        let mut page = window.start;
        while page < window.end() {
            let found = table.look_up(label.slot, page);
            if found.is_some_and(|found| found.entry().is_unused()) {
                self.unread.insert((label.slot, page), now);
            }
            page = page + Pages(1);
        }
        let column = self.column(now);
        let track = self.track((label.thread, label.file));
        track.pages += decided.submitted.0;
        let point = track.columns.entry(column).or_default();
        point.column = column;
        point.window = point.window.max(window.size.bytes());
        let ahead = window.end().max(decided.ask.page) - decided.ask.page;
        point.ahead = point.ahead.max(ahead.bytes());
        if self.unread.len() > self.unread_limit {
            self.sweep(table);
        }
    }

    /// Begins a read.
    pub(crate) fn begin_read(&mut self) {
        self.has_met_unread = false;
    }

    /// Records that a read uses a page for the first time.
    pub(crate) fn meet_unread(&mut self, slot: FileSlot, page: PageIndex) {
        self.has_met_unread |= self.unread.remove(&(slot, page)).is_some();
    }

    /// Ends a read that began at byte `pos` of its file.
    pub(crate) fn end_read(
        &mut self,
        now: Nanos,
        slot: FileSlot,
        (pos, len): (ByteCount, ByteCount),
        has_waited: bool,
    ) {
        if has_waited && !self.unread.is_empty() {
            let end = PageIndex((pos + len).pages_up().0);
            let mut page = pos.page();
            while page < end {
                self.unread.remove(&(slot, page));
                page = page + Pages(1);
            }
        }
        let kind = match (has_waited, self.has_met_unread) {
            (true, _) => PictureKind::Waited,
            (false, true) => PictureKind::Prefetched,
            (false, false) => PictureKind::Hit,
        };
        let Some(start) = self.files.get(&slot).copied() else { return };
        self.add(now, start + pos.0, len.0, kind);
        self.totals[kind as usize] += 1;
    }

    /// Finishes the picture.
    pub(crate) fn finish(mut self, table: &PageTable) -> RunPicture {
        self.sweep(table);
        let mut cells = Vec::new();
        for (column, rows) in (0..).zip(&self.counts) {
            for (row, counts) in (0..).zip(rows) {
                cells.extend(shown(counts).map(|kind| PictureCell { column, row, kind }));
            }
        }
        let of = |((thread, file), track): ((u32, u32), StreamTrack)| StreamPicture {
            thread,
            file,
            pages: track.pages,
            points: track.columns.into_values().collect(),
        };
        let mut streams: Vec<_> = self.tracks.into_iter().map(of).collect();
        streams.sort_by_key(|stream| std::cmp::Reverse(stream.pages));
        let (column_ns, row_bytes) = (self.column_ns, self.row_bytes);
        RunPicture { column_ns, row_bytes, cells, counts: self.totals, streams }
    }

    /// Finds the pages evicted unread since the last sweep. They are drawn at the time of their
    /// request.
    fn sweep(&mut self, table: &PageTable) {
        let mut evicted = Vec::new();
        self.unread.retain(|(slot, page), requested| {
            let found = table.look_up(*slot, *page);
            if found.is_none() {
                evicted.push((*slot, *page, *requested));
            }
            found.is_some_and(|found| found.entry().is_unused())
        });
        for (slot, page, requested) in evicted {
            let Some(start) = self.files.get(&slot).copied() else { continue };
            self.add(requested, start + page.offset().0, 1, PictureKind::Wasted);
            self.totals[PictureKind::Wasted as usize] += 1;
        }
    }

    fn add(&mut self, now: Nanos, at: u64, len: u64, kind: PictureKind) {
        let column = self.column(now) as usize;
        if self.counts.len() <= column {
            self.counts.resize(column + 1, [[0; KINDS]; ROWS]);
        }
        let row = |byte: u64| usize::try_from(byte / self.row_bytes).unwrap_or(ROWS).min(ROWS - 1);
        let last = at + len.max(1) - 1;
        for cell in &mut self.counts[column][row(at)..=row(last)] {
            let count = &mut cell[kind as usize];
            *count = count.saturating_add(1);
        }
    }

    /// Returns the column of a time, widening the columns until the time fits.
    fn column(&mut self, now: Nanos) -> u32 {
        let since = now.0.saturating_sub(self.began.0);
        while since / self.column_ns >= COLUMNS as u64 {
            self.widen();
        }
        u32::try_from(since / self.column_ns).expect("it is less than COLUMNS")
    }

    fn widen(&mut self) {
        self.column_ns *= 2;
        let joined = |pair: &[[[u32; KINDS]; ROWS]]| {
            let mut sums = pair[0];
            for (row, counts) in pair.iter().skip(1).flat_map(|column| column.iter().enumerate()) {
                for (sum, count) in sums[row].iter_mut().zip(counts) {
                    *sum = sum.saturating_add(*count);
                }
            }
            sums
        };
        self.counts = self.counts.chunks(2).map(joined).collect();
        for track in self.tracks.values_mut() {
            for (column, point) in std::mem::take(&mut track.columns) {
                let joined = track.columns.entry(column / 2).or_default();
                joined.column = column / 2;
                joined.window = joined.window.max(point.window);
                joined.ahead = joined.ahead.max(point.ahead);
            }
        }
    }

    /// Returns the track of a stream. If all tracks are taken, a new stream replaces the smallest.
    fn track(&mut self, key: (u32, u32)) -> &mut StreamTrack {
        if !self.tracks.contains_key(&key) && self.tracks.len() >= MAX_TRACKS {
            let smallest = self.tracks.iter().min_by_key(|(key, track)| (track.pages, **key));
            if let Some(smallest) = smallest.map(|(key, _)| *key) {
                self.tracks.remove(&smallest);
            }
        }
        self.tracks.entry(key).or_default()
    }
}

/// Returns the kind that a cell shows; None if it is empty.
fn shown(counts: &[u32; KINDS]) -> Option<PictureKind> {
    let [hit, prefetched, wasted, waited] = counts.map(u64::from);
    let reads = hit + prefetched + waited;
    if reads + wasted == 0 {
        return None;
    }
    if waited > 0 && waited * 10 >= reads {
        return Some(PictureKind::Waited);
    }
    let kinds = [
        (hit, PictureKind::Hit),
        (prefetched, PictureKind::Prefetched),
        (wasted, PictureKind::Wasted),
    ];
    kinds.into_iter().max_by_key(|(count, _)| *count).map(|(_, kind)| kind)
}

/// Columns of a picture: half the pixel width of a small chart.
pub const COLUMNS: usize = 240;

/// Rows of a picture.
pub const ROWS: usize = 120;

/// The number of [`PictureKind`]s.
pub const KINDS: usize = 4;

/// Number of streams tracked at a time.
const MAX_TRACKS: usize = 64;

/// Shorter than any device read.
const FIRST_COLUMN_NS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_wider_and_keep_their_counts() {
        let mut recorder = PictureRecorder::new(Nanos(0), 1 << 20, 16);
        for n in 0..10_000_u64 {
            recorder.add(Nanos(n * 1000), (n % 256) * 4096, 4096, PictureKind::Hit);
        }
        assert!(recorder.counts.len() <= COLUMNS);
        let sum: u64 = recorder.counts.iter().flatten().map(|cell| u64::from(cell[0])).sum();
        assert!(sum >= 10_000, "a read is counted in each row that it touches: {sum}");
        assert_eq!(recorder.column_ns, 64_000);
    }

    #[test]
    fn a_cell_shows_waits_from_a_tenth_on() {
        assert_eq!(shown(&[0; 4]), None);
        assert_eq!(shown(&[91, 0, 0, 9]), Some(PictureKind::Hit));
        assert_eq!(shown(&[90, 0, 0, 10]), Some(PictureKind::Waited));
        assert_eq!(shown(&[0, 1, 2, 0]), Some(PictureKind::Wasted));
    }

    #[test]
    fn the_smallest_stream_gives_way() {
        let mut recorder = PictureRecorder::new(Nanos(0), 1, 16);
        for n in 0..100 {
            recorder.track((0, n)).pages = u64::from(n) + 1;
        }
        assert_eq!(recorder.tracks.len(), MAX_TRACKS);
        assert!(recorder.tracks.contains_key(&(0, 99)));
    }
}
