//! The cost of one read-ahead decision.
//!
//!     cargo bench -p foreread-core
//!
//! The expensive case is a miss that no state explains, for which the policy counts 512 pages of
//! history in the page table. For comparison: the cheap decisions, and a reader's own cost: a
//! look-up, the check of its copy, or a pin.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use foreread_core::cache::{PageCache, Use};
use foreread_core::prefetch::{
    Ask, Policy, Residency, StreamState, Streams, Trigger, Window, WindowLimits,
};
use foreread_core::table::FileSlot;
use foreread_core::units::{ByteCount, PageIndex, Pages};

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

/// Returns the first page of stream `number`.
fn far(number: usize) -> PageIndex {
    PageIndex((number as u64) << 40)
}

/// Returns the state of a file in which `count` streams have met their first marker.
fn streams_of(count: usize, limits: WindowLimits, residency: &impl Residency) -> Streams {
    let (mut state, mut streams) = (StreamState::default(), Streams::default());
    for number in 1..=count {
        let prev_pos = Some(far(number).offset());
        let start = Ask {
            page: far(number),
            count: Pages(1),
            trigger: Trigger::Miss,
            prev_pos,
            has_waited: true,
        };
        let mut ask = |ask| {
            let decision =
                Policy::Adaptive.decide(&mut state, &mut streams, ask, limits, residency);
            decision.expect("a stream").window
        };
        let first = ask(start);
        let page = first.marker().expect("a first window has a marker");
        ask(Ask { page, trigger: Trigger::Marker, ..start });
    }
    assert_eq!(streams.count(), (count, 0));
    streams
}

fn decisions(c: &mut Criterion) {
    let cache = cache();
    let residency = cache.residency(FILE);
    let page = PageIndex(FIRST + HISTORY);
    let limits = WindowLimits { max: Pages(HISTORY + 1), io_pages: Pages(0) };
    let ask = Ask {
        page,
        count: Pages(1),
        trigger: Trigger::Miss,
        prev_pos: Some(ByteCount(1)),
        has_waited: true,
    };
    assert_eq!(residency.history(page, limits.max), Pages(HISTORY));

    let mut group = c.benchmark_group("decision");
    for policy in Policy::ALL {
        group.bench_function(format!("{}, 512 pages of history", policy.name()), |b| {
            let mut streams = Streams::default();
            let mut state = StreamState::default();
            b.iter(|| policy.decide(&mut state, &mut streams, black_box(ask), limits, &residency));
        });
    }
    let window = Window { start: PageIndex(50), size: Pages(32), async_size: Pages(32) };
    let mut known = StreamState { window, ..StreamState::default() };
    let marker = Ask { page: PageIndex(50), trigger: Trigger::Marker, ..ask };
    group.bench_function("linux-6, marker of a known stream", |b| {
        let mut streams = Streams::default();
        b.iter(|| {
            Policy::Linux6.decide(&mut known, &mut streams, black_box(marker), limits, &residency)
        });
    });
    for streams_before in [1, Streams::CONFIRMED_MAX] {
        let name = format!("adaptive, marker of one of {streams_before} streams");
        let mut streams = streams_of(streams_before, limits, &residency);
        group.bench_function(name, |b| {
            // The chain of the last one, far from all resident pages.
            let mut page = far(streams_before) + Pages(1);
            b.iter(|| {
                let marker = Ask { page, ..marker };
                let decision = Policy::Adaptive
                    .decide(&mut known, &mut streams, black_box(marker), limits, &residency)
                    .expect("the marker of a known stream");
                page = decision.window.start;
            });
        });
    }
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
