//! Read-ahead for a program that has a page cache of its own: a buffer pool, a block cache.
//!
//!     cargo run -p foreread-core --example own_cache
//!
//! The program keeps its pool, its threads and its I/O. It tells foreread which pages are resident
//! (`Residency`), lets `walk` take it through each read, and is told what to fetch (`PageSet`). One
//! `Window` per scan is all the state there is.

use std::collections::BTreeSet;
use std::ops::Range;

use foreread_core::readahead::walk::{PageSet, Reader};
use foreread_core::readahead::{Limits, Policy, Residency, Window};
use foreread_core::units::{Bytes, PageIndex, Pages};

/// Stands for your pool: which pages of one file it holds, and which of them carry a marker (a bit
/// in your page descriptor).
#[derive(Default)]
struct Pool {
    resident: BTreeSet<PageIndex>,
    marked: BTreeSet<PageIndex>,
}

impl Residency for Pool {
    /// A pool with a bitmap answers this a word at a time.
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        let before = |distance: u64| page.0.checked_sub(distance).map(PageIndex);
        let is_resident =
            |distance: &u64| before(*distance).is_some_and(|page| self.resident.contains(&page));
        Pages((1..=limit.0).take_while(is_resident).count() as u64)
    }

    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        let mut pages = (page.0..page.0 + limit.0).map(PageIndex);
        pages.find(|page| !self.resident.contains(page))
    }
}

impl PageSet for Pool {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.resident.contains(&page)
    }

    fn take_marker(&mut self, page: PageIndex) -> bool {
        self.marked.remove(&page)
    }

    /// Here you start your I/O. Pages on their way count as resident; whoever reads one waits for
    /// it.
    fn fetch(&mut self, pages: Range<PageIndex>, marker: Option<PageIndex>) -> Pages {
        let mut fetched = Pages(0);
        for page in (pages.start.0..pages.end.0).map(PageIndex) {
            if self.resident.insert(page) {
                fetched += Pages(1);
                if marker == Some(page) {
                    self.marked.insert(page);
                }
            }
        }
        fetched
    }

    /// Here you pin the page and hand it to the scan.
    fn consume(&mut self, page: PageIndex) {
        assert!(self.resident.contains(&page));
    }
}

fn main() {
    let mut pool = Pool::default();
    // Two scans of one table of 4000 pages, in turns, 8 KiB at a time, through one window: what two
    // cursors of one connection look like from below.
    let mut window = Window::default();
    let mut prev_pos = None;
    for step in 0..24 {
        for scan in [1, 2001] {
            let first = PageIndex(scan + 2 * step);
            let reader = Reader {
                policy: Policy::Linux6,
                limits: Limits { max: Pages(32), io_pages: Pages(256) },
                prev_pos,
                end: PageIndex(4000),
            };
            reader.read(&mut window, &mut pool, first, Pages(2), |decided| println!("{decided}"));
            prev_pos = Some(Bytes(first.offset().0 + 8192));
        }
    }
    println!("{} pages resident, {} of them were asked for", pool.resident.len(), 2 * 24 * 2);
}
