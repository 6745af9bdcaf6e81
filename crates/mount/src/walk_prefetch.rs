//! The thread that reads ahead what a walk of directories comes to next.
//!
//! In:    directories that programs list or look into.
//! Out:   their neighbours in the cache, before they are asked for.
//! Never: delays an answer; reports an error: a request for the damaged part meets it again.
//!
//! ```text
//!   directories   7 . 8 . 9         known by number
//!   inodes        |---request--|    one after another in a table
//!   blocks        |-----request------|    near ones with what is between them
//!   names         their inodes: |--request--|--request--|    not waited for
//! ```
//!
//! Three trips to the device, however many directories there are, and in each trip the places are
//! in order.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::{io, thread};

use foreread_ext4::{Error, FileKind, Inode};

use crate::inodes::Inodes;
use crate::tree_walk::{NameOrder, TreeWalkDetector};

/// Where directories are reported. Without a thread behind it, nowhere.
#[derive(Debug, Default)]
pub(crate) struct WalkNotifier {
    to: Option<SyncSender<(u32, NameOrder)>>,
    /// The directories that were looked into last, each at a place of its own.
    looked_in: RecentLookups,
}

#[derive(Debug)]
struct RecentLookups([AtomicU32; LAST]);

/// Starts the thread. It ends with the last [`WalkNotifier`].
pub(crate) fn start(inodes: Arc<Inodes>, budget_bytes: u64) -> io::Result<WalkNotifier> {
    let (to, from) = sync_channel(QUEUE);
    let walk = TreeWalkDetector::new(budget_bytes);
    let ahead = WalkPrefetcher { inodes, walk, budget_bytes, fetched: (1, MEAN_BYTES) };
    thread::Builder::new().name("walk-ahead".to_owned()).spawn(move || ahead.run(&from))?;
    Ok(WalkNotifier { to: Some(to), looked_in: RecentLookups::default() })
}

impl WalkNotifier {
    /// A directory's names are listed from the first on.
    pub(crate) fn listed(&self, directory: u32) {
        self.say(directory, NameOrder::Listed);
    }

    /// A name is looked up in a directory. The first time is said; a thousand times are not.
    pub(crate) fn looked_in(&self, directory: u32) {
        let last = &self.looked_in.0[directory as usize % LAST];
        if last.load(Ordering::Relaxed) != directory {
            last.store(directory, Ordering::Relaxed);
            self.say(directory, NameOrder::Named);
        }
    }

    fn say(&self, directory: u32, order: NameOrder) {
        let Some(to) = &self.to else { return };
        match to.try_send((directory, order)) {
            // A walk that is faster than this needs no help.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Default for RecentLookups {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; LAST])
    }
}

struct WalkPrefetcher {
    inodes: Arc<Inodes>,
    walk: TreeWalkDetector,
    budget_bytes: u64,
    /// How many directories were fetched, and how many bytes with them.
    fetched: (u64, u64),
}

impl WalkPrefetcher {
    fn run(mut self, from: &Receiver<(u32, NameOrder)>) {
        while let Ok(first) = from.recv() {
            // All that was reported meanwhile: several programs, or threads of one, may walk, and
            // what they need is fetched together.
            let reported: Vec<_> = [first].into_iter().chain(from.try_iter()).collect();
            let mut next = Vec::new();
            for &(directory, order) in &reported {
                if self.walk.is_new(directory) && self.may_learn(directory, order) {
                    self.learn(directory);
                }
                next.extend(self.walk.enter(directory, order, self.most()));
            }
            // What is fetched makes known what is in it. Each time is another level.
            for _ in 0..LEVELS {
                if next.is_empty() {
                    break;
                }
                self.fetch(&next);
                next.clear();
                for &(directory, order) in &reported {
                    if self.walk.is_walked(directory) {
                        next.extend(self.walk.next(directory, order, self.most()));
                    }
                }
            }
        }
    }

    /// How many directories may be ahead.
    fn most(&self) -> usize {
        let (count, bytes) = self.fetched;
        let most = self.budget_bytes / (bytes / count).max(1);
        usize::try_from(most).unwrap_or(usize::MAX).min(AHEAD)
    }

