//! What one decision costs.
//!
//!     cargo bench -p foreread-core
//!
//! The dear case: a miss that no state explains, so that the policy counts 512 pages of history in
//! the page table. Beside it the cheap ones, and what a reader pays: a look-up, a check that what
//! it copied is the page, or a pin.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use foreread_core::cache::{PageCache, Use};
use foreread_core::readahead::{Ask, Limits, Policy, Residency, Trigger, Window};
use foreread_core::table::FileSlot;
use foreread_core::units::{Bytes, PageIndex, Pages};

const FILE: FileSlot = FileSlot(3);
const HISTORY: u64 = 512;
const FIRST: u64 = 100_037;

fn cache() -> PageCache {
    let mut cache = PageCache::with_frames(16_384);
    for page in FIRST..FIRST + HISTORY {
        let filling = cache.start_fill(FILE, PageIndex(page), Use::Wanted, false);
        cache.filled(filling);
    }
    cache
}

fn decisions(c: &mut Criterion) {
    let cache = cache();
    let residency = cache.residency(FILE);
    let page = PageIndex(FIRST + HISTORY);
    let limits = Limits { max: Pages(HISTORY + 1), io_pages: Pages(0) };
    let ask = Ask { page, count: Pages(1), trigger: Trigger::Miss, prev_pos: Some(Bytes(1)) };
    assert_eq!(residency.history(page, limits.max), Pages(HISTORY));

    let mut group = c.benchmark_group("decision");
    for policy in Policy::ALL {
        group.bench_function(format!("{}, 512 pages of history", policy.name()), |b| {
            b.iter(|| policy.decide(Window::default(), black_box(ask), limits, &residency));
        });
    }
    let known = Window { start: PageIndex(50), size: Pages(32), async_size: Pages(32) };
    let marker = Ask { page: PageIndex(50), trigger: Trigger::Marker, ..ask };
    group.bench_function("linux-6, marker of a known stream", |b| {
        b.iter(|| Policy::Linux6.decide(known, black_box(marker), limits, &residency));
    });
    group.finish();

    let table = cache.table();
    c.bench_function("look-up of a resident page", |b| {
        b.iter(|| table.look_up(FILE, black_box(PageIndex(FIRST + 77))).map(|found| found.entry()));
    });
    c.bench_function("look-up and check of a resident page", |b| {
        b.iter(|| {
            let found = table.look_up(FILE, black_box(PageIndex(FIRST + 77)));
            found.is_some_and(|found| black_box(found).still_holds())
        });
    });
    c.bench_function("look-up, pin and unpin of a resident page", |b| {
        b.iter(|| {
            let found = table.look_up(FILE, black_box(PageIndex(FIRST + 77))).unwrap();
            assert!(black_box(table.pin(&found)));
            table.unpin(found.entry().frame(), found.entry().generation())
        });
    });
}

criterion_group!(benches, decisions);
criterion_main!(benches);
