//! Trees of ext4, and processes that walk them.

use std::collections::{BTreeMap, BTreeSet};

use foreread_core::sched::Op;
use foreread_core::units::ByteCount;
use foreread_ext4::itable::{FixedWindow, ItableBound};
use foreread_sim::ext4::{
    Directory, InodeNumber, LayoutSource, RecordedLayout, SyntheticTree, TreeLayout,
};
use foreread_sim::record::RecordMode;
use foreread_sim::rng::Rng;
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::Scenario;
use foreread_sim::workload::Workload;
use foreread_sim::workload::mount::{EntryOrder, InodeReadahead, WINDOWS};

const SIZE: ByteCount = ByteCount(8 << 30);
const GROUP_BLOCKS: u64 = 32768;
const FIND: &str = include_str!("../../scenarios/002-find.toml");
const GIT_STATUS: &str = include_str!("../../scenarios/002-git-status.toml");
const HTREE: &str = include_str!("../../scenarios/002-htree.toml");

/// Trees of all kinds: small and large, tidy and aged, with full groups that spill into others.
fn trees() -> impl Iterator<Item = (u64, SyntheticTree)> {
    (0..60).map(|seed| {
        let mut rng = Rng::named(seed, "a tree");
        let directories = 1 + u32::try_from(rng.below(300)).unwrap();
        let tree = SyntheticTree {
            directories,
            top: 1 + u32::try_from(rng.below(u64::from(directories.min(40)))).unwrap(),
            files: rng.unit() * 40.0,
            files_sigma: rng.unit() * 1.5,
            late: rng.unit(),
            gaps: rng.unit(),
            gap: rng.unit() * 100.0,
            gap_sigma: rng.unit() * 1.5,
            inode_size: 128 << rng.below(3),
            inodes_per_group: 1024 << rng.below(4),
        };
        (seed, tree)
    })
}

fn layouts() -> Vec<(u64, SyntheticTree, TreeLayout)> {
    let all: Vec<_> = trees()
        .filter(|(_, tree)| tree.check(SIZE).is_ok())
        .map(|(seed, tree)| {
            let layout = tree.draw(SIZE, Rng::new(seed)).expect("there is room");
            (seed, tree, layout)
        })
        .collect();
    assert!(all.len() > 40, "most trees are possible: {}", all.len());
    all
}

/// All inodes of a tree: those of its entries, and those of the directories that are in no other.
fn inodes(layout: &TreeLayout) -> Vec<InodeNumber> {
    let of_entries = layout.directories().iter().flat_map(|directory| &directory.entries);
    let of_tops = layout.tops().map(|id| layout.directory(id).inode);
    of_entries.map(|entry| entry.inode).chain(of_tops).collect()
}

#[test]
fn every_inode_is_in_exactly_one_place() {
    for (seed, tree, layout) in layouts() {
        let all = inodes(&layout);
        let apart: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(apart.len(), all.len(), "tree {seed}: two names, one inode");
        let mut in_block = BTreeMap::<_, u32>::new();
        for inode in all {
            let (block, table) = layout.place(inode);
            assert!(block < table.used_end(), "tree {seed}: {inode:?} is not in its table");
            let in_group = block.0 % GROUP_BLOCKS;
            let table_blocks = u64::from(tree.inodes_per_group / tree.inodes_per_block());
            assert!((2..2 + table_blocks).contains(&in_group), "tree {seed}: {inode:?}");
            assert!(block.0 / GROUP_BLOCKS < SIZE.0 / 4096 / GROUP_BLOCKS, "tree {seed}");
            *in_block.entry(block).or_default() += 1;
        }
        let most = in_block.into_values().max().expect("a tree has an inode");
        assert!(most <= tree.inodes_per_block(), "tree {seed}: {most} inodes in a block");
    }
}

#[test]
fn each_directory_is_an_entry_of_its_parent_and_of_no_other() {
    for (seed, tree, layout) in layouts() {
        assert_eq!(layout.directories().len(), tree.directories as usize, "tree {seed}");
        assert_eq!(layout.tops().count(), tree.top as usize, "tree {seed}");
        let mut entries = 0;
        for directory in layout.directories() {
            for entry in &directory.entries {
                let Some(id) = entry.directory else { continue };
                let below = layout.directory(id);
                let parent = layout.directory(below.parent.expect("it is below another"));
                assert!(std::ptr::eq(parent, directory), "tree {seed}");
                assert_eq!(below.inode, entry.inode, "tree {seed}");
                entries += 1;
            }
        }
        assert_eq!(entries + tree.top, tree.directories, "tree {seed}: one entry each");
    }
}

