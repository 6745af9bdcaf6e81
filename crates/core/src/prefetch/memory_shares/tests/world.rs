//! Readers that ask for shares, at rates that a test chooses.

use alloc::vec::Vec;

use super::super::*;
use crate::prefetch::decision::{Ask, Trigger};
use crate::prefetch::question::{ReaderState, WindowBounds};

pub(super) const SECOND: u64 = 1_000_000_000;

/// Readers at their rates, in pages a second.
pub(super) struct SharesWorld {
    pub(super) shares: MemoryShares,
    pub(super) ids: Vec<ShareId>,
    pub(super) rates: Vec<u64>,
    pub(super) memory: Pages,
    pub(super) ceiling: Pages,
}

impl SharesWorld {
    pub(super) fn new(rates: &[u64], memory: u64, ceiling: u64) -> Self {
        let (memory, ceiling) = (Pages(memory), Pages(ceiling));
        let mut world = Self {
            shares: MemoryShares::new(),
            ids: Vec::new(),
            rates: rates.to_vec(),
            memory,
            ceiling,
        };
        for stream in 0..rates.len() {
            let id = world.asking(stream, 0).begin(&mut world.shares);
            world.ids.push(id);
        }
        world
    }

    pub(super) fn asking(&self, stream: usize, second: u64) -> AskingReader {
        AskingReader {
            now: Nanos(second * SECOND),
            page: PageIndex(second * self.rates[stream]),
            count: Pages(1),
            has_waited: false,
            reader: ReaderState {
                submitter: Submitter(u32::try_from(stream).unwrap()),
                ..ReaderState::default()
            },
            bounds: WindowBounds {
                ceiling: self.ceiling,
                common_ceiling: self.ceiling,
                max_unstalled: self.ceiling,
                latency_ns: 1_000_000,
                is_far: false,
            },
        }
    }

    pub(super) fn ask(&mut self, stream: usize, second: u64) -> ShareAllotment {
        let (asking, id) = (self.asking(stream, second), self.ids[stream]);
        let now = asking.now;
        let grant = asking.ask(&mut self.shares, id, self.memory);
        self.shares.set_ahead(now, id, grant.window, None);
        grant
    }

    /// Returns each stream's last allotment after all have asked once a second.
    pub(super) fn settle(&mut self, seconds: u64) -> Vec<ShareAllotment> {
        let mut grants = Vec::new();
        for second in 1..=seconds {
            grants = (0..self.ids.len()).map(|stream| self.ask(stream, second)).collect();
        }
        grants
    }
}

/// A reader that asks once.
pub(super) struct AskingReader {
    pub(super) now: Nanos,
    pub(super) page: PageIndex,
    pub(super) count: Pages,
    pub(super) has_waited: bool,
    pub(super) reader: ReaderState,
    pub(super) bounds: WindowBounds,
}

impl AskingReader {
    fn question(&mut self) -> Question<'_> {
        let Self { now, page, count, has_waited, bounds, .. } = *self;
        Question {
            ask: Ask { page, count, trigger: Trigger::Miss, prev_pos: None, has_waited },
            now,
            reader: &mut self.reader,
            file: FileSlot(0),
            file_end: PageIndex(u64::MAX),
            device: 0,
            max_io: Pages(256),
            is_device_reading: false,
            set_aside: Pages::ZERO,
            frames_ahead: None,
            bounds,
        }
    }

    pub(super) fn begin(mut self, shares: &mut MemoryShares) -> ShareId {
        let page = self.page;
        shares.begin(&self.question(), page)
    }

    pub(super) fn ask(
        mut self,
        shares: &mut MemoryShares,
        id: ShareId,
        memory: Pages,
    ) -> ShareAllotment {
        let page = self.page;
        shares.ask(id, &self.question(), page, memory)
    }

    pub(super) fn ask_new(mut self, shares: &mut MemoryShares, memory: u64) -> ShareAllotment {
        shares.ask_new(&self.question(), Pages(memory))
    }
}

pub(super) fn asking() -> AskingReader {
    SharesWorld::new(&[1], 10, 8).asking(0, 1)
}

/// Returns a stream of a remote device that has read `pages` in a tenth of a second, since it last
/// asked.
pub(super) fn far(turn: u64, pages: u64, blocked_ns: u64) -> AskingReader {
    AskingReader {
        now: Nanos(turn * SECOND / 10),
        page: PageIndex(turn * pages),
        count: Pages(16),
        reader: ReaderState { handle_blocked_ns: turn * blocked_ns, ..ReaderState::default() },
        bounds: WindowBounds {
            ceiling: Pages(8192),
            common_ceiling: Pages(8192),
            max_unstalled: Pages(256),
            latency_ns: 20_000_000,
            is_far: true,
        },
        ..asking()
    }
}
