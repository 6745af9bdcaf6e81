//! Streams over one set of pages, and the cost of their reads: misses, windows and pages.

use super::*;

pub(super) const PAGE: u64 = 4096;

/// Cost of a pattern.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Cost {
    /// Reads that needed a page that had not been requested.
    pub(super) misses: u64,
    /// Decisions that requested pages from the device.
    pub(super) windows: u64,
    pub(super) pages: u64,
}

/// Readers of one file.
#[derive(Clone)]
pub(super) struct World {
    pub(super) pages: PlainPages,
    pub(super) handles: Vec<PlainStream>,
    pub(super) lines: Vec<Decided>,
    pub(super) cost: Cost,
}

impl World {
    pub(super) fn new(handles: usize, max: u64) -> Self {
        Self {
            pages: PlainPages::default(),
            handles: vec![PlainStream::new(Policy::Adaptive, max); handles],
            lines: Vec::new(),
            cost: Cost::default(),
        }
    }

    /// Reads bytes. Returns the decisions in the format of traces.
    pub(super) fn read(&mut self, handle: usize, pos: u64, len: u64) -> Vec<String> {
        let handle = handle % self.handles.len();
        let first = self.lines.len();
        let lines = self.handles[handle].read_bytes(&mut self.pages, pos, len);
        let is_miss = |line: &Decided| line.ask.trigger == Trigger::Miss;
        self.cost.misses += u64::from(lines.iter().any(|(line, _)| is_miss(line)));
        for (line, _) in lines {
            self.cost.windows += u64::from(line.submitted > Pages(0));
            self.cost.pages += line.submitted.0;
            self.lines.push(line);
        }
        self.lines[first..].iter().map(Decided::to_string).collect()
    }

    /// Reads pages.
    pub(super) fn read_pages(&mut self, handle: usize, page: u64, count: u64) -> Vec<String> {
        self.read(handle, page * PAGE, count * PAGE)
    }

    /// Returns the windows so far, and the random reads without a window.
    pub(super) fn windows(&self) -> Vec<String> {
        let text = |line: &Decided| {
            let Window { start, size, async_size } = line.decision.window;
            if line.decision.pattern == Pattern::Random {
                format!("r {start}+{size}")
            } else {
                format!("{start}+{size}-{async_size}")
            }
        };
        self.lines.iter().map(text).collect()
    }
}

/// Start of random reads that should meet no stream.
pub(super) const ELSEWHERE: u64 = 1 << 40;

/// `streams` streams far apart in strict turns; each begins `first` bytes after its gigabyte.
pub(super) fn in_turns(world: &mut World, streams: u64, first: u64, size: u64, reads: u64) {
    for step in 0..reads {
        for stream in 0..streams {
            let handle = usize::try_from(stream).unwrap();
            world.read(handle, (stream << 30) + first + step * size, size);
        }
    }
}