#[test]
fn blocks_of_directories_lie_behind_the_tables_and_do_not_overlap() {
    for (seed, tree, layout) in layouts() {
        let first_data = 2 + u64::from(tree.inodes_per_group / tree.inodes_per_block());
        let mut taken = BTreeSet::new();
        for directory in layout.directories() {
            for block in directory.blocks.iter().map(|block| block.0) {
                assert!(block % GROUP_BLOCKS >= first_data, "tree {seed}: {block} is a table's");
                assert!(block < SIZE.0 / 4096, "tree {seed}: {block} is behind the end");
                assert!(taken.insert(block), "tree {seed}: {block} is two directories'");
            }
            let mut entries = directory.entries.iter();
            assert!(entries.all(|entry| directory.block_of(entry).is_some()), "tree {seed}");
        }
    }
}

#[test]
fn hash_order_has_each_entry_of_a_directory_once() {
    let ranks = |directory: &Directory| -> BTreeSet<u32> {
        directory.entries.iter().map(|entry| entry.rank).collect()
    };
    for (seed, _, layout) in layouts() {
        for directory in layout.directories() {
            let count = u32::try_from(directory.entries.len()).unwrap();
            assert_eq!(ranks(directory), (0..count).collect(), "tree {seed}");
        }
    }
}

#[test]
fn no_window_leaves_its_table() {
    for (seed, _, layout) in layouts() {
        for inode in inodes(&layout) {
            let (block, table) = layout.place(inode);
            let group = block.0 / GROUP_BLOCKS;
            for bits in 0..12 {
                let window = FixedWindow::new(1 << bits, ItableBound::Exact).unwrap();
                let blocks = window.decide(table, block).expect("it is in its table");
                assert!(blocks.contains(&block), "tree {seed}: {blocks:?}");
                assert!(blocks.start.0 >= group * GROUP_BLOCKS + 2, "tree {seed}: {blocks:?}");
                assert!(blocks.end <= table.used_end(), "tree {seed}: {blocks:?}");
            }
        }
    }
}

#[test]
fn a_tidy_tree_lies_in_one_piece_and_in_the_order_of_its_names() {
    let tree: SyntheticTree = toml::from_str("directories = 20\nfiles = 30").expect("a tree");
    let layout = tree.draw(SIZE, Rng::new(1)).expect("there is room");
    let mut all = inodes(&layout);
    all.sort_unstable();
    let first = all[0].0;
    assert_eq!(all, (first..first + 20 * 31).map(InodeNumber).collect::<Vec<_>>());
}

