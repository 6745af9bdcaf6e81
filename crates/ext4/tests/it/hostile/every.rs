//! Every question that can be asked of an image, and a source that watches what is read for it.
//!
//! In:    an image, damaged or not.
//! Out:   the errors, in order.
//! Never: more of one file than its beginning, its end and its layout: sizes may lie.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use foreread_ext4::{BlockSource, Error, Ext4, FileKind, Inode};

/// So many reads no answer needs.
const READS_MAX: u64 = 3_000_000;

/// The largest buffer that anything asks for: what [`every_question`] gives itself.
const READ_MAX: usize = 64 << 10;

/// Bytes, and where they were read.
pub(crate) struct Watched {
    pub(crate) bytes: Vec<u8>,
    reads: AtomicU64,
    places: Mutex<Vec<(u64, u64)>>,
}

impl Watched {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, reads: AtomicU64::new(0), places: Mutex::default() }
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Offset and length of each read of metadata, once each.
    pub(crate) fn places(&self) -> Vec<(u64, u64)> {
        let mut places = self.places.lock().unwrap().clone();
        places.sort_unstable();
        places.dedup();
        places
    }
}

impl BlockSource for Watched {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let mut places = self.places.lock().unwrap();
        if places.len() < 10_000 {
            places.push((offset, to.len() as u64));
        }
        drop(places);
        self.read_contents(offset, to)
    }

    fn read_contents(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        assert!(to.len() <= READ_MAX, "a buffer of {} bytes", to.len());
        let end = offset.checked_add(to.len() as u64).expect("no overflow");
        assert!(end <= self.bytes.len() as u64, "a read up to {end}");
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        assert!(reads < READS_MAX, "a question without an end");
        to.copy_from_slice(&self.bytes[usize::try_from(offset).unwrap()..][..to.len()]);
        Ok(())
    }
}

/// How many reads a walk needs at most: for each block that a directory can have (a walk may notice
/// only at the end of a second directory that there are too many) the block and the way to it, and
/// for each name in it an inode and a block of descriptors.
pub(crate) fn walk_reads_max<S: BlockSource>(fs: &Ext4<S>) -> u64 {
    let superblock = fs.superblock();
    let blocks = 2 * superblock.blocks + u64::from(superblock.inodes);
    let names_in_a_block = u64::from(superblock.block_size) / SHORTEST_ENTRY;
    blocks * (1 + MAP_DEPTH + 2 * names_in_a_block)
}

/// An entry with a name of four bytes or less.
const SHORTEST_ENTRY: u64 = 12;

/// Blocks of a map on the way to one block, at most.
const MAP_DEPTH: u64 = 5;

/// How many reads all questions about the map of a file need at most: [`of_file`] walks it once and
/// looks for data or holes four times, and each step leads to another number of some block.
fn map_reads_max<S: BlockSource>(fs: &Ext4<S>) -> u64 {
    let superblock = fs.superblock();
    let numbers = u64::from(superblock.block_size) / 4;
    let blocks = READ_MAX as u64 / u64::from(superblock.block_size) + 2;
    (5 * (superblock.blocks + 1) * numbers + 6 * blocks) * (1 + MAP_DEPTH)
}

/// Asks everything there is to ask; each question that could be one without an end has a bound.
pub(crate) fn every_question(fs: &Ext4<Watched>) -> Vec<Error> {
    let mut errors = Vec::new();
    let root = match fs.root() {
        Ok(root) => root,
        Err(error) => return vec![error],
    };
    of_inode(fs, &root, &mut errors);
    let before = fs.source().reads();
    let met: Vec<_> = fs.walk(&root).expect("a directory").collect();
    let reads = fs.source().reads() - before;
    assert!(reads <= walk_reads_max(fs), "a walk of {reads} reads");
    for met in met {
        match met.inode {
            Ok(inode) => {
                of_inode(fs, &inode, &mut errors);
                errors.extend(fs.resolve(&met.path).err().filter(|_| {
                    // Links of the test lead nowhere, and so may any other.
                    inode.kind != FileKind::Symlink
                }));
            }
            Err(error) => errors.push(error),
        }
    }
    for group in 0..fs.superblock().groups.min(100) {
        errors.extend(fs.group(group).err());
    }
    // Also inodes without a name; most of them are not in use.
    for number in 0..fs.superblock().inodes.min(300) {
        if let Ok(inode) = fs.inode(number) {
            of_inode(fs, &inode, &mut Vec::new());
        }
    }
    for error in &errors {
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n') && text.len() < 200, "{text}");
    }
    errors
}

fn of_inode(fs: &Ext4<Watched>, inode: &Inode, errors: &mut Vec<Error>) {
    match fs.attribute_names(inode) {
        Ok(names) => {
            for name in names {
                match fs.attribute(inode, &name) {
                    Ok(value) => assert!(value.expect("a name has a value").len() <= 1 << 20),
                    Err(error) => errors.push(error),
                }
            }
        }
        Err(error) => errors.push(error),
    }
    match inode.kind {
        FileKind::Regular => {
            let before = fs.source().reads();
            of_file(fs, inode, errors);
            let reads = fs.source().reads() - before;
            assert!(reads <= map_reads_max(fs), "a file of {reads} reads");
        }
        FileKind::Directory => of_directory(fs, inode, errors),
        FileKind::Symlink => errors.extend(fs.read_link(inode).err()),
        FileKind::CharDevice | FileKind::BlockDevice | FileKind::Fifo | FileKind::Socket => {}
    }
}

fn of_file<S: BlockSource>(fs: &Ext4<S>, inode: &Inode, errors: &mut Vec<Error>) {
    let mut end = 0;
    for run in fs.layout(inode) {
        match run {
            Ok(run) => {
                assert!(run.first == end && run.blocks > 0, "{run:?} behind {end}");
                end = run.end();
            }
            Err(error) => errors.push(error),
        }
    }
    for (offset, wants_data) in [(0, false), (0, true), (1025, false), (inode.size / 2, true)] {
        match fs.seek(inode, offset, wants_data) {
            Ok(at) => assert!(at.is_none_or(|at| (offset..=inode.size).contains(&at)), "{at:?}"),
            Err(error) => errors.push(error),
        }
    }
    let mut bytes = vec![0; READ_MAX];
    for offset in [0, 1025, inode.size / 2, inode.size.saturating_sub(5000), inode.size, u64::MAX] {
        match fs.read_at(inode, offset, &mut bytes) {
            Ok(len) => {
                let left = inode.size.saturating_sub(offset);
                assert_eq!(len as u64, left.min(READ_MAX as u64));
            }
            Err(error) => errors.push(error),
        }
    }
}

fn of_directory<S: BlockSource>(fs: &Ext4<S>, inode: &Inode, errors: &mut Vec<Error>) {
    errors.extend(fs.parent(inode).err());
    let mut positions = Vec::new();
    for entry in fs.read_dir(inode).expect("a directory") {
        match entry {
            Ok(entry) => {
                if positions.len() < 200 {
                    errors.extend(fs.lookup(inode, &entry.name).err());
                }
                positions.push(entry.next);
            }
            Err(error) => errors.push(error),
        }
    }
    errors.extend(fs.lookup(inode, b"no such name").err());
    // In order, and each is where the rest begins.
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    for (index, &position) in positions.iter().enumerate().step_by(17) {
        let rest = fs.read_dir_from(inode, position).expect("a directory");
        let rest: Vec<_> = rest.filter_map(Result::ok).map(|entry| entry.next).collect();
        assert_eq!(rest, positions[index + 1..]);
    }
}
