//! Read-ahead for a program with its own page cache, such as a buffer pool or a block cache.
//!
//!     cargo run -p foreread-core --example own_cache
//!
//! The program keeps its pool, threads and I/O. It implements `Residency`, which reports resident
//! pages, and `PageSet`, which starts fetches; a `ReadWalk` guides each read and decides what to
//! fetch. The program keeps a `Streams` for each file, and for each scan a `StreamState` and the
//! end of its last read.
//!
//! Pages are 4 KiB here. In a pool of 16 KiB pages, pool page 7 is pages 28 to 31, and a fetch of
//! 30..34 reads pool pages 7 and 8.

use std::collections::BTreeSet;
use std::ops::Range;

use foreread_core::prefetch::walk::{PageSet, PolicyMemory, ReadWalk};
use foreread_core::prefetch::{
    Advice, Policy, Residency, Rules, StreamState, Streams, WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

/// Stands for your pool: the resident pages of one file, and the pages with a marker (a bit in your
/// page descriptor).
#[derive(Default)]
struct Pool {
    resident: BTreeSet<PageIndex>,
    marked: BTreeSet<PageIndex>,
    requests: u64,
}

impl Residency for Pool {
    /// A pool with a bitmap can test a word at a time.
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

    /// Starts your I/O and returns. Pages in flight count as resident: their readers wait. Your
    /// pool may evict other pages, and may fetch fewer pages than requested.
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
        self.requests += u64::from(fetched > Pages(0));
        fetched
    }

    /// Pins the page and passes it to the scan.
    fn consume(&mut self, page: PageIndex) {
        assert!(self.resident.contains(&page));
    }
}

/// One scan.
#[derive(Clone, Copy, Default)]
struct Scan {
    state: StreamState,
}

impl Scan {
    fn read(&mut self, streams: &mut Streams, pool: &mut Pool, first: PageIndex, count: Pages) {
        let reader = ReadWalk {
            policy: Policy::Adaptive,
            limits: WindowLimits { max: Pages(32), io_pages: Pages(256) },
            end: PageIndex(4000),
            advice: Advice::Normal,
            rules: Rules::default(),
        };
        let memory = PolicyMemory { stream: &mut self.state, file: streams };
        reader.read(memory, pool, first, count, |decided| println!("  {decided}"));
        self.state.prev_pos = Some((first + count).offset());
    }
}

fn main() {
    // Two scans of one table alternate, 8 KiB at a time: 48 reads of 96 pages in all.
    println!("each scan has its own state:");
    let (mut pool, mut streams) = (Pool::default(), Streams::default());
    let mut scans = [Scan::default(); 2];
    for step in 0..24 {
        scans[0].read(&mut streams, &mut pool, PageIndex(2 * step), Pages(2));
        scans[1].read(&mut streams, &mut pool, PageIndex(2000 + 2 * step), Pages(2));
    }
    println!("{} requests for {} pages\n", pool.requests, pool.resident.len());

    // The same scans share one state, as two cursors of one connection do. The policy still tells
    // them apart by their positions, which `Streams` remembers for the file.
    println!("both share one:");
    let (mut pool, mut streams) = (Pool::default(), Streams::default());
    let mut shared = Scan::default();
    for step in 0..24 {
        shared.read(&mut streams, &mut pool, PageIndex(2 * step), Pages(2));
        shared.read(&mut streams, &mut pool, PageIndex(2000 + 2 * step), Pages(2));
    }
    println!("{} requests for {} pages", pool.requests, pool.resident.len());
}
