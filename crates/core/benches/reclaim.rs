//! The cost of finding frames for a window among read-ahead pages.
//!
//!     cargo bench -p foreread-core --bench reclaim
//!
//! A window of 32 pages is repeatedly reclaimed, read ahead and used. The cache contains no unused
//! pages, or 19 for each used one, so that the hand looks at 20 pages to free one. The last case
//! has no list for read-ahead pages: the fills evict inactive pages.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use foreread_core::cache::{PageCache, Use};
use foreread_core::table::FileSlot;
use foreread_core::units::{PageIndex, Pages};

const FRAMES: u32 = 16_384;
const WINDOW: u64 = 32;
const FILE: FileSlot = FileSlot(3);
const IDLE: FileSlot = FileSlot(4);

fn read(cache: &mut PageCache, file: FileSlot, start: u64, pages: u64, is_used: bool) {
    for page in (start..start + pages).map(PageIndex) {
        let filling = cache.start_fill(file, page, Use::Ahead, false);
        cache.filled(filling);
    }
    if is_used {
        (start..start + pages).for_each(|page| cache.touch(file, PageIndex(page), false));
    }
}

/// Creates a cache full of pages, of which one in `used_1_in` was used.
fn full(keeps_unread: bool, used_1_in: u64) -> PageCache {
    let mut cache = PageCache::with_frames(FRAMES);
    cache.set_keeps_unread(keeps_unread);
    let used = u64::from(FRAMES) / used_1_in;
    read(&mut cache, IDLE, 0, u64::from(FRAMES) - used, false);
    read(&mut cache, FILE, 0, used, true);
    cache
}

fn reclaims(c: &mut Criterion) {
    let mut group = c.benchmark_group("32 pages reclaimed, read ahead and used");
    for (name, keeps_unread, used_1_in) in [
        ("without a list of their own", false, 1),
        ("all others used", true, 1),
        ("one in 20 used", true, 20),
    ] {
        group.bench_function(name, |b| {
            let mut cache = full(keeps_unread, used_1_in);
            let mut next = 1 << 20;
            b.iter(|| {
                let free = cache.reclaim(Pages(WINDOW), |_, _| true);
                let window = free.0.min(WINDOW);
                read(&mut cache, FILE, next, window, true);
                next += window;
            });
            assert!(!keeps_unread || cache.stats().evicted_before_use == 0, "clipped, not evicted");
        });
    }
    group.finish();
    c.bench_function("32 pages not found: all are unread, and live", |b| {
        let mut cache = full(true, u64::MAX);
        b.iter(|| black_box(cache.reclaim(Pages(WINDOW), |_, _| true)));
    });
}

criterion_group!(benches, reclaims);
criterion_main!(benches);
