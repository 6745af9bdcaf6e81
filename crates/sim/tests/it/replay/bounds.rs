//! What nothing can better: MIN against all choices, and replays against their bounds.

use std::collections::HashMap;
use std::fmt::Write as _;

use foreread_core::path::IoPath;
use foreread_core::prefetch::Policy;
use foreread_core::units::{ByteCount, Pages};
use foreread_sim::cache_policy::{CacheKey, CachePolicyKind, UseCollector};
use foreread_sim::lower_bounds::{LowerBounds, fewest_ranges};
use foreread_sim::replay::{
    CacheUnit, Replay, ReplayBounds, ReplayPace, TraceFuture, count_misses, fewest_misses, replay,
};
use foreread_sim::rng::Rng;
use foreread_sim::scenario::{CacheSpec, EvictionName};
use foreread_sim::size::Size;
use foreread_trace::{TraceReader, TraceSummary};

use crate::replay::playing::{HEADING, OPEN, how, play, scan};
use crate::replay::support::{csv, skewed_pages};

fn key(place: u64) -> CacheKey {
    CacheKey { file: 0, place }
}

fn min_of(uses: &[u64], capacity: usize) -> u64 {
    let mut all = UseCollector::default();
    for place in uses {
        let _ = all.add(key(*place));
    }
    all.finish().expect("few").fewest_misses(capacity)
}

/// The fewest misses by trying each victim: `cached` is a set of bits.
fn by_trying(
    uses: &[u64],
    capacity: u32,
    cached: u32,
    known: &mut HashMap<(usize, u32), u64>,
) -> u64 {
    let Some((first, rest)) = uses.split_first() else { return 0 };
    if let Some(misses) = known.get(&(uses.len(), cached)) {
        return *misses;
    }
    let bit = 1 << first;
    let fewest = if cached & bit != 0 {
        by_trying(rest, capacity, cached, known)
    } else if cached.count_ones() < capacity {
        1 + by_trying(rest, capacity, cached | bit, known)
    } else {
        let victims = (0..32).filter(|victim| cached & 1 << victim != 0);
        let with = |victim: u32| cached & !(1 << victim) | bit;
        let tried = victims.map(|victim| by_trying(rest, capacity, with(victim), known));
        1 + tried.min().expect("a full cache has a victim")
    };
    known.insert((uses.len(), cached), fewest);
    fewest
}

#[test]
fn min_misses_as_often_as_the_best_of_all_choices() {
    let mut rng = Rng::new(11);
    for case in 0..400 {
        let (keys, len) = (2 + rng.below(6), 1 + rng.below(24));
        let uses: Vec<u64> = (0..len).map(|_| rng.below(keys)).collect();
        for capacity in 1..=4_u32 {
            let tried = by_trying(&uses, capacity, 0, &mut HashMap::new());
            assert_eq!(min_of(&uses, capacity as usize), tried, "case {case}: {uses:?}");
        }
    }
}

#[test]
fn no_policy_misses_less_than_min_and_min_gains_from_each_page() {
    let pages = skewed_pages(20_000, 900, 6);
    let text = csv(&pages);
    let open = || TraceReader::new(text.as_bytes(), "t").unwrap();
    let capacities = [1, 5, 40, 200, 899, 900];
    let fewest = fewest_misses(open(), &capacities, CacheUnit::Page).unwrap().expect("few uses");
    assert!(fewest.is_sorted_by(|one, other| one >= other), "{fewest:?}");
    let counts = count_misses(open(), &CachePolicyKind::ALL, &capacities, CacheUnit::Page).unwrap();
    assert_eq!(counts.len(), CachePolicyKind::ALL.len() * capacities.len());
    for count in counts {
        let at = capacities.iter().position(|capacity| *capacity == count.capacity).unwrap();
        assert!(count.misses >= fewest[at], "{count:?}: MIN has {}", fewest[at]);
    }
    let distinct = pages.iter().collect::<std::collections::HashSet<_>>().len() as u64;
    assert_eq!(fewest[5], distinct, "all of them fit");
}

#[test]
fn ranges_cover_pages_of_each_device_with_the_fewest() {
    let pages = |places: &[u64]| places.iter().copied().map(key).collect::<Vec<_>>();
    assert_eq!(fewest_ranges(pages(&[0, 1, 3, 8, 10, 11]), Pages(4)), 2);
    assert_eq!(fewest_ranges(pages(&[3, 3, 4, 7, 6]), Pages(4)), 2);
    assert_eq!(fewest_ranges(vec![key(1), CacheKey { file: 1, place: 2 }], Pages(4)), 2);
    let bounds = LowerBounds::of([(0, 0..8), (0, 0..8)], Pages(4), Pages(2), Pages(0));
    // On the second pass four of the eight are still cached: 0, 1, 2, and 7, the last one read.
    let bounds = bounds.expect("few");
    assert_eq!((bounds.fewest_pages, bounds.fewest_requests), (12, Some(6)));
    // A request of three pages leaves one of the four; one of four would be the memory.
    let of = |largest| LowerBounds::of([(0, 0..8), (0, 0..8)], Pages(4), Pages(largest), Pages(0));
    assert_eq!(of(3).expect("few").fewest_requests, Some(4));
    assert_eq!(of(4).expect("few").fewest_requests, None);
}

