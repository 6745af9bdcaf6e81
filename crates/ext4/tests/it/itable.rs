//! Adaptive inode-table windows: blocks read along in tree walks, single look-ups, and tables that
//! exceed the cache.

use std::collections::{BTreeSet, VecDeque};

use foreread_ext4::itable::{
    Adaptive, BlockIndex, Cost, FixedWindow, InodeTable, ItableBound, Why,
};

/// 1 ms a request, 100 MB/s: reading a block along costs a 26th of reading it alone.
const DISK: Cost = Cost { fixed_ns: 1e6, ns_per_byte: 10.0 };

const BLOCK: u32 = 4096;

/// A cache that evicts nothing.
const ALL: usize = 1 << 20;

/// Groups with tables of 512 used blocks.
fn table_of(block: u64) -> InodeTable {
    InodeTable::new(BlockIndex(block & !511), 8192, 16, 0).unwrap()
}

/// A reader's cache: the most recently read inode blocks.
struct Cache {
    order: VecDeque<u64>,
    held: BTreeSet<u64>,
    size: usize,
    requests: u64,
    blocks: u64,
}

enum Window {
    Fixed(FixedWindow),
    Adaptive(Box<Adaptive>, Cost),
}

impl Cache {
    fn new(size: usize) -> Self {
        Self { order: VecDeque::new(), held: BTreeSet::new(), size, requests: 0, blocks: 0 }
    }

    fn look(&mut self, window: &mut Window, block: u64) {
        if !self.held.contains(&block) {
            let (table, wanted) = (table_of(block), BlockIndex(block));
            let blocks = match window {
                Window::Fixed(fixed) => fixed.decide(table, wanted).unwrap(),
                Window::Adaptive(adaptive, cost) => {
                    adaptive.decide(table, wanted, *cost, BLOCK).unwrap().blocks
                }
            };
            self.requests += 1;
            for each in blocks.start.0..blocks.end.0 {
                if self.held.insert(each) {
                    self.blocks += 1;
                    self.order.push_back(each);
                }
            }
            while self.order.len() > self.size {
                let oldest = self.order.pop_front().unwrap();
                if oldest != block {
                    self.held.remove(&oldest);
                }
            }
        }
        if let Window::Adaptive(adaptive, _) = window {
            adaptive.used(BlockIndex(block));
        }
    }

    fn seconds(&self, cost: Cost) -> f64 {
        (self.requests as f64 * cost.fixed_ns
            + self.blocks as f64 * f64::from(BLOCK) * cost.ns_per_byte)
            / 1e9
    }
}

fn adaptive(cost: Cost) -> Window {
    Window::Adaptive(Box::default(), cost)
}

fn fixed(blocks: u64) -> Window {
    Window::Fixed(FixedWindow::new(blocks, ItableBound::Exact).unwrap())
}

fn walk(mut window: Window, size: usize, looks: impl IntoIterator<Item = u64>) -> Cache {
    let mut cache = Cache::new(size);
    for block in looks {
        cache.look(&mut window, block);
    }
    cache
}

/// A repeatable sequence of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap();
            all.swap(last, other);
        }
    }
}

/// 20 groups of 50 directories of 100 files. The inodes of a directory are adjacent; directories
/// and files are visited in hash order.
fn tree() -> Vec<u64> {
    let mut numbers = Numbers(1);
    let mut looks = Vec::new();
    for group in 0..20 {
        let mut directories: Vec<u64> = (0..50).collect();
        numbers.shuffle(&mut directories);
        for directory in directories {
            let mut inodes: Vec<u64> = (0..100).collect();
            numbers.shuffle(&mut inodes);
            let block = |inode| (1 << 20) + (group * 8192 + 50 + directory * 100 + inode) / 16;
            looks.extend(inodes.into_iter().map(block));
        }
    }
    looks
}

#[test]
fn one_file_that_is_looked_at_brings_nothing_along() {
    let mut adaptive = Adaptive::new();
    for block in [1_000_000, 5_000_000, 9_000_000] {
        let decision = adaptive.decide(table_of(block), BlockIndex(block), DISK, BLOCK).unwrap();
        assert_eq!(decision.blocks, BlockIndex(block)..BlockIndex(block + 1));
        assert_eq!(decision.why, Why::Single);
    }
}

#[test]
fn a_walk_in_hash_order_takes_fewer_requests_than_the_default_window_and_no_more_time() {
    let ours = walk(adaptive(DISK), ALL, tree());
    let default = walk(fixed(FixedWindow::DEFAULT_BLOCKS), ALL, tree());
    let largest = walk(fixed(256), ALL, tree());
    assert!(ours.requests * 4 < default.requests, "{} of {}", ours.requests, default.requests);
    assert!(ours.requests <= largest.requests, "{} of {}", ours.requests, largest.requests);
    assert!(ours.seconds(DISK) < default.seconds(DISK));
}

