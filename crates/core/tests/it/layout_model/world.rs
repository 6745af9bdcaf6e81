//! The world around extent-mapped files: a device whose sectors all have different contents. Frames
//! contain garbage until they are read, so that no byte is right by chance.

#[path = "service.rs"]
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use foreread_core::geometry::Geometry;
use foreread_core::path::{
    Config, DeviceId, ExtentMap, Fault, FileExtent, FileId, IoPath, ReadId, StreamId, Tag,
};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::replay::replay;
use foreread_core::sched::SchedulerKind;
use foreread_core::table::Frame;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages, Sector};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Read {
        stream: usize,
        pos: u64,
        len: u64,
    },
    ReadOn {
        stream: usize,
        len: u64,
    },
    Complete {
        which: usize,
        answer: Answer,
    },
    Release {
        which: usize,
    },
    /// The driver fills the holes.
    FillHoles,
    WillNeed {
        file: usize,
        start: u64,
        pages: u64,
    },
    Invalidate {
        file: usize,
        start: u64,
        pages: u64,
    },
    /// A file is closed, even under its readers, and opened again.
    Reopen {
        file: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Good,
    /// This part, in 64ths.
    Short(u64),
    Failed,
}

/// A random extent, in sectors.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The hole before it.
    pub(crate) gap: u64,
    pub(crate) len: u64,
    /// Free sectors before it on the device.
    pub(crate) skip: u64,
    /// True if it is in the part of the device that grows downwards.
    pub(crate) is_below: bool,
}

struct OpenFile {
    id: FileId,
    len: u64,
    layout: Option<Arc<ExtentMap>>,
    /// Contents of its sectors.
    sectors: Vec<u64>,
}

struct Reader {
    id: StreamId,
    file: usize,
    prev_pos: Option<u64>,
}

struct Pending {
    file: usize,
    pos: u64,
    stream: usize,
    is_closed: bool,
}

pub(crate) struct World {
    pub(crate) path: IoPath,
    pub(crate) device: DeviceId,
    now: u64,
    files: Vec<OpenFile>,
    readers: Vec<Reader>,
    /// Contents of the sectors of each frame: [`ZEROS`], [`GARBAGE`], or a sector of the device.
    frames: BTreeMap<Frame, [u64; 8]>,
    /// Device sectors in any extent.
    named: BTreeSet<u64>,
    /// Positions of the next pieces on the device: above, and below.
    above: u64,
    below: u64,
    in_flight: Vec<(Tag, u64, u64)>,
    pending: BTreeMap<ReadId, Pending>,
    ready: Vec<(ReadId, usize)>,
    pub(crate) asked: Vec<(ByteCount, ByteCount)>,
    pub(crate) ended: usize,
    pub(crate) faults: Vec<Fault>,
    failures: usize,
}

const ZEROS: u64 = 0;
const GARBAGE: u64 = u64::MAX;
const MIDDLE: u64 = 1 << 30;
const MAX_IO: Pages = Pages(16);

impl World {
    pub(crate) fn new(policy: Policy, max: u64) -> Self {
        let (memory, rules) = (ByteCount(1 << 20), Rules::default());
        let mut path = IoPath::new(Config { memory, policy, max_window: Pages(max), rules });
        path.record(usize::MAX);
        let geometry = Geometry { max_io: MAX_IO, depth: 4, ..Geometry::new(ByteCount(0)) };
        let device = path.add_device(geometry, &SchedulerKind::Noop);
        Self {
            path,
            device,
            now: 0,
            files: Vec::new(),
            readers: Vec::new(),
            frames: BTreeMap::new(),
            named: BTreeSet::new(),
            above: MIDDLE,
            below: MIDDLE,
            in_flight: Vec::new(),
            pending: BTreeMap::new(),
            ready: Vec::new(),
            asked: Vec::new(),
            ended: 0,
            faults: Vec::new(),
            failures: 0,
        }
    }

