//! The pages of a file as rows of cells, which check the queries of the core: [`Sheet`] for all of
//! a file, [`Around`] for the pages around one read.

use super::*;

/// A file's pages as a row of cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    pub(crate) resident: Vec<bool>,
    pub(crate) marked: Vec<bool>,
    /// True if a fetch brings only the page that the walk has reached.
    pub(crate) brings_least: bool,
    /// The page that the walk must take next.
    pub(crate) next: u64,
}

impl Sheet {
    pub(crate) fn of(pages: u64) -> Self {
        let cells = vec![false; usize::try_from(pages).unwrap()];
        Self { resident: cells.clone(), marked: cells, ..Self::default() }
    }

    pub(super) fn is_there(&self, page: u64) -> bool {
        self.resident.get(usize::try_from(page).unwrap()).copied().unwrap_or(false)
    }

    pub(crate) fn evict(&mut self, pages: Range<u64>) {
        for page in pages.map(|page| usize::try_from(page).unwrap()) {
            if page < self.resident.len() {
                (self.resident[page], self.marked[page]) = (false, false);
            }
        }
    }

    pub(crate) fn same_pages(&self, other: &Self) -> bool {
        self.resident == other.resident && self.marked == other.marked
    }
}

impl Residency for Sheet {
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        let run = (0..page.0).rev().take_while(|page| self.is_there(*page));
        Pages(run.take(usize::try_from(limit.0).unwrap()).count() as u64)
    }

    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        (page.0..page.0 + limit.0).find(|page| !self.is_there(*page)).map(PageIndex)
    }
}

impl PageSet for Sheet {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.is_there(page.0)
    }

    fn take_marker(&mut self, page: PageIndex) -> bool {
        std::mem::take(&mut self.marked[usize::try_from(page.0).unwrap()])
    }

    fn fetch(&mut self, pages: Range<PageIndex>, marker: Option<PageIndex>) -> Pages {
        let mut count = Pages::ZERO;
        for page in pages.start.0..pages.end.0 {
            let here = usize::try_from(page).unwrap();
            assert!(here < self.resident.len(), "page {page} lies past the end of the file");
            if !self.resident[here] && (!self.brings_least || page == self.next) {
                self.resident[here] = true;
                self.marked[here] = marker == Some(PageIndex(page));
                count += Pages(1);
            }
        }
        count
    }

    fn consume(&mut self, page: PageIndex) {
        assert!(self.is_there(page.0), "page {page} is taken before it was fetched");
        assert_eq!(page.0, self.next, "pages are taken once each, in order");
        self.next += 1;
    }
}

/// Beyond the reach of all policies.
pub(crate) const NO_HOLE: u64 = 1 << 30;

/// A page and its resident surroundings: a run before it, and a run from it on, which a missing
/// page does not have. Next to each run is a hole; past the holes is `elsewhere`.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    page: u64,
    before: u64,
    ahead: u64,
    elsewhere: bool,
    /// Limits of the policy's look-back and look-ahead: each look-up costs time on every random
    /// read.
    reach: (u64, u64),
}

impl Around {
    pub(crate) fn new(
        policy: Policy,
        limits: WindowLimits,
        ask: Ask,
        before: u64,
        ahead: u64,
        elsewhere: bool,
    ) -> Self {
        let (max, io_pages) = (limits.max.0, limits.io_pages.0.min(ask.count.0));
        let reach = match policy.name() {
            "none" => (0, 0),
            "linux-2.6.28" | "fixed" | "distance" => (0, max + 1),
            // The marker goes on the first missing page behind the read.
            "adaptive" => (max, ask.count.0 + max + 1),
            "linux-2.6.31" => (max, max + 1),
            "thrash-2009" => (2 * max, max + 1),
            "thrash-2010" => (8 * max, max + 1),
            // One page less of history than a window: windows of one page find no stream by it.
            "linux-6" => (max.max(io_pages).saturating_sub(1), max.max(io_pages) + 1),
            name => unreachable!("{name} is none of policy::ALL"),
        };
        Self { page: ask.page.0, before, ahead, elsewhere, reach }
    }

    pub(crate) fn is_resident(&self, page: u64) -> bool {
        if page < self.page {
            let distance = self.page - page;
            distance <= self.before || (distance > self.before + 1 && self.elsewhere)
        } else {
            let distance = page - self.page;
            distance < self.ahead || (distance > self.ahead && self.elsewhere)
        }
    }
}

impl Residency for Around {
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        assert_eq!(page.0, self.page, "history counts back from the page asked for");
        assert!(limit.0 <= self.reach.0, "{limit} pages back is too far: {self:?}");
        let mut count = 0;
        while count < limit.0 && count < page.0 && self.is_resident(page.0 - count - 1) {
            count += 1;
        }
        Pages(count)
    }

    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        assert!(page.0 >= self.page, "no policy looks for a hole behind the page");
        let end = page.0 + limit.0;
        assert!(end <= self.page + self.reach.1, "{limit} from {page} is too far: {self:?}");
        (page.0..end).find(|page| !self.is_resident(*page)).map(PageIndex)
    }
}