fn bounds(text: &str, how: &Replay) -> ReplayBounds {
    let open = || TraceReader::new(std::io::Cursor::new(text.to_owned().into_bytes()), "t");
    let summary = TraceSummary::of(open().unwrap()).unwrap();
    let future = TraceFuture::of(&summary, &open).unwrap().expect("few reads");
    future.bounds(how, &open).unwrap()
}

/// 8 MiB at 100 MB/s behind one latency of a millisecond, with nothing to think.
#[test]
fn the_least_waiting_of_a_scan_is_its_transfer() {
    let at_once = how(Policy::None, ReplayPace::Closed { think: 0.0 });
    let least = bounds(&scan(), &at_once);
    assert_eq!(least.fewest_bytes, 8 << 20);
    let transfer_ns = (8 << 20) * 10;
    assert!(least.least_waited_ns.abs_diff(1_000_000 + transfer_ns) < 10, "{least:?}");
    let max_io = at_once.device.geometry().max_io;
    assert_eq!(least.fewest_requests, Some(2048_u64.div_ceil(max_io.0)));
    // With a millisecond for each 16 KiB, two reads wait: the first, and the one behind it.
    let least = bounds(&scan(), &how(Policy::None, OPEN));
    let read_ns = 16_384 * 10;
    let waited_ns = 1_000_000 + read_ns + 2 * read_ns;
    assert!(least.least_waited_ns.abs_diff(waited_ns) < 10, "{least:?}");
}

/// A burst that is due after a pause: what does not fit the memory comes when the burst is read.
#[test]
fn what_is_ahead_fits_the_memory() {
    let mut text = HEADING.to_owned();
    let _ = writeln!(text, "0,1,r,/data,0,4096");
    for n in 0..2048_u64 {
        let _ = writeln!(text, "1000000,1,r,/data,{},4096", 4096 * (n + 1));
    }
    let with = |memory: u64| {
        let mut how = how(Policy::None, OPEN);
        how.cache.memory = Size(ByteCount(memory));
        bounds(&text, &how).least_waited_ns
    };
    let first = 1_000_000 + 40_960;
    assert!(with(16 << 20).abs_diff(first) < 10, "all of the burst is ahead");
    let half = with(4 << 20) - first;
    // 1024 pages come one after the other: 1 + 2 + .. + 1024 times the time of a page.
    let sum = 1024 * 1025 / 2 * 40_960;
    assert!(half.abs_diff(sum) < sum / 500, "{half} of {sum}");
}

/// Reads at random and in order, of one thread, so that all of them are served in their order.
fn mixed(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut text = HEADING.to_owned();
    let (mut at, mut page) = (0, 0);
    for _ in 0..400 {
        at += rng.below(3000);
        page = if rng.below(4) == 0 { rng.below(3000) } else { page + 4 };
        let _ = writeln!(text, "{at},1,r,/data,{},{}", page * 4096, 4096 * (1 + rng.below(6)));
    }
    text
}

#[test]
fn no_replay_is_below_its_bounds() {
    for seed in 0..6 {
        let text = mixed(seed);
        for pace in [ReplayPace::Closed { think: 1.0 }, ReplayPace::Closed { think: 0.0 }] {
            for policy in [Policy::None, Policy::Linux6, Policy::Adaptive] {
                for eviction in [CachePolicyKind::TwoLists, CachePolicyKind::Lru] {
                    for (is_warmed, memory) in [(false, 2), (true, 2), (false, 16)] {
                        let mut how = Replay { is_warmed, ..how(policy, pace) };
                        how.cache.memory = Size(ByteCount(memory << 20));
                        how.cache.eviction = EvictionName(eviction);
                        let least = bounds(&text, &how);
                        let is = play(&text, &how);
                        let case = format!("{seed} {pace:?} {policy:?} {eviction:?} {memory}");
                        assert!(is.waited_ns >= least.least_waited_ns, "{case}: {least:?}");
                        let fewest = least.fewest_requests.expect("256K are less than 2 MiB");
                        assert!(is.requests >= fewest, "{case}: {least:?}");
                        assert!(is.device_bytes >= least.fewest_bytes, "{case}: {least:?}");
                    }
                }
            }
        }
    }
}

/// Below the path with one page a read, a policy misses as often as alone.
#[test]
fn below_the_path_each_policy_evicts_what_it_evicts_alone() {
    let pages = skewed_pages(12_000, 900, 8);
    let mut text = HEADING.to_owned();
    for page in &pages {
        let _ = writeln!(text, "0,1,r,/data,{},4096", page * 4096);
    }
    for kind in CachePolicyKind::ALL {
        let mut how = how(Policy::None, ReplayPace::Closed { think: 0.0 });
        how.cache = CacheSpec {
            memory: Size(ByteCount(1 << 20)),
            eviction: EvictionName(kind),
            ..how.cache
        };
        let frames = IoPath::new(how.cache.config([&how.device])).frame_count() as usize;
        let is_own = kind == CachePolicyKind::TwoLists;
        let capacity = if is_own { frames } else { frames * 8 / 9 };
        let reader = TraceReader::new(text.as_bytes(), "t").unwrap();
        let alone = count_misses(reader, &[kind], &[capacity], CacheUnit::Page).unwrap();
        let open = || TraceReader::new(std::io::Cursor::new(text.clone().into_bytes()), "t");
        let summary = TraceSummary::of(open().unwrap()).unwrap();
        let figures = replay(&how, &summary, &open).unwrap();
        assert_eq!(figures.requests, alone[0].misses, "{kind:?}");
    }
}
