//! The example of a B+tree over pinned pages.
//!
//! In:    trees that are larger than the memory, damaged ones.
//! Out:   the entries that they were built of, by several threads.
//! Never: a pin that is left behind, or a panic.

use crate::common;
use crate::support;

#[path = "../../examples/btree_pages.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example has a main of its own")]
mod example;

use std::path::PathBuf;
use std::thread;

use example::{Scan, Tree, build};
use foreread::{Engine, OpenOptions};
use support::{Random, wait_until_idle};

const COUNT: u64 = 200_000;

fn entries() -> Vec<(u64, u64)> {
    (0..COUNT).map(|at| (at * 3 + 1, at.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

/// The tree has 3 MiB; the engine 1 MiB, of which a quarter may be pinned.
fn opened(bytes: &[u8]) -> (tempfile::TempDir, PathBuf, Engine, Tree) {
    let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
    let path = dir.path().join("tree");
    std::fs::write(&path, bytes).expect("room");
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let options = OpenOptions::new().write(true);
    let tree = Tree::new(engine.open_with(&path, &options).expect("it is there"));
    (dir, path, engine, tree)
}

#[test]
fn threads_find_each_key_and_no_other() {
    let entries = entries();
    let (_dir, _, engine, tree) = opened(&build(&entries));
    thread::scope(|scope| {
        for seed in 0..4 {
            let (tree, entries) = (&tree, &entries);
            scope.spawn(move || {
                let mut random = Random(seed << 32);
                for _ in 0..5000 {
                    let at = random.below(COUNT);
                    let (key, value) = entries[usize::try_from(at).expect("it is small")];
                    assert_eq!(tree.get(key).expect("it is whole"), Some(value));
                    assert_eq!(tree.get(key + 1).expect("it is whole"), None);
                }
            });
        }
    });
    assert_eq!(tree.get(0).expect("it is whole"), None);
    assert_eq!(tree.get(u64::MAX).expect("it is whole"), None);
    wait_until_idle(&engine);
}

/// More scans than may be pinned: those beyond copy their page.
#[test]
fn a_thousand_scans_stand_in_the_tree_and_go_to_another_thread() {
    let entries = entries();
    let (_dir, _, engine, tree) = opened(&build(&entries));
    let mut scans: Vec<(usize, Scan)> = (0..1000)
        .map(|at| (at * 199, tree.scan(entries[at * 199].0 - 1).expect("it is whole")))
        .collect();
    for (at, scan) in &mut scans {
        assert_eq!(scan.next().expect("the first").expect("it is whole"), entries[*at]);
    }
    drop(tree);
    let reader = thread::spawn(move || {
        for (at, scan) in scans {
            for (found, wanted) in scan.take(300).zip(&entries[at + 1..]) {
                assert_eq!(found.expect("it is whole"), *wanted);
            }
        }
        entries
    });
    let entries = reader.join().expect("all entries are right");
    wait_until_idle(&engine);
    let (_dir, _, _engine, tree) = opened(&build(&entries));
    let all: Vec<_> =
        tree.scan(0).expect("it is whole").map(|it| it.expect("it is whole")).collect();
    assert!(all == entries);
}

#[test]
fn a_scan_keeps_its_page_while_the_tree_changes() {
    let entries = entries();
    let (_dir, path, engine, tree) = opened(&build(&entries));
    let old = tree.scan(0).expect("it is whole");
    assert!(tree.update(entries[7].0, 77).expect("it is whole"));
    assert!(!tree.update(entries[7].0 + 1, 78).expect("it is whole"));
    assert_eq!(tree.get(entries[7].0).expect("it is whole"), Some(77));
    let first = |scan: Scan| scan.take(9).map(|it| it.expect("it is whole")).collect::<Vec<_>>();
    assert_eq!(first(old), entries[..9]);
    assert_eq!(first(tree.scan(0).expect("it is whole"))[7], (entries[7].0, 77));
    // Written when the last handle of the file is dropped.
    drop(tree);
    wait_until_idle(&engine);
    let bytes = std::fs::read(path).expect("it is there");
    assert_eq!(bytes[16 + 7 * 16 + 8..][..8], 77_u64.to_le_bytes());
}

#[test]
fn an_empty_tree_has_no_entries_and_a_damaged_one_is_an_error() {
    let (_dir, _, _engine, tree) = opened(&build(&[]));
    assert_eq!(tree.get(1).expect("it is whole"), None);
    assert_eq!(tree.scan(0).expect("it is whole").count(), 0);

    let whole = build(&entries());
    let mut random = Random(5);
    let mut damaged = 0;
    for _ in 0..100 {
        let mut bytes = whole.clone();
        let from = usize::try_from(random.below(whole.len() as u64 / 4096)).expect("it is small");
        for byte in &mut bytes[from * 4096..][..64] {
            *byte = u8::try_from(random.below(256)).expect("a byte");
        }
        bytes.truncate(whole.len() - usize::try_from(random.below(2)).expect("it is small") * 9);
        let (_dir, _, _engine, tree) = opened(&bytes);
        let results = [tree.get(from as u64 * 255 * 3 + 1).map(drop), tree.get(1).map(drop)];
        let scanned = tree.scan(0).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let errors = results.into_iter().chain([scanned.map(drop)]).filter_map(Result::err);
        for error in errors {
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
            damaged += 1;
        }
    }
    assert!(damaged > 50, "{damaged} errors");
    assert!(opened(&[]).3.get(1).is_err() && opened(&[7; 4000]).3.scan(1).is_err());
}