    /// Adds a file of these pieces, with `beyond` more bytes or, if it is odd, fewer.
    pub(crate) fn add_file(&mut self, pieces: &[Piece], beyond: u64) {
        let (mut extents, mut at) = (Vec::new(), 0);
        for piece in pieces {
            at += piece.gap;
            let place = if piece.is_below {
                self.below -= piece.skip + piece.len;
                self.below
            } else {
                self.above += piece.skip + piece.len;
                self.above - piece.len
            };
            let [start, len, place] = [at, piece.len, place].map(|sector| ByteCount(sector * 512));
            extents.push(FileExtent { start, len, place: Some(place) });
            at += piece.len;
        }
        let end = at * 512;
        let len = if beyond % 2 == 1 { end.saturating_sub(beyond) } else { end + beyond };
        self.add_extents(len, extents);
    }

    pub(crate) fn add_extents(&mut self, len: u64, extents: Vec<FileExtent>) {
        let mut sectors = vec![ZEROS; usize::try_from(len.div_ceil(512)).unwrap()];
        for extent in &extents {
            let Some(place) = extent.place else { continue };
            for sector in 0..extent.len.0 / 512 {
                let number = place.0 / 512 + sector;
                assert!(self.named.insert(number), "a sector is one file's");
                let at = usize::try_from(extent.start.0 / 512 + sector).unwrap();
                if let Some(known) = sectors.get_mut(at) {
                    *known = number;
                }
            }
        }
        let layout = Arc::new(ExtentMap::new(extents).unwrap());
        self.add(len, Some(layout), sectors);
    }

    /// Adds a file that is contiguous on the device.
    pub(crate) fn add_run(&mut self, len: u64, is_plain: bool) {
        let pages = len.div_ceil(4096);
        if is_plain {
            let sectors: Vec<u64> = (MIDDLE..MIDDLE + pages * 8).collect();
            self.named.extend(&sectors);
            self.add(len, None, sectors);
        } else {
            let (start, place) = (ByteCount(0), Some(ByteCount(MIDDLE * 512)));
            self.add_extents(
                len,
                Vec::from([FileExtent { start, len: ByteCount(pages * 4096), place }]),
            );
        }
    }

    fn add(&mut self, len: u64, layout: Option<Arc<ExtentMap>>, sectors: Vec<u64>) {
        let id = self.open(len, layout.as_ref());
        self.files.push(OpenFile { id, len, layout, sectors });
        for _ in 0..2 {
            let id = self.path.stream(id);
            self.readers.push(Reader { id, file: self.files.len() - 1, prev_pos: None });
        }
    }

    fn open(&mut self, len: u64, layout: Option<&Arc<ExtentMap>>) -> FileId {
        match layout {
            Some(layout) => {
                self.path.open_extents(self.device, ByteCount(len), Arc::clone(layout)).unwrap()
            }
            None => self.path.open_at(self.device, Sector(MIDDLE), ByteCount(len)).unwrap(),
        }
    }

