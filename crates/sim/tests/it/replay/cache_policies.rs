//! Eviction policies: exact counts, and what holds for all of them.

use std::collections::VecDeque;

use foreread_sim::cache_policy::{CacheKey, CachePolicyKind};
use foreread_sim::replay::{CacheUnit, count_misses};
use foreread_trace::TraceReader;

use crate::replay::support::{csv, skewed_pages};

/// The misses of a list that is searched from its start: slow, and plainly right.
fn model(pages: &[u64], capacity: usize, moves_hits: bool) -> u64 {
    let mut list = VecDeque::new();
    let mut misses = 0;
    for page in pages {
        let found = list.iter().position(|known| known == page);
        if let Some(at) = found {
            if moves_hits {
                list.remove(at);
                list.push_front(*page);
            }
            continue;
        }
        misses += 1;
        if list.len() == capacity {
            list.pop_back();
        }
        list.push_front(*page);
    }
    misses
}

#[test]
fn fifo_and_lru_miss_as_often_as_lists_do() {
    let pages = skewed_pages(20_000, 900, 1);
    let capacities = [1, 2, 7, 50, 333, 900];
    let text = csv(&pages);
    let reader = TraceReader::new(text.as_bytes(), "t").unwrap();
    let kinds = [CachePolicyKind::Fifo, CachePolicyKind::Lru];
    let counts = count_misses(reader, &kinds, &capacities, CacheUnit::Page).unwrap();
    assert_eq!(counts.len(), 12);
    for count in counts {
        let moves_hits = count.policy == CachePolicyKind::Lru;
        let expected = model(&pages, count.capacity, moves_hits);
        assert_eq!((count.uses, count.misses), (20_000, expected), "{count:?}");
    }
}

#[test]
fn no_policy_holds_more_than_its_capacity_or_hits_what_it_never_saw() {
    let pages = skewed_pages(30_000, 2_000, 2);
    for kind in CachePolicyKind::ALL {
        for capacity in [1, 2, 3, 10, 100, 1000, 3000] {
            let mut cache = kind.build(capacity);
            let mut seen = std::collections::HashSet::new();
            let mut misses = 0;
            for page in &pages {
                let key = CacheKey { file: 0, place: *page };
                let is_hit = cache.access(key);
                assert!(!is_hit || seen.contains(page), "{kind:?} hits a page at its first use");
                seen.insert(page);
                misses += usize::from(!is_hit);
                assert!(cache.len() <= capacity, "{kind:?} holds {}", cache.len());
            }
            assert!(misses >= seen.len(), "each page misses once");
            if capacity >= 2_000 && kind != CachePolicyKind::WTinyLfu {
                assert_eq!(misses, seen.len(), "{kind:?}: nothing is evicted");
            }
        }
    }
}

/// What the four were made for: a scan must not evict what is used again and again.
#[test]
fn policies_that_resist_scans_miss_less_than_lru() {
    let hot = skewed_pages(40_000, 200, 3);
    let mut pages = Vec::new();
    for (n, page) in (0_u64..).zip(hot) {
        pages.push(page);
        pages.push(1_000_000 + n);
    }
    let misses = |kind: CachePolicyKind| {
        let mut cache = kind.build(150);
        let miss = |page: &u64| !cache.access(CacheKey { file: 0, place: *page });
        pages.iter().map(miss).filter(|is_miss| *is_miss).count()
    };
    let lru = misses(CachePolicyKind::Lru);
    use CachePolicyKind::{Arc, S3Fifo, Sieve, WTinyLfu};
    for kind in [Sieve, S3Fifo, Arc, WTinyLfu] {
        assert!(misses(kind) < lru, "{kind:?}: {} of {lru}", misses(kind));
    }
}

#[test]
fn a_request_uses_each_page_that_it_touches_and_one_object() {
    let text = "time,offset,length\n0,4095,2\n1,0,4096\n2,8192,1\n";
    let count = |unit| {
        let reader = TraceReader::new(text.as_bytes(), "t").unwrap();
        let counts = count_misses(reader, &[CachePolicyKind::Lru], &[10], unit).unwrap();
        (counts[0].uses, counts[0].misses)
    };
    assert_eq!(count(CacheUnit::Page), (4, 3));
    assert_eq!(count(CacheUnit::Object), (3, 3));
    let reader = TraceReader::new(text.as_bytes(), "t").unwrap();
    assert!(count_misses(reader, &[CachePolicyKind::Lru], &[0], CacheUnit::Page).is_err());
}
