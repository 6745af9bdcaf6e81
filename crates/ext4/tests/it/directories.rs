//! Large directories: what a name costs with an index, without one, and with a damaged one.
//!
//! In:    a directory of 3000 names, indexed by e2fsck.
//! Out:   the blocks that a look-up reads; the list, from any place of it on.
//! Never: a name that only the index could find.

use crate::common::Command;
use crate::images;

use std::cell::Cell;
use std::fs;
use std::io;

use foreread_ext4::{BlockSource, Ext4, Inode, Journal};
use images::{can_make, folder};

const NAMES: usize = 3000;

/// Counts what is read.
struct Counted {
    bytes: Vec<u8>,
    reads: Cell<u64>,
}

impl BlockSource for Counted {
    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.reads.set(self.reads.get() + 1);
        self.bytes.read(offset, to)
    }
}

/// An image with `/many`, indexed, without checksums so that it can be damaged.
fn image(options: &[&str]) -> Vec<u8> {
    let folder = folder();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("many")).unwrap();
    for n in 0..NAMES {
        fs::write(tree.join("many").join(name(n)), "").unwrap();
    }
    let features = ["-O", "^metadata_csum,^uninit_bg", "-d", tree.to_str().unwrap()];
    let image = images::make(folder.path(), 16, &[options, &features].concat());
    let e2fsck = Command::new("e2fsck").args(["-fyD"]).arg(&image).output().unwrap();
    // 1 says that something was mended.
    assert!(matches!(e2fsck.status.code(), Some(0 | 1)), "{e2fsck:?}");
    fs::read(image).unwrap()
}

fn name(n: usize) -> String {
    format!("a name of some length, {n}")
}

fn opened(bytes: Vec<u8>) -> (Ext4<Counted>, Inode) {
    let fs = Ext4::open(Counted { bytes, reads: Cell::new(0) }, Journal::Refuse).unwrap();
    let many = fs.resolve(b"many").unwrap();
    (fs, many)
}

/// How many reads every so many-th name needs, and one that is not there.
fn reads_of_lookups(fs: &Ext4<Counted>, many: &Inode, step: usize) -> (u64, u64) {
    let reads = || fs.source().reads.get();
    let before = reads();
    for n in (0..NAMES).step_by(step) {
        let found = fs.lookup(many, name(n).as_bytes()).unwrap().expect("a name");
        assert!(found >= fs.superblock().first_inode);
    }
    let between = reads();
    assert_eq!(fs.lookup(many, b"not there").unwrap(), None);
    (between - before, reads() - between)
}

#[test]
fn an_index_leads_to_a_name_in_few_blocks() {
    if !can_make("an_index_leads_to_a_name_in_few_blocks") {
        return;
    }
    // One level: the root, the leaf, and blocks of the map. Two of them with blocks of 1 KiB.
    for (options, most) in [(&["-b", "4096"][..], 3), (&["-b", "1024"], 6)] {
        let (fs, many) = opened(image(options));
        assert!(many.is_indexed());
        let (all, missing) = reads_of_lookups(&fs, &many, 1);
        assert!(all <= most * NAMES as u64, "{options:?}: {all} reads");
        assert!(missing <= most, "{options:?}: {missing} reads");
    }
}

#[test]
fn a_damaged_index_costs_reads_and_no_name() {
    if !can_make("a_damaged_index_costs_reads_and_no_name") {
        return;
    }
    let whole = image(&["-b", "1024"]);
    let (fs, many) = opened(whole.clone());
    let root = fs.run(&many, 0).unwrap().at.unwrap();
    let root = usize::try_from(root).unwrap() * 1024;
    // The kind of hash; its depth; how many entries there are; where they lead.
    for (at, byte) in [(0x1C, 9), (0x1E, 7), (0x23, 0xFF), (0x25, 0x7F)] {
        let mut bytes = whole.clone();
        bytes[root + at] = byte;
        let (fs, many) = opened(bytes);
        let (_, missing) = reads_of_lookups(&fs, &many, 67);
        let blocks = many.size / 1024;
        // What is not there may be asked of a part of the index that is not damaged.
        assert!(missing >= blocks || at == 0x25, "{at:#x}: {missing} reads, {blocks} blocks");
    }
}

#[test]
fn a_list_goes_on_behind_any_name() {
    if !can_make("a_list_goes_on_behind_any_name") {
        return;
    }
    let (fs, many) = opened(image(&["-b", "1024"]));
    let all: Vec<_> = fs.read_dir(&many).unwrap().map(Result::unwrap).collect();
    assert_eq!(all.len(), NAMES);
    for (index, entry) in all.iter().enumerate().step_by(307) {
        let rest = fs.read_dir_from(&many, entry.next).unwrap().map(Result::unwrap);
        assert!(rest.eq(all[index + 1..].iter().cloned()), "behind {index}");
    }
    assert_eq!(fs.read_dir_from(&many, u64::MAX).unwrap().count(), 0);
}