    /// Whether to read all of a directory: if a program lists it, or if it is small. A lookup in a
    /// large one reads only a part.
    fn may_learn(&self, directory: u32, order: NameOrder) -> bool {
        let is_small = || {
            let limit = u64::from(self.inodes.fs().superblock().block_size) * SMALL_BLOCKS;
            self.inodes.inode(directory).is_ok_and(|inode| inode.size <= limit)
        };
        order == NameOrder::Listed || is_small()
    }

    fn learn(&mut self, directory: u32) {
        if let Ok(inode) = self.inodes.inode(directory) {
            drop(self.names(&inode));
        }
    }

    /// The inodes of the names in a directory; the directories among them become known.
    fn names(&mut self, directory: &Inode) -> Result<Vec<u32>, Error> {
        let (mut numbers, mut inside) = (Vec::new(), Vec::new());
        for entry in self.inodes.fs().read_dir(directory)?.take(NAMES) {
            let Ok(entry) = entry else { continue };
            numbers.push(entry.inode);
            if entry.kind == Some(FileKind::Directory) {
                inside.push((entry.name, entry.inode));
            }
        }
        self.walk.learn(directory.number, &inside);
        Ok(numbers)
    }

    fn fetch(&mut self, directories: &[u32]) {
        self.ask_for_inodes(directories.iter().copied());
        let inodes: Vec<Inode> = directories
            .iter()
            .filter_map(|&number| self.inodes.inode(number).ok())
            .filter(|inode| inode.kind == FileKind::Directory)
            .collect();
        let blocks: Vec<_> = inodes.iter().flat_map(|inode| self.blocks(inode)).collect();
        let mut bytes: u64 = blocks.iter().map(|range| range.end - range.start).sum();
        self.inodes.will_need(blocks);
        let names: Vec<u32> =
            inodes.iter().filter_map(|inode| self.names(inode).ok()).flatten().collect();
        bytes += self.ask_for_inodes(names.into_iter());
        self.fetched.0 += directories.len() as u64;
        self.fetched.1 += bytes;
        if self.fetched.0 > REMEMBERED {
            self.fetched = (self.fetched.0 / 2, self.fetched.1 / 2);
        }
    }

    /// Asks for the blocks of the table with these inodes, and says how many bytes they have.
    fn ask_for_inodes(&self, numbers: impl Iterator<Item = u32>) -> u64 {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for number in numbers {
            // Names that were made together have inodes in the same block.
            let Ok(block) = self.inodes.block_of(number) else { continue };
            if ranges.last() != Some(&block) {
                ranges.push(block);
            }
        }
        ranges.sort_by_key(|range| range.start);
        ranges.dedup();
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        self.inodes.will_need(ranges);
        bytes
    }

    /// Where the first blocks of a directory are.
    fn blocks(&self, directory: &Inode) -> Vec<Range<u64>> {
        let block_size = u64::from(self.inodes.fs().superblock().block_size);
        let mut left = LARGE_BYTES / block_size;
        let mut ranges = Vec::new();
        for run in self.inodes.fs().layout(directory) {
            let Ok(run) = run else { break };
            let blocks = run.blocks.min(left);
            if let Some(at) = run.at {
                ranges.push(at * block_size..(at + blocks) * block_size);
            }
            left -= blocks;
            if left == 0 {
                break;
            }
        }
        ranges
    }
}

/// How many directories may be reported and not looked at yet.
const QUEUE: usize = 256;

/// Places for the directories that were looked into last.
const LAST: usize = 1024;

/// The most directories that are ahead: some ten trips to the device for a million names.
const AHEAD: usize = 512;

/// How many times what was fetched may tell of more to fetch at once.
const LEVELS: usize = 8;

/// So much of a large directory is fetched before it is entered.
const LARGE_BYTES: u64 = 1 << 20;

/// And so many names of it.
const NAMES: usize = 1 << 16;

/// A directory of so many blocks is read as a whole to know what is in it.
const SMALL_BLOCKS: u64 = 4;

/// What a directory costs as long as none was fetched: a block, and those of 100 inodes.
const MEAN_BYTES: u64 = 32 << 10;

/// How many directories tell of their size.
const REMEMBERED: u64 = 4096;
