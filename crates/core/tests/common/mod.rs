//! A plain cache for tests: a set of pages and a set of markers, without eviction.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use foreread_core::prefetch::walk::{PageSet, PolicyMemory, ReadWalk};
use foreread_core::prefetch::{
    Advice, Decided, Policy, Residency, Rules, StreamState, Streams, WindowLimits,
};
use foreread_core::units::{ByteCount, MAX_FILE_PAGES, PageIndex, Pages};

#[derive(Clone, Debug, Default)]
pub struct PlainPages {
    pub resident: BTreeSet<u64>,
    pub markers: BTreeSet<u64>,
    /// State of the policies for the file.
    pub streams: Streams,
    /// Runs fetched since the last decision, as `start+count`.
    runs: Rc<RefCell<Vec<String>>>,
}

/// A decision, and the runs of pages that it fetched.
pub type Line = (Decided, Vec<String>);

impl Residency for PlainPages {
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        let mut count = 0;
        while count < limit.0 && count < page.0 && self.resident.contains(&(page.0 - count - 1)) {
            count += 1;
        }
        Pages(count)
    }

    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        (page.0..page.0 + limit.0).find(|page| !self.resident.contains(page)).map(PageIndex)
    }
}

impl PageSet for PlainPages {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.resident.contains(&page.0)
    }

    fn take_marker(&mut self, page: PageIndex) -> bool {
        self.markers.remove(&page.0)
    }

    fn fetch(&mut self, pages: Range<PageIndex>, marker: Option<PageIndex>) -> Pages {
        let missing: Vec<u64> =
            (pages.start.0..pages.end.0).filter(|page| !self.resident.contains(page)).collect();
        for run in missing.chunk_by(|a, b| a + 1 == *b) {
            self.runs.borrow_mut().push(format!("{}+{}", run[0], run.len()));
        }
        self.resident.extend(&missing);
        if let Some(PageIndex(marker)) = marker.filter(|marker| missing.contains(&marker.0)) {
            self.markers.insert(marker);
        }
        Pages(missing.len() as u64)
    }

    fn consume(&mut self, page: PageIndex) {
        assert!(self.resident.contains(&page.0), "page {page} is consumed before it is fetched");
    }
}

/// One stream over [`PlainPages`], in bytes, as an application reads.
#[derive(Clone, Debug)]
pub struct PlainStream {
    pub policy: Policy,
    pub limits: WindowLimits,
    pub file: ByteCount,
    pub state: StreamState,
    pub advice: Advice,
    pub rules: Rules,
}

impl PlainStream {
    pub fn new(policy: Policy, max: u64) -> Self {
        let limits = WindowLimits { max: Pages(max), io_pages: Pages(0) };
        let file = MAX_FILE_PAGES.bytes().min(ByteCount(i64::MAX as u64));
        let (advice, rules) = (Advice::default(), Rules::default());
        Self { policy, limits, file, state: StreamState::default(), advice, rules }
    }

    pub fn read_bytes(&mut self, pages: &mut PlainPages, pos: u64, len: u64) -> Vec<Line> {
        let end = (pos + len).min(self.file.0);
        let mut decisions = Vec::new();
        if pos >= end {
            return decisions;
        }
        let reader = ReadWalk {
            policy: self.policy,
            limits: self.limits,
            end: PageIndex(self.file.pages_up().0),
            advice: self.advice,
            rules: self.rules,
        };
        let first = ByteCount(pos).page();
        let count = PageIndex(ByteCount(pos + len).pages_up().0) - first;
        let runs = Rc::clone(&pages.runs);
        let mut streams = std::mem::take(&mut pages.streams);
        let memory = PolicyMemory { stream: &mut self.state, file: &mut streams };
        reader.read(memory, pages, first, count, |decided| {
            decisions.push((decided, runs.take()));
        });
        pages.streams = streams;
        runs.take();
        self.state.prev_pos = Some(ByteCount(end));
        decisions
    }

    pub fn read(&mut self, pages: &mut PlainPages, page: u64, count: u64) -> Vec<Line> {
        self.read_bytes(pages, page * 4096, count * 4096)
    }
}
