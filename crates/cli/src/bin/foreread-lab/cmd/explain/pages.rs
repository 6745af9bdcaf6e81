//! The pages of one file, from which nothing is evicted.
//!
//! Pages are never evicted. A run of any length takes one entry.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use foreread_core::prefetch::Residency;
use foreread_core::prefetch::walk::PageSet;
use foreread_core::units::{PageIndex, Pages};

/// Runs of resident pages, and the markers on them.
#[derive(Clone, Default)]
pub(super) struct ResidentPages {
    /// Start and end of each run; adjacent runs are merged.
    runs: BTreeMap<PageIndex, PageIndex>,
    markers: BTreeSet<PageIndex>,
}

impl ResidentPages {
    /// Returns the run that contains the page.
    fn run_of(&self, page: PageIndex) -> Option<Range<PageIndex>> {
        let (&start, &end) = self.runs.range(..=page).next_back()?;
        (page < end).then_some(start..end)
    }

    /// Returns true if any of `pages` is resident.
    pub(super) fn touches(&self, pages: Range<PageIndex>) -> bool {
        self.is_resident(pages.start) || self.runs.range(pages).next().is_some()
    }

    /// Makes all of `pages` resident. Returns how many of them were not.
    pub(super) fn insert(&mut self, pages: Range<PageIndex>) -> Pages {
        if pages.is_empty() {
            return Pages::ZERO;
        }
        // One run from the first page that it touches to the last, in place of all in between.
        let before = self.runs.range(..=pages.start).next_back();
        let before = before.filter(|(_, end)| **end >= pages.start).map(|(start, _)| *start);
        let start = before.unwrap_or(pages.start);
        let mut end = pages.end;
        let mut added = pages.end - pages.start;
        while let Some((&run_start, &run_end)) = self.runs.range(start..=end).next() {
            self.runs.remove(&run_start);
            let common = run_end.min(pages.end).0.saturating_sub(run_start.max(pages.start).0);
            added -= Pages(common);
            end = end.max(run_end);
        }
        let replaced = self.runs.insert(start, end);
        assert!(replaced.is_none());
        added
    }

    /// Puts a marker on the page. False, and no marker, if it is not resident.
    pub(super) fn mark(&mut self, page: PageIndex) -> bool {
        let is_resident = self.is_resident(page);
        if is_resident {
            self.markers.insert(page);
        }
        is_resident
    }
}

impl Residency for ResidentPages {
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        let Some(before) = page.0.checked_sub(1) else {
            return Pages::ZERO;
        };
        self.run_of(PageIndex(before)).map_or(Pages::ZERO, |run| (page - run.start).min(limit))
    }

    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        let hole = self.run_of(page).map_or(page, |run| run.end);
        (hole - page < limit).then_some(hole)
    }
}

impl PageSet for ResidentPages {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.run_of(page).is_some()
    }

    fn take_marker(&mut self, page: PageIndex) -> bool {
        self.markers.remove(&page)
    }

    fn fetch(&mut self, pages: Range<PageIndex>, marker: Option<PageIndex>) -> Pages {
        // A page that was resident before keeps no new marker: nothing of this window is on it.
        let marker = marker.filter(|page| pages.contains(page) && !self.is_resident(*page));
        let fetched = self.insert(pages);
        if let Some(page) = marker {
            self.markers.insert(page);
        }
        fetched
    }

    fn consume(&mut self, page: PageIndex) {
        assert!(self.is_resident(page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 6;

    /// Two more than any range reaches, so that every run has a hole behind it.
    const FLAGS: usize = 8;

    /// Every way to insert three ranges, against one flag a page.
    #[test]
    fn runs_hold_what_single_pages_would() {
        let ranges: Vec<_> =
            (0..=PAGES).flat_map(|start| (start..=PAGES).map(move |end| start..end)).collect();
        for first in &ranges {
            for second in &ranges {
                for third in &ranges {
                    let mut runs = ResidentPages::default();
                    let mut flags = [false; FLAGS];
                    for range in [first, second, third] {
                        let added = runs.insert(PageIndex(range.start)..PageIndex(range.end));
                        let mut want = 0;
                        for page in range.clone() {
                            let flag = &mut flags[usize::try_from(page).unwrap()];
                            want += u64::from(!*flag);
                            *flag = true;
                        }
                        assert_eq!(added, Pages(want), "{first:?} {second:?} {third:?}");
                    }
                    agree(&runs, &flags);
                }
            }
        }
    }

    fn agree(runs: &ResidentPages, flags: &[bool]) {
        for (index, &flag) in flags.iter().enumerate() {
            let page = PageIndex(index as u64);
            assert_eq!(runs.is_resident(page), flag, "{page}");
            let history = flags[..index].iter().rev().take_while(|&&flag| flag).count() as u64;
            let hole = (index..flags.len()).find(|&at| !flags[at]).unwrap() as u64;
            for limit in 0..=PAGES {
                assert_eq!(runs.history(page, Pages(limit)), Pages(history.min(limit)), "{page}");
                let want = (hole < page.0 + limit).then_some(PageIndex(hole));
                assert_eq!(runs.next_hole(page, Pages(limit)), want, "{page}");
            }
        }
    }

    #[test]
    fn a_marker_is_taken_once_and_only_new_pages_get_one() {
        let mut pages = ResidentPages::default();
        assert!(!pages.mark(PageIndex(3)));
        assert_eq!(pages.fetch(PageIndex(0)..PageIndex(4), Some(PageIndex(3))), Pages(4));
        assert_eq!(pages.fetch(PageIndex(2)..PageIndex(6), Some(PageIndex(2))), Pages(2));
        assert!(!pages.take_marker(PageIndex(2)));
        assert!(pages.take_marker(PageIndex(3)));
        assert!(!pages.take_marker(PageIndex(3)));
    }
}
