//! A thread that reads ahead the next directories of a walk.
//!
//! It never delays an answer, and ignores errors: a request for the damaged part returns them
//! again.
//!
//! ```text
//!   directories   7 . 8 . 9         known by number
//!   inodes        |---request--|    one after another in a table, with the files' between them
//!   blocks        |-----request------|    near ones with the gaps between them
//!   names         their inodes: |--request--|--request--|    not waited for
//! ```
//!
//! The device sees three round trips, regardless of the number of directories, and each is sorted
//! by offset.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::{io, thread};

use foreread_ext4::{Error, FileKind, Inode};

use crate::inodes::Inodes;
use crate::table_gaps::{TableGaps, bytes};
use crate::tree_walk::{AheadLimits, NameOrder, TreeWalkDetector};

/// Receives reports of visited directories. Without a thread it ignores them.
#[derive(Debug, Default)]
pub(crate) struct WalkNotifier {
    to: Option<SyncSender<(u32, NameOrder)>>,
    /// Directories of recent lookups, each in its own slot.
    looked_in: RecentLookups,
}

#[derive(Debug)]
struct RecentLookups([AtomicU32; LAST]);

/// Starts the thread, which ends with the last [`WalkNotifier`].
pub(crate) fn start(inodes: Arc<Inodes>, budget_bytes: u64) -> io::Result<WalkNotifier> {
    let (to, from) = sync_channel(QUEUE);
    let ahead = WalkPrefetcher::new(inodes, budget_bytes);
    thread::Builder::new().name("walk-ahead".to_owned()).spawn(move || ahead.run(&from))?;
    Ok(WalkNotifier { to: Some(to), looked_in: RecentLookups::default() })
}

impl WalkNotifier {
    /// Reports that a directory is listed from its first name on.
    pub(crate) fn listed(&self, directory: u32) {
        self.say(directory, NameOrder::Listed);
    }

    /// Reports a lookup in a directory. Repeated lookups in it are reported once.
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
            // A walk faster than this needs no help.
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
    /// Directories fetched, and the bytes read for them.
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
            // All reports since then: several programs, or threads of one, may walk, and their
            // directories are fetched in one batch.
            let reported: Vec<_> = [first].into_iter().chain(from.try_iter()).collect();
            self.follow(&reported);
        }
    }

    /// Processes reports of visited directories.
    pub(crate) fn follow(&mut self, reported: &[(u32, NameOrder)]) {
        let mut next = Vec::new();
        for &(directory, order) in reported {
            if self.walk.is_new(directory) && self.may_learn(directory, order) {
                self.learn(directory);
            }
            next.extend(self.walk.enter(directory, order, self.limits()));
        }
        // A fetch reveals the subdirectories, which form another level.
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

    /// Returns the maximum number of directories ahead, and the initial number for a confirmed
    /// walk: as many as transfer in the latency of one request, because a round of fewer takes just
    /// as long.
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

    /// Returns whether to read all of a directory: if a program lists it, or if it is small. A
    /// lookup in a large one reads only a part.
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

    /// Returns the inodes of the names in a directory, and records its subdirectories.
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
        // The directories' reads have already brought most inodes of names.
        read_bytes += bytes(&tables.read).max(files_bytes);
        self.fetched.0 += directories.len() as u64;
        self.fetched.1 += read_bytes;
        if self.fetched.0 > REMEMBERED {
            self.fetched = (self.fetched.0 / 2, self.fetched.1 / 2);
        }
    }

    /// Returns the number of directories whose names' inodes are requested in one batch. On a disk
    /// it is all of them: the more, the closer they are. A remote device reads the blocks in rounds
    /// of this size, and the inodes of one round are in flight while the next blocks arrive.
    fn round(&self) -> usize {
        let at_once = self.inodes.fs().source().request_bytes().map_or(1, |(_, at_once)| at_once);
        if at_once >= MANY_AT_ONCE { ROUND } else { usize::MAX }
    }

    /// Returns the location of a directory's first blocks.
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

/// Most unprocessed reports.
const QUEUE: usize = 256;

/// Number of slots for directories of recent lookups.
const LAST: usize = 1024;

/// Most directories ahead: about ten round trips for a million names.
const AHEAD: usize = 512;

/// Most directories at the start of a confirmed walk: 2 MB of a usual tree.
const SURE: usize = 64;

/// Number of requests that a source has in flight.
const ROUND: usize = 64;

/// A device that serves this many requests in parallel is not a disk.
const MANY_AT_ONCE: u64 = 16;

/// Most levels that one report may fetch.
const LEVELS: usize = 8;

/// Bytes of a large directory that are fetched before it is entered.
const LARGE_BYTES: u64 = 1 << 20;

/// Names of a large directory that are fetched before it is entered.
const NAMES: usize = 1 << 16;

/// Directories of up to this many blocks are read completely to learn their contents.
const SMALL_BLOCKS: u64 = 4;

/// Assumed cost of a directory before any was fetched: a block, and the blocks of 100 inodes.
const MEAN_BYTES: u64 = 32 << 10;

/// Directories after which older sizes decay.
const REMEMBERED: u64 = 4096;