    pub(crate) fn tick(&mut self) -> Nanos {
        self.now += 1;
        Nanos(self.now)
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Read { stream, pos, len } => {
                let stream = stream % self.readers.len();
                let end = self.files[self.readers[stream].file].len;
                if end > 0 {
                    self.read(stream, pos % end, len);
                }
            }
            Op::ReadOn { stream, len } => {
                let stream = stream % self.readers.len();
                let end = self.files[self.readers[stream].file].len;
                let pos = self.readers[stream].prev_pos.unwrap_or(0);
                if pos < end {
                    self.read(stream, pos, len);
                }
            }
            Op::Complete { which, answer } => {
                if !self.in_flight.is_empty() {
                    self.complete(which % self.in_flight.len(), answer);
                }
            }
            Op::Release { which } => {
                if !self.ready.is_empty() {
                    self.release(which % self.ready.len());
                }
            }
            Op::FillHoles => self.fill_holes(),
            Op::WillNeed { file, start, pages } => {
                let (now, file) = (self.tick(), &self.files[file % self.files.len()]);
                let start = PageIndex(start % (file.len / 4096 + 1));
                self.path.will_need(now, file.id, start, Pages(pages));
            }
            Op::Invalidate { file, start, pages } => {
                let (now, file) = (self.tick(), &self.files[file % self.files.len()]);
                let start = PageIndex(start % (file.len / 4096 + 1));
                self.path.invalidate(now, file.id, start..start + Pages(pages));
            }
            Op::Reopen { file } => self.reopen(file % self.files.len()),
        }
        self.pump();
    }

    fn reopen(&mut self, file: usize) {
        let now = self.tick();
        self.path.close(now, self.files[file].id);
        for read in self.pending.values_mut().filter(|read| read.file == file) {
            read.is_closed = true;
        }
        let (len, layout) = (self.files[file].len, self.files[file].layout.clone());
        self.files[file].id = self.open(len, layout.as_ref());
        for reader in self.readers.iter_mut().filter(|reader| reader.file == file) {
            reader.id = self.path.stream(self.files[file].id);
            reader.prev_pos = None;
        }
    }

    /// Serves hits from the table, and the rest through the path. One reader at a time.
    fn read(&mut self, stream: usize, pos: u64, len: u64) {
        let is_reading = self.pending.values().any(|read| read.stream == stream)
            || self.ready.iter().any(|(_, reader)| *reader == stream);
        if is_reading {
            return;
        }
        let Reader { id, file, prev_pos } = self.readers[stream];
        let end = (pos + len).min(self.files[file].len);
        let mut at = pos;
        while at < end {
            let (table, page) = (self.path.table(), PageIndex(at / 4096));
            let slot = IoPath::slot(self.files[file].id);
            let Some(found) = table.look_up(slot, page) else { break };
            if !found.entry().is_up_to_date() {
                break;
            }
            let page_end = ((page.0 + 1) * 4096).min(end);
            self.check(file, at..page_end, &[found.entry().frame()]);
            found.touch(false);
            if found.take_marker() {
                let (now, count) = (self.tick(), Pages((pos + len).div_ceil(4096) - page.0));
                self.path.marker(now, id, page, count, prev_pos.map(ByteCount));
            }
            at = page_end;
        }
        if at < end {
            let now = self.tick();
            let rest = ByteCount(pos + len - at);
            let read = self.path.read(now, id, ByteCount(at), rest, prev_pos.map(ByteCount));
            let pending = Pending { file, pos: at, stream, is_closed: false };
            assert!(self.pending.insert(read, pending).is_none(), "an id is used once");
        }
        self.readers[stream].prev_pos = Some(end);
    }

    /// Checks that these frames contain these bytes of a file.
    fn check(&self, file: usize, bytes: Range<u64>, frames: &[Frame]) {
        if bytes.is_empty() {
            return;
        }
        let first = bytes.start / 4096;
        for sector in bytes.start / 512..bytes.end.div_ceil(512) {
            let frame = frames[usize::try_from(sector / 8 - first).unwrap()];
            let got = self.frames[&frame][usize::try_from(sector % 8).unwrap()];
            let want = self.files[file].sectors[usize::try_from(sector).unwrap()];
            assert_eq!(got, want, "sector {sector} of file {file}");
        }
    }

    fn complete(&mut self, which: usize, answer: Answer) {
        let (tag, start, count) = self.in_flight.remove(which);
        let whole = count * 512;
        let result = match answer {
            Answer::Good => Ok(ByteCount(whole)),
            // At the end of a sector, as devices do.
            Answer::Short(part) => Ok(ByteCount(count * (part % 64) / 64 * 512)),
            Answer::Failed => Err(5),
        };
        self.failures += usize::from(result != Ok(ByteCount(whole)));
        // A partly read sector does not count.
        let good = result.unwrap_or(ByteCount(0)).0 / 512;
        let mut sector = start;
        for (frame, bytes) in self.path.io_parts(tag) {
            let frame = self.frames.entry(frame).or_insert([GARBAGE; 8]);
            for place in &mut frame[bytes.start / 512..bytes.end / 512] {
                *place = if sector < start + good { sector } else { GARBAGE };
                sector += 1;
            }
        }
        assert_eq!(sector, start + count, "a request has room for all that it asks for");
        let now = self.tick();
        self.path.complete(now, tag, result);
    }

    fn fill_holes(&mut self) {
        let (now, frames) = (self.tick(), &mut self.frames);
        self.path.fill_holes(now, |frame, bytes| {
            let frame = frames.entry(frame).or_insert([GARBAGE; 8]);
            frame[bytes.start / 512..bytes.end / 512].fill(ZEROS);
        });
        assert!(!self.path.has_holes());
    }

    fn release(&mut self, which: usize) {
        let (id, _) = self.ready.swap_remove(which);
        let now = self.tick();
        self.path.release(now, id);
    }

    pub(crate) fn is_there(&self, file: usize, page: PageIndex) -> bool {
        self.path.table().look_up(IoPath::slot(self.files[file].id), page).is_some()
    }
}
