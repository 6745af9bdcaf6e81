//! The thread that reads ahead what a walk of directories comes to next.
//!
//! In:    directories that programs list or look into.
//! Out:   their neighbours in the cache, before they are asked for.
//! Never: delays an answer; reports an error: a request for the damaged part meets it again.
//!
//! ```text
//!   directories   7 . 8 . 9         known by number
//!   inodes        |---request--|    one after another in a table, with the files' between them
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
use crate::table_gaps::{TableGaps, bytes};
use crate::tree_walk::{AheadLimits, NameOrder, TreeWalkDetector};

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
    let ahead = WalkPrefetcher::new(inodes, budget_bytes);
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

pub(crate) struct WalkPrefetcher {
    inodes: Arc<Inodes>,
    walk: TreeWalkDetector,
    budget_bytes: u64,
    /// How many directories were fetched, and how many bytes with them.
    fetched: (u64, u64),
    gaps: TableGaps,
}

impl WalkPrefetcher {
    pub(crate) fn new(inodes: Arc<Inodes>, budget_bytes: u64) -> Self {
        let walk = TreeWalkDetector::new(budget_bytes);
        let (fetched, gaps) = ((1, MEAN_BYTES), TableGaps::default());
        Self { inodes, walk, budget_bytes, fetched, gaps }
    }

    fn run(mut self, from: &Receiver<(u32, NameOrder)>) {
        while let Ok(first) = from.recv() {
            // All that was reported meanwhile: several programs, or threads of one, may walk, and
            // what they need is fetched together.
            let reported: Vec<_> = [first].into_iter().chain(from.try_iter()).collect();
            self.follow(&reported);
        }
    }

    /// Programs have come to these directories.
    pub(crate) fn follow(&mut self, reported: &[(u32, NameOrder)]) {
        let mut next = Vec::new();
        for &(directory, order) in reported {
            if self.walk.is_new(directory) && self.may_learn(directory, order) {
                self.learn(directory);
            }
            next.extend(self.walk.enter(directory, order, self.limits()));
        }
        // What is fetched makes known what is in it. Each time is another level.
        for _ in 0..LEVELS {
            if next.is_empty() {
                break;
            }
            self.fetch(&next);
            next.clear();
            for &(directory, order) in reported {
                if self.walk.is_walked(directory) {
                    next.extend(self.walk.next(directory, order, self.limits()));
                }
            }
        }
    }

    /// How many directories may be ahead; and how many a walk that is sure begins with: as many as
    /// come in the time of one request, since each round of fewer takes as long.
    fn limits(&self) -> AheadLimits {
        let (count, bytes) = self.fetched;
        let mean_bytes = (bytes / count).max(1);
        let directories = |bytes: u64, most: usize| {
            usize::try_from(bytes / mean_bytes).unwrap_or(usize::MAX).min(most)
        };
        let most = directories(self.budget_bytes, AHEAD);
        let request_bytes = self.inodes.fs().source().request_bytes().map_or(0, |(bytes, _)| bytes);
        AheadLimits { most, sure: directories(request_bytes, SURE.min(most)) }
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
            self.inodes.will_need(self.blocks(&inode));
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
        let numbers = directories.iter().copied();
        let tables = self.inodes.ask_for(numbers, |gap| self.gaps.widened(gap));
        let inodes: Vec<Inode> = directories
            .iter()
            .filter_map(|&number| self.inodes.inode(number).ok())
            .filter(|inode| inode.kind == FileKind::Directory)
            .collect();
        let blocks: Vec<_> = inodes.iter().flat_map(|inode| self.blocks(inode)).collect();
        let mut read_bytes = bytes(&blocks);
        self.inodes.will_need(blocks);
        let mut needed = Vec::new();
        let mut files_bytes = 0;
        for round in inodes.chunks(self.round()) {
            let names: Vec<u32> =
                round.iter().filter_map(|inode| self.names(inode).ok()).flatten().collect();
            let files = self.inodes.ask_for(names, |gap| gap);
            files_bytes += bytes(&files.read);
            needed.extend(files.needed);
        }
        needed.sort_by_key(|block| block.start);
        needed.dedup();
        self.gaps.count(&tables, &needed);
        // Most inodes of names have come with those of the directories.
        read_bytes += bytes(&tables.read).max(files_bytes);
        self.fetched.0 += directories.len() as u64;
        self.fetched.1 += read_bytes;
        if self.fetched.0 > REMEMBERED {
            self.fetched = (self.fetched.0 / 2, self.fetched.1 / 2);
        }
    }

    /// Of how many directories the names' inodes are asked for together. From a disk, of all: the
    /// more, the nearer they lie. A far device brings the blocks in rounds of so many, and the
    /// inodes of the first are on their way while the next come.
    fn round(&self) -> usize {
        let at_once = self.inodes.fs().source().request_bytes().map_or(1, |(_, at_once)| at_once);
        if at_once >= MANY_AT_ONCE { ROUND } else { usize::MAX }
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

/// The most that a walk begins with once it is sure: 2 MB of a usual tree.
const SURE: usize = 64;

/// As many requests as a source has in flight.
const ROUND: usize = 64;

/// A device that serves so many at once is no disk.
const MANY_AT_ONCE: u64 = 16;

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
