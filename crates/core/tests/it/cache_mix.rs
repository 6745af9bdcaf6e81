//! Hit ratios of two lists with shadows, compared with FIFO and LRU: the table in
//! docs/design/cache.md.
//!
//! `./dev golden` writes the table anew; the diff is the review.

#![expect(clippy::cast_possible_truncation, reason = "a rank of 5000")]
#![expect(clippy::cast_sign_loss, reason = "a power of a positive number")]

use crate::documented_table;

use std::collections::{BTreeMap, HashMap, VecDeque};

use documented_table::check_table;
use foreread_core::cache::{PageCache, Use};
use foreread_core::table::FileSlot;
use foreread_core::units::PageIndex;

const FRAMES: u32 = 1000;
const READS: u64 = 200_000;
const FILE: FileSlot = FileSlot(0);

/// A cache that reports whether a page was a hit.
trait Cache {
    fn read(&mut self, page: u64) -> bool;
}

/// The cache under test.
struct TwoLists(PageCache);

impl Cache for TwoLists {
    fn read(&mut self, page: u64) -> bool {
        let page = PageIndex(page);
        if let Some(found) = self.0.table().look_up(FILE, page) {
            found.touch(false);
            return true;
        }
        let filling = self.0.start_fill(FILE, page, Use::Wanted, false);
        self.0.filled(filling);
        false
    }
}

/// Evicts the page that came first.
#[derive(Default)]
struct Fifo {
    order: VecDeque<u64>,
    resident: HashMap<u64, ()>,
}

impl Cache for Fifo {
    fn read(&mut self, page: u64) -> bool {
        if self.resident.contains_key(&page) {
            return true;
        }
        if self.order.len() == FRAMES as usize {
            self.resident.remove(&self.order.pop_front().unwrap());
        }
        self.order.push_back(page);
        self.resident.insert(page, ());
        false
    }
}

/// Evicts the least recently used page.
#[derive(Default)]
struct Lru {
    now: u64,
    used: HashMap<u64, u64>,
    by_age: BTreeMap<u64, u64>,
}

impl Cache for Lru {
    fn read(&mut self, page: u64) -> bool {
        self.now += 1;
        let before = self.used.insert(page, self.now);
        self.by_age.insert(self.now, page);
        if let Some(before) = before {
            self.by_age.remove(&before);
            return true;
        }
        if self.used.len() > FRAMES as usize {
            let (_, oldest) = self.by_age.pop_first().unwrap();
            self.used.remove(&oldest);
        }
        false
    }
}

/// Mixes a number into one that looks random.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The page of read number `i`, and whether it counts; reads of a scan only disturb.
type Load = (&'static str, fn(u64) -> (u64, bool));

const SCAN: u64 = 1 << 40;

/// Every second read belongs to a scan that never comes back.
const LOADS: [Load; 6] = [
    ("600 pages at random beside a scan", |i| match i % 2 {
        0 => (mix(i) % 600, true),
        _ => (SCAN + i, false),
    }),
    ("the same, nine reads of the scan to one", |i| match i % 10 {
        0 => (mix(i) % 600, true),
        _ => (SCAN + i, false),
    }),
    ("900 pages, then 900 others, no scan", |i| (i / (READS / 2) * 10_000 + mix(i) % 900, true)),
    ("5000 pages, few of them often (1/rank)", |i| {
        let part = mix(i) as f64 / u64::MAX as f64;
        (5000_f64.powf(part) as u64, true)
    }),
    ("1200 pages round and round", |i| (i % 1200, true)),
    ("50,000 pages at random", |i| (mix(i) % 50_000, true)),
];

fn hits(cache: &mut dyn Cache, load: fn(u64) -> (u64, bool)) -> String {
    let (mut hits, mut counted) = (0_u64, 0_u64);
    for i in 0..READS {
        let (page, counts) = load(i);
        let hit = cache.read(page);
        counted += u64::from(counts);
        hits += u64::from(counts && hit);
    }
    let per_mille = hits * 1000 / counted;
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

#[test]
fn the_table_of_hit_rates_is_what_the_caches_do() {
    let head = "| reads of | two lists | last used | first in |\n|---|---|---|---|\n";
    let mut table = String::new();
    for (name, load) in LOADS {
        let ours = hits(&mut TwoLists(PageCache::with_frames(FRAMES)), load);
        let lru = hits(&mut Lru::default(), load);
        let fifo = hits(&mut Fifo::default(), load);
        table += &format!("| {name} | {ours} | {lru} | {fifo} |\n");
    }
    check_table("design/cache.md", head, &table);
}