#[test]
fn a_seed_gives_the_same_tree() {
    let (_, tree) = trees().nth(1).expect("there are more");
    let of = |seed| inodes(&tree.draw(SIZE, Rng::new(seed)).expect("there is room"));
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn a_tree_that_has_no_room_is_none() {
    let tree = SyntheticTree { files: 40.0, files_sigma: 0.0, ..trees().next().expect("one").1 };
    let tree =
        SyntheticTree { directories: 100, top: 1, inodes_per_group: 1024, inode_size: 256, ..tree };
    assert!(tree.draw(ByteCount(128 << 20), Rng::new(1)).is_none());
    assert!(tree.check(ByteCount(128 << 20)).is_err());
}

fn go(scenario: &Scenario) -> RunOutcome {
    let mut building = scenario.build(RecordMode::Hash).expect("a scenario of ours");
    building.run.go(scenario.until());
    building.run.end()
}

/// A small one of the find's trees, with windows of so many blocks.
fn find(blocks: u64, order: EntryOrder) -> (RunOutcome, TreeLayout) {
    let mut scenario = Scenario::built_in(FIND);
    let Workload::Find(find) = scenario.process[0].run.get_mut() else { panic!("it is a find") };
    let LayoutSource::Synthetic(tree) = &mut find.tree else { panic!("it is drawn") };
    (tree.directories, tree.top) = (200, 8);
    (find.mount.inode_readahead_blks, find.order) = (InodeReadahead::Fixed(blocks), order);
    let (tree, file) = (find.tree.clone(), find.mount.file.clone());
    let size = scenario.file[&file].size.0;
    let layout = tree.layout(size, Rng::named(scenario.seed, &file)).expect("room");
    (go(&scenario), layout)
}

/// How many aligned windows of so many blocks have a wanted inode in them, if none is evicted.
fn wanted(layout: &TreeLayout, blocks: u64) -> usize {
    let window = FixedWindow::new(blocks, ItableBound::Exact).unwrap();
    let starts = inodes(layout).into_iter().map(|inode| {
        let (block, table) = layout.place(inode);
        window.decide(table, block).expect("it is in its table").start
    });
    starts.collect::<BTreeSet<_>>().len()
}

#[test]
fn a_find_reads_each_directory_and_each_window_once_whatever_the_order() {
    for order in [EntryOrder::Sorted, EntryOrder::Htree] {
        for blocks in [0, 1, 4, 32, 512] {
            let (ran, layout) = find(blocks, order);
            let [meter] = &ran.processes[..] else { panic!("one process") };
            let (directories, all) = (layout.directories().len(), inodes(&layout).len());
            assert_eq!(meter.ops, (directories + all) as u64, "each once");
            let (windows, wanted) = (meter.other[WINDOWS], wanted(&layout, blocks) as f64);
            // A table's first window is moved behind its start, and may cover the second one's.
            let moved = if blocks > 1 { groups(&layout) as f64 } else { 0.0 };
            assert!(windows <= wanted, "{windows} of {wanted}: {blocks} {order:?}");
            assert!(windows >= wanted - moved, "{windows} of {wanted}: {blocks} {order:?}");
        }
    }
}

/// How many groups have inodes of the tree.
fn groups(layout: &TreeLayout) -> usize {
    let of_inodes = inodes(layout).into_iter().map(|inode| layout.place(inode).0.0 / GROUP_BLOCKS);
    of_inodes.collect::<BTreeSet<_>>().len()
}

#[test]
fn larger_windows_are_fewer_and_save_time_while_the_cache_holds_them() {
    let runs = [1, 4, 16, 64].map(|blocks| find(blocks, EntryOrder::Htree).0);
    for pair in runs.windows(2) {
        let [fewer, more] = [&pair[1], &pair[0]].map(|ran| ran.processes[0].other[WINDOWS]);
        assert!(fewer < more, "{fewer} after {more}");
        assert!(pair[1].end < pair[0].end, "{:?} after {:?}", pair[1].end, pair[0].end);
    }
}

#[test]
fn in_hash_order_a_small_cache_loses_what_a_window_brings() {
    let run = |memory: &str, blocks: u64| {
        let text = HTREE
            .replace("memory = \"2M\"", &format!("memory = \"{memory}\""))
            .replace("inode_readahead_blks = 32", &format!("inode_readahead_blks = {blocks}"))
            .replace("files = 16384", "files = 8192");
        go(&Scenario::built_in(&text)).end
    };
    assert!(run("64M", 32) < run("64M", 1));
    assert!(run("1M", 32) > run("1M", 1));
}

#[test]
fn git_status_looks_at_each_file_and_reads_its_objects() {
    let mut scenario = Scenario::built_in(GIT_STATUS);
    let Workload::GitStatus(git) = scenario.process[0].run.get_mut() else { panic!("it is git") };
    let LayoutSource::Synthetic(tree) = &mut git.tree else { panic!("it is drawn") };
    (tree.directories, git.objects) = (40, 25);
    let tree = git.tree.clone();
    let ran = go(&scenario);
    let layout = tree.layout(scenario.file["fs"].size.0, Rng::named(scenario.seed, "fs"));
    let layout = layout.expect("there is room");
    let entries: usize = layout.directories().iter().map(|directory| directory.entries.len()).sum();
    // An entry is looked up and its inode read; of a top-level directory only the inode.
    assert_eq!(ran.processes[0].ops, (2 * entries + layout.tops().count() + 25) as u64);
    assert_eq!(ran.unfinished, 0);
}

#[test]
fn impossible_trees_and_mounts_name_their_line() {
    let wrong = [
        ("inode_readahead_blks = 32", "inode_readahead_blks = 33", "a power of two"),
        ("file = \"fs\"", "file = \"gs\"", "no file \"gs\""),
        ("order = \"htree\"", "order = \"hash\"", "`sorted` or `htree`"),
        ("late = 0.4", "late = 1.4", "late: must be 0 to 1"),
        ("top = 80", "top = 0", "top: must be 1 to directories"),
        ("top = 80", "tops = 80", "unknown field `tops`"),
        ("files = 13", "files = 1300", "directories: must be fewer"),
        ("files = 13", "files = nan", "files: must be"),
        ("entry_us = 10", "entry_us = -1", "entry_us: must be a time"),
    ];
    for (from, to, why) in wrong {
        let error = Scenario::parse(&FIND.replace(from, to)).expect_err(to).to_string();
        assert!(error.starts_with("line "), "{to}: {error}");
        assert!(error.contains(why), "{to}: {error}");
    }
    let wrong = [
        ("pack = \"pack\"\n", "", "objects: must be 0 without a pack"),
        ("pack = \"pack\"", "pack = \"p\"", "no file \"p\""),
    ];
    for (from, to, why) in wrong {
        let error = Scenario::parse(&GIT_STATUS.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
}

const LAB_FIND: &str = include_str!("../../scenarios/find.toml");
const LAB_GIT: &str = include_str!("../../scenarios/git-status.toml");
const LAB: &str = include_str!("../../data/lab.layout");

/// Seconds and requests of a scenario with these windows.
fn lab(text: &str, blocks: InodeReadahead) -> (f64, u64) {
    let mut scenario = Scenario::built_in(text);
    let run = scenario.process[0].run.get_mut();
    if let Workload::Find(find) = run {
        find.mount.inode_readahead_blks = blocks;
    } else if let Workload::GitStatus(git) = run {
        git.mount.inode_readahead_blks = blocks;
    } else {
        panic!("neither find nor git: {run:?}");
    }
    let ran = go(&scenario);
    (ran.processes[0].seconds(ran.end), ran.devices[0].requests(Op::Read))
}

#[test]
fn over_a_real_layout_one_block_at_a_time_is_what_the_kernel_reads() {
    // Counted on the kernel's ext4 with a window of one block, in a find of such an image.
    let (_, requests) = lab(LAB_FIND, InodeReadahead::Fixed(1));
    assert!(requests.abs_diff(7336) <= 1, "{requests}");
}

#[test]
fn over_a_real_layout_adaptive_windows_reach_the_large_fixed_ones() {
    for text in [LAB_FIND, LAB_GIT] {
        let (default_s, default) = lab(text, InodeReadahead::Fixed(32));
        let (large_s, _) = lab(text, InodeReadahead::Fixed(256));
        let (ours_s, ours) = lab(text, InodeReadahead::Adaptive);
        assert!(ours_s < default_s * 0.95, "{ours_s} s, {default_s} s");
        assert!(ours < default, "{ours} of {default}");
        assert!(ours_s < large_s * 1.05, "{ours_s} s, {large_s} s");
    }
}

#[test]
fn a_layout_is_read_as_it_was_written() {
    let taken = RecordedLayout::parse(LAB).expect("a layout of ours");
    assert_eq!(taken.directories.len(), 1 + 1 + 20 + 1000, "root, lost+found and the rest");
    let text = taken.text();
    assert!(LAB.ends_with(&text), "the same bytes behind the comment");
    let names: usize = taken.directories.iter().map(|directory| directory.entries.len()).sum();
    assert_eq!(names, 1021 + 100_000);
}

#[test]
fn impossible_layouts_name_their_line() {
    let head = "foreread layout 1\nblocks 99 inodes-per-group 32 inode-size 256 root 2\n";
    let wrong = [
        ("", "is missing"),
        ("foreread layout 2\n", "line 1: expected foreread layout 1"),
        ("foreread layout 1\nblocks\n", "line 2: expected blocks N"),
        (&format!("{head}tables 98:3\n9 -\n"), "line 3: expected tables within"),
        (&format!("{head}tables 9:3\n99 0:1\n"), "line 4: expected valid blocks, inodes"),
        (&format!("{head}tables 9:3\n9 1:1\n"), "line 4: expected valid blocks, inodes"),
        (&format!("{head}tables 9:3\n9 0:40\n"), "line 4: expected valid blocks, inodes"),
        (&format!("{head}tables 9:3\n9 0:1@1\n"), "line 4: expected valid blocks, inodes"),
        (&format!("{head}tables 9:3\n9 0-1\n"), "line 4: expected BLOCKS"),
        (&format!("{head}tables 9:3\n9 =4\n"), "line 4: expected BLOCKS"),
        (&format!("{head}tables 9:3\n9 0:1d\n"), "it names 2 directories and has 1"),
        (&format!("{head}tables 9:3\n9 0:1\n9 -\n"), "line 5: expected as many directories"),
    ];
    for (text, why) in wrong {
        let error = RecordedLayout::parse(text).expect_err(text);
        assert!(error.contains(why), "{text}: {error}");
    }
    for (from, to, why) in [
        ("tree = \"lab\"", "tree = \"lob\"", "no layout \"lob\""),
        ("tree = \"lab\"", "tree = \"./no-such\"", "./no-such: "),
        ("size = \"4G\"", "size = \"1G\"", "at least"),
        ("\"adaptive\"", "\"adaptiv\"", "adaptive"),
        ("\"adaptive\"", "-1", "is negative"),
    ] {
        let error = Scenario::parse(&LAB_FIND.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
}
