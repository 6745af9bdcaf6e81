//! Images that lie: damaged at random, cut short, and made to lead in circles.
//!
//! In:    small images of all kinds, a seed.
//! Out:   answers or errors, from every question there is.
//! Never: a panic, a read outside of the image, a buffer larger than a question needs, more reads
//!        than the image has room for reasons.
//!
//! `EXT4_FUZZ_IMAGES=120000` is how many damaged images are read instead of the few of a usual run;
//! a failure prints its `SEED`, with which only that one is read. With both, it is the first.

use crate::common;
use crate::common::Command;
mod damage;
mod every;
use crate::images;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use damage::{Random, damage, image_of_tree, images};
use every::{Watched, every_question};
use foreread_ext4::{Error, Ext4, ImageLocation, Journal};
use images::{can_make, debugfs_write, folder};

/// How many damaged images a usual run reads.
const USUAL: u64 = 3000;

#[test]
fn no_damage_brings_it_to_a_panic_a_hang_or_a_read_outside() {
    let test = "no_damage_brings_it_to_a_panic_a_hang_or_a_read_outside";
    if !can_make(test) {
        return;
    }
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let (first, count) = (number("SEED"), number("EXT4_FUZZ_IMAGES"));
    let count = count.unwrap_or(if first.is_some() { 1 } else { USUAL });
    let seeds = first.unwrap_or(0)..first.unwrap_or(0) + count;
    let images = images();
    let (mut opened, mut wrong, mut reads, mut most) = (0_u64, 0_usize, 0, 0);
    for seed in seeds.clone() {
        let mut random = Random(seed);
        let image = &images[random.below(images.len())];
        let bytes = damage(image, &mut random);
        let run = std::panic::catch_unwind(move || {
            let source = Watched::new(bytes);
            Ext4::open(source, Journal::Ignore).map(|fs| {
                let wrong = every_question(&fs).len();
                (wrong, fs.source().reads())
            })
        });
        match run {
            Ok(Ok((errors, its))) => {
                opened += 1;
                wrong += errors;
                reads += its;
                most = most.max(its);
            }
            Ok(Err(_)) => {}
            Err(_) => panic!("SEED={seed}, an image of kind {}", image.name),
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "{} damaged images, {opened} opened, {wrong} errors, {reads} reads, at most {most}",
        seeds.end - seeds.start
    );
    if seeds.end - seeds.start > 100 {
        // Else the damage would be too little or too much to say anything.
        assert!(opened > (seeds.end - seeds.start) / 2 && wrong > 100, "{opened} {wrong}");
    }
}

#[test]
fn every_length_of_an_image_is_too_short_but_the_whole() {
    if !can_make("every_length_of_an_image_is_too_short_but_the_whole") {
        return;
    }
    let image = &images()[0];
    for len in (0..image.bytes.len()).step_by(4099).chain([0, 1023, 1024, 1025, 2047, 2048]) {
        let error = Ext4::open(image.bytes[..len].to_vec(), Journal::Refuse).unwrap_err();
        if let Error::Short { wanted, found } = error {
            assert_eq!((wanted, found), (image.bytes.len() as u64, len as u64));
        } else {
            assert!(matches!(error, Error::NotExt4) && len < 2048, "{len}: {error}");
        }
    }
}

/// The file of an image may be cut while it is read.
#[test]
fn what_shrinks_later_is_an_error_for_what_was_cut_off() {
    if !can_make("what_shrinks_later_is_an_error_for_what_was_cut_off") {
        return;
    }
    let folder = folder();
    let path = folder.path().join("image");
    fs::write(&path, &images()[0].bytes).unwrap();
    let fs = Ext4::open(fs::File::open(&path).unwrap(), Journal::Refuse).unwrap();
    let root = fs.root().unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    assert!(matches!(fs.inode(2), Err(Error::Io { .. })));
    let met: Vec<_> = fs.walk(&root).unwrap().collect();
    assert!(met.iter().all(|met| matches!(met.inode, Err(Error::Io { .. }))), "{met:?}");
}

/// The directory's entry is the way in, and so is the one that leads back.
#[test]
fn a_directory_below_itself_is_met_once() {
    if !can_make("a_directory_below_itself_is_met_once") {
        return;
    }
    let bytes = changed(&[], |image| {
        debugfs_write(image, "link /a /a/b/c/d/again");
        debugfs_write(image, "link /a/b /many/other");
    });
    let fs = Ext4::open(Watched::new(bytes), Journal::Refuse).unwrap();
    let root = fs.root().unwrap();
    let twice: Vec<_> = fs.walk(&root).unwrap().filter_map(|met| met.inode.err()).collect();
    assert_eq!(twice.len(), 2, "{twice:?}");
    for error in twice {
        let text = error.to_string();
        assert!(text.ends_with("is a directory in more than one place"), "{text}");
    }
    // A path has an end, so it may lead through.
    let around = "a/".to_owned() + &"b/c/d/again/".repeat(50) + "b/file";
    assert_eq!(fs.resolve(around.as_bytes()).unwrap().size, 90_000);
}

/// Each directory had the blocks of the largest one: a walk read them again for each.
#[test]
fn directories_that_share_their_blocks_do_not_multiply_a_walk() {
    if !can_make("directories_that_share_their_blocks_do_not_multiply_a_walk") {
        return;
    }
    let mut bytes = changed(&["-O", "^extent,^64bit"], |image| {
        for n in 0..60 {
            debugfs_write(image, &format!("mkdir d{n}"));
        }
    });
    let fs = Ext4::open(bytes.clone(), Journal::Refuse).unwrap();
    let many = fs.resolve(b"many").unwrap();
    let first = fs.run(&many, 0).unwrap().at.expect("a block");
    // In the place of a file's first block: numbers that all are that of one directory's block.
    let file = fs.resolve(b"a/b/file").unwrap();
    let numbers = fs.run(&file, 0).unwrap().at.expect("a block");
    let number = u32::try_from(first).unwrap().to_le_bytes();
    let numbers_at = usize::try_from(numbers * 1024).unwrap();
    bytes[numbers_at..][..1024].chunks_exact_mut(4).for_each(|to| to.copy_from_slice(&number));
    let map: Vec<u8> = number.repeat(12);
    for n in 0..60 {
        let inode = fs.resolve(format!("d{n}").as_bytes()).unwrap();
        let at = usize::try_from(fs.inode_place(inode.number).unwrap().0).unwrap();
        bytes[at + 4..][..4].copy_from_slice(&(268_u32 * 1024).to_le_bytes());
        bytes[at + 0x28..][..48].copy_from_slice(&map);
        let indirect = u32::try_from(numbers).unwrap().to_le_bytes();
        bytes[at + 0x58..][..4].copy_from_slice(&indirect);
    }
    let fs = Ext4::open(Watched::new(bytes), Journal::Refuse).unwrap();
    let root = fs.root().unwrap();
    let walk = fs.walk(&root).unwrap();
    let errors: Vec<_> = walk.filter_map(|met| met.inode.err()).map(|it| it.to_string()).collect();
    let last = errors.last().expect("an error");
    assert!(
        last.ends_with("and other directories have more blocks than the file system"),
        "{last}"
    );
    assert!(fs.source().reads() <= every::walk_reads_max(&fs), "{}", fs.source().reads());
}

#[test]
fn sizes_that_lie_are_found_or_end() {
    if !can_make("sizes_that_lie_are_found_or_end") {
        return;
    }
    let bytes = changed(&["-O", "^extent,^64bit"], |image| {
        debugfs_write(image, "sif /a/b/file size 4402345672704");
        debugfs_write(image, "sif /a/comb size 17000000000");
        debugfs_write(image, "sif /many size 4294967295");
    });
    let fs = Ext4::open(Watched::new(bytes), Journal::Refuse).unwrap();
    let error = fs.resolve(b"a/b/file").unwrap_err();
    assert!(error.to_string().ends_with("is larger than any file"), "{error}");
    // What is behind its last block is a hole, however long.
    let comb = fs.resolve(b"a/comb").unwrap();
    let runs: Vec<_> = fs.layout(&comb).map(Result::unwrap).collect();
    assert_eq!(runs.last().unwrap().end(), 17_000_000_000_u64.div_ceil(1024));
    let many = fs.resolve(b"many").unwrap();
    let (names, errors): (Vec<_>, Vec<_>) = fs.read_dir(&many).unwrap().partition(Result::is_ok);
    assert_eq!(names.len(), 70);
    assert!(errors.len() <= 5, "{errors:?}");
}

/// Each block of numbers is its own: every path down ends at the same block, 16 million times.
#[test]
fn a_map_that_leads_to_itself_ends() {
    if !can_make("a_map_that_leads_to_itself_ends") {
        return;
    }
    let mut at = 0;
    let mut bytes = changed(&["-O", "^extent,^64bit"], |image| {
        let text = images::debugfs(image, "stat /a/b/file");
        let block = text.split("(IND):").nth(1).expect("an indirect block");
        at = block.split([',', ' ', '\n']).next().unwrap().trim().parse().unwrap();
        debugfs_write(image, &format!("sif /a/b/file block[TIND] {at}"));
        debugfs_write(image, "sif /a/b/file size 17000000000");
    });
    let block = &mut bytes[at as usize * 1024..][..1024];
    block.chunks_exact_mut(4).for_each(|number| number.copy_from_slice(&u32::to_le_bytes(at)));
    let fs = Ext4::open(Watched::new(bytes), Journal::Refuse).unwrap();
    let file = fs.resolve(b"a/b/file").unwrap();
    let end = fs.layout(&file).find_map(Result::err).expect("an error");
    assert!(end.to_string().ends_with("has more blocks than the file system"), "{end}");
    // Behind what the other blocks of numbers would name.
    let triple = (12 + 256 + 256 * 256) * 1024;
    let end = fs.seek(&file, triple, false).unwrap_err();
    assert!(end.to_string().ends_with("has more blocks than the file system"), "{end}");
    assert!(fs.source().reads() < 20_000, "{}", fs.source().reads());
}

#[test]
fn a_tree_of_extents_that_leads_to_itself_is_found() {
    if !can_make("a_tree_of_extents_that_leads_to_itself_is_found") {
        return;
    }
    let mut bytes = changed(&[], |_| {});
    let fs = Ext4::open(bytes.clone(), Journal::Refuse).unwrap();
    let comb = fs.resolve(b"a/comb").unwrap();
    let (offset, _) = fs.inode_place(comb.number).unwrap();
    // A root of one level names a node, which becomes one that names itself.
    let root = usize::try_from(offset).unwrap() + 0x28;
    assert_eq!(bytes[root + 6], 1, "one level");
    let node = u32::from_le_bytes(bytes[root + 16..][..4].try_into().unwrap()) as usize * 1024;
    bytes[node + 6] = 1;
    let own = u32::try_from(node / 1024).unwrap().to_le_bytes();
    bytes[node + 16..][..4].copy_from_slice(&own);
    bytes[node + 20..][..2].copy_from_slice(&[0, 0]);
    // As deep as itself, and as deep as can be said.
    for depth in [[1, 0], [0xFF, 0xFF]] {
        bytes[node + 6..][..2].copy_from_slice(&depth);
        let fs = Ext4::open(Watched::new(bytes.clone()), Journal::Refuse).unwrap();
        let error = fs.run(&fs.resolve(b"a/comb").unwrap(), 0).unwrap_err();
        let place = ImageLocation::Map { inode: comb.number, block: node as u64 / 1024 };
        assert!(matches!(error, Error::Corrupt { place: at, .. } if at == place), "{error}");
    }
}

/// An image without checksums, changed by hand.
fn changed(options: &[&str], change: impl FnOnce(&Path)) -> Vec<u8> {
    let base = ["-b", "1024", "-N", "200", "-O", "^metadata_csum,^uninit_bg,^has_journal"];
    let bytes = image_of_tree(2, &[&base, options].concat());
    let folder = folder();
    let path = folder.path().join("image");
    fs::write(&path, bytes).unwrap();
    change(&path);
    fs::read(path).unwrap()
}

#[test]
fn what_is_no_ext4_is_said_to_be_none() {
    for bytes in [vec![], vec![0; 100], vec![0; 1 << 20], vec![0xFF; 1 << 20]] {
        assert!(matches!(Ext4::open(bytes, Journal::Refuse), Err(Error::NotExt4)));
    }
}

#[test]
fn features_that_are_not_read_are_refused_by_name() {
    if !can_make("features_that_are_not_read_are_refused_by_name") {
        return;
    }
    for (request, names) in [
        ("feature dirdata", "dirdata"),
        ("feature journal_dev", "journal_dev"),
        ("feature dirdata compression", "compression, dirdata"),
    ] {
        let folder = folder();
        let image = images::make(folder.path(), 8, &["-O", "^metadata_csum"]);
        debugfs_write(&image, request);
        let error = Ext4::open(fs::File::open(image).unwrap(), Journal::Ignore).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { features } if features == names), "{error}");
    }
}

#[test]
fn a_journal_with_changes_is_refused_unless_it_may_be_ignored() {
    if !can_make("a_journal_with_changes_is_refused_unless_it_may_be_ignored") {
        return;
    }
    let folder = folder();
    let image = images::make(folder.path(), 8, &[]);
    let set = &mut Command::new("debugfs");
    common::output(set.args(["-w", "-R", "feature needs_recovery"]).arg(&image)).unwrap();
    let open = |journal| Ext4::open(fs::File::open(&image).unwrap(), journal);
    assert!(matches!(open(Journal::Refuse), Err(Error::Journal)));
    let fs = open(Journal::Ignore).unwrap();
    assert!(fs.superblock().needs_recovery());
    assert_eq!(fs.resolve(b"/lost+found").unwrap().number, 11);
}
