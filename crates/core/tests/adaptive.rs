//! `adaptive` over a plain cache: interleaved streams are as good as single ones, and reads at
//! random bring what they ask for.
//!
//! In:    streams that take turns: through one handle or many, in reads of any size and alignment.
//! Out:   who waits for what nobody had asked for, and in how many windows the pages came.
//! Never: a rule. These tests know what a reader wants, not how it is decided.

mod common;

use common::{PlainPages, PlainStream};
use foreread_core::readahead::{Decided, Policy, Trigger};
use foreread_core::units::Pages;

const PAGE: u64 = 4096;

/// What a pattern cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Cost {
    /// Reads that needed a page which nobody had asked for.
    misses: u64,
    /// Decisions that asked the device for pages.
    windows: u64,
    pages: u64,
}

/// Readers of one file.
struct World {
    pages: PlainPages,
    handles: Vec<PlainStream>,
    lines: Vec<Decided>,
    cost: Cost,
}

impl World {
    fn new(handles: usize, max: u64) -> Self {
        Self::with(Policy::Adaptive, handles, max)
    }

    fn with(policy: Policy, handles: usize, max: u64) -> Self {
        Self {
            pages: PlainPages::default(),
            handles: vec![PlainStream::new(policy, max); handles],
            lines: Vec::new(),
            cost: Cost::default(),
        }
    }

    /// A read in bytes.
    fn read(&mut self, handle: usize, pos: u64, len: u64) {
        let handle = handle % self.handles.len();
        let lines = self.handles[handle].read_bytes(&mut self.pages, pos, len);
        let is_miss = |line: &Decided| line.ask.trigger == Trigger::Miss;
        self.cost.misses += u64::from(lines.iter().any(|(line, _)| is_miss(line)));
        for (line, _) in lines {
            self.cost.windows += u64::from(line.submitted > Pages(0));
            self.cost.pages += line.submitted.0;
            self.lines.push(line);
        }
    }
}

/// `streams` streams far apart in strict turns; each begins `first` bytes after its gigabyte.
fn in_turns(world: &mut World, streams: u64, first: u64, size: u64, reads: u64) {
    for step in 0..reads {
        for stream in 0..streams {
            let handle = usize::try_from(stream).unwrap();
            world.read(handle, (stream << 30) + first + step * size, size);
        }
    }
}

#[test]
fn streams_in_turns_cost_exactly_what_they_cost_alone() {
    let sizes = [1000, PAGE, 5 * PAGE, 16 * PAGE, 23 * PAGE + 77, 100 * PAGE];
    let starts = [0, PAGE, 5 * PAGE + 123];
    for (max, streams) in [(8, 8), (32, 2), (32, 8), (60, 3), (256, 2)] {
        for (size, first) in sizes.into_iter().flat_map(|size| starts.map(|first| (size, first))) {
            let reads = (12 * max * PAGE).div_ceil(size).max(10);
            let mut alone = Cost::default();
            for stream in 0..streams {
                let mut world = World::new(1, max);
                for step in 0..reads {
                    world.read(0, (stream << 30) + first + step * size, size);
                }
                alone.misses += world.cost.misses;
                alone.windows += world.cost.windows;
                alone.pages += world.cost.pages;
            }
            // The first read, and the second of a stream that does not begin at page 0.
            assert_eq!(alone.misses, if first == 0 { 2 * streams - 1 } else { 2 * streams });
            for handles in [1, usize::try_from(streams).unwrap()] {
                let mut world = World::new(handles, max);
                in_turns(&mut world, streams, first, size, reads);
                let at = format!("max {max}, {streams} by {size} from {first}, {handles} handles");
                assert_eq!(world.cost, alone, "{at}");
            }
        }
    }
}