#[test]
fn random_looks_cost_hardly_more_than_without_readahead() {
    for tables in [13, 130, 1300, 13000] {
        let mut numbers = Numbers(2);
        let looks: Vec<_> = (0..1000).map(|_| numbers.below(tables * 512)).collect();
        let alone = walk(fixed(0), ALL, looks.iter().copied());
        let ours = walk(adaptive(DISK), ALL, looks);
        let (alone_s, ours_s) = (alone.seconds(DISK), ours.seconds(DISK));
        assert!(ours_s <= alone_s * 1.02, "{tables} tables: {ours_s} s, {alone_s} s");
    }
}

#[test]
fn what_is_gone_before_it_is_wanted_is_read_no_more() {
    let mut numbers = Numbers(2);
    let looks: Vec<_> = (0..16384).map(|_| numbers.below(1024)).collect();
    for memory_blocks in [64, 256] {
        let [alone, default] = [0, 32]
            .map(|blocks| walk(fixed(blocks), memory_blocks, looks.iter().copied()).seconds(DISK));
        let ours_s = walk(adaptive(DISK), memory_blocks, looks.iter().copied()).seconds(DISK);
        assert!(default > alone * 2.0, "the default is what must not be repeated");
        assert!(ours_s <= alone * 1.01, "{memory_blocks} blocks: {ours_s} s, {alone} s alone");
    }
}

#[test]
fn a_large_directory_that_memory_holds_is_read_in_few_requests_after_all() {
    let mut numbers = Numbers(2);
    let looks: Vec<_> = (0..16384).map(|_| numbers.below(1024)).collect();
    let ours = walk(adaptive(DISK), ALL, looks.iter().copied());
    let default = walk(fixed(32), ALL, looks);
    assert_eq!(ours.blocks, default.blocks, "both read all, once");
    assert!(ours.requests < default.requests, "{} of {}", ours.requests, default.requests);
}

#[test]
fn after_a_walk_random_looks_elsewhere_cost_no_more_than_alone() {
    let mut numbers = Numbers(2);
    // There are so many tables that few blocks of one are ever read.
    let looks: Vec<_> = (0..1000).map(|_| (1 << 30) + numbers.below(1300 * 512)).collect();
    let before = walk(adaptive(DISK), ALL, tree());
    let both = walk(adaptive(DISK), ALL, tree().into_iter().chain(looks.iter().copied()));
    let alone_s = walk(fixed(0), ALL, looks).seconds(DISK);
    let after_s = both.seconds(DISK) - before.seconds(DISK);
    assert!(after_s <= alone_s * 1.1, "{after_s} s, {alone_s} s alone");
}

#[test]
fn what_a_device_costs_decides_how_much_comes_along() {
    // The same look-ups have the same probabilities; one inode in five blocks is read.
    let window = |cost: Cost| {
        let mut adaptive = Adaptive::new();
        let mut numbers = Numbers(3);
        let mut blocks: Vec<u64> = (0..60).map(|place| (1 << 20) + place * 5).collect();
        numbers.shuffle(&mut blocks);
        let none = Cost { fixed_ns: 0.0, ns_per_byte: 1.0 };
        for block in blocks {
            let alone = adaptive.decide(table_of(block), BlockIndex(block), none, BLOCK).unwrap();
            assert_eq!(alone.blocks.end.0 - alone.blocks.start.0, 1, "a request costs nothing");
        }
        let block = (1 << 20) + 302;
        let decision = adaptive.decide(table_of(block), BlockIndex(block), cost, BLOCK).unwrap();
        decision.blocks.end.0 - decision.blocks.start.0
    };
    let seeks = window(Cost { fixed_ns: 7e6, ns_per_byte: 15.0 });
    let fast = window(Cost { fixed_ns: 5e3, ns_per_byte: 0.5 });
    assert!(seeks > 8, "{seeks} blocks on a disk");
    assert_eq!(fast, 1, "on a fast device");
}

#[test]
fn it_remembers_less_than_16_kib() {
    const { assert!(Adaptive::MEMORY_BYTES < 16 << 10) };
}

#[test]
fn windows_keep_within_their_table_whatever_was_seen() {
    let mut numbers = Numbers(4);
    let mut adaptive = Adaptive::new();
    for _ in 0..20_000 {
        let first = numbers.below(40) * 7;
        let unused = u32::try_from(numbers.below(400)).unwrap();
        let table = InodeTable::new(BlockIndex(first), 320, 16, unused).unwrap();
        let block = BlockIndex(first + numbers.below(24));
        let decision = adaptive.decide(table, block, DISK, BLOCK).unwrap();
        let blocks = decision.blocks;
        assert!(blocks.contains(&block), "{block}: {blocks:?}");
        let is_alone = blocks.end.0 - blocks.start.0 == 1;
        assert!(is_alone || blocks.start.0 >= first, "{block}: {blocks:?}");
        assert!(is_alone || blocks.end <= table.used_end(), "{block}: {blocks:?}");
        adaptive.used(BlockIndex(numbers.below(320)));
    }
    let table = InodeTable::new(BlockIndex(10), 320, 16, 0).unwrap();
    assert_eq!(adaptive.decide(table, BlockIndex(9), DISK, BLOCK), None);
    let behind = adaptive.decide(table, BlockIndex(40), DISK, BLOCK).unwrap();
    assert_eq!(behind.why, Why::Unused);
}
