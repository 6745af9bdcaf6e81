//! What a walk through an image asks a far store for: requests, round trips, bytes.
//!
//! In:    an image with the layout that mkfs gives it, behind a source that counts.
//! Out:   how many round trips a program waits for that does one thing after another.
//! Never: a clock. What is asked for together takes one round trip for each 64 requests; a read of
//!        what was not asked for takes one of its own.

use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use foreread::Pages;
use foreread::{Engine, Reply, Source, SourceIdentity};
use foreread::{LearntCost, LearntDevice};
use foreread_ext4::{Ext4, FileKind, Journal, ROOT_INODE};

use crate::contents::Contents;
use crate::fs::FuseFs;
use crate::inodes::{Inodes, ItableReadahead};
use crate::log::DamageLog;
use crate::mount_state::MountState;
use crate::source::ImageSource;
use crate::tree_walk::NameOrder;
use crate::walk_prefetch::{WalkNotifier, WalkPrefetcher};

/// Of each directory with files: so many of 8 KiB, so that the next one lies 240 KiB behind it, and
/// its inode eight blocks.
const FILES: u64 = 30;
const TOPS: u64 = 4;
const SUBDIRECTORIES: u64 = 15;

/// With `lost+found` and the root.
const DIRECTORIES: u64 = TOPS * (SUBDIRECTORIES + 1) + 2;
const INODES: u64 = DIRECTORIES + TOPS * SUBDIRECTORIES * FILES;

/// The least that answers all of it, with the four blocks of `lost+found`.
const NEEDED: u64 = INODES * 256 + (DIRECTORIES + 3) * 4096;

/// An image in memory that answers at once, and says that it is far.
struct CountedImage {
    bytes: Vec<u8>,
    requests: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Source for CountedImage {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new("counted:image", "1")
    }

    fn length(&self) -> std::io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn fetch(&self, range: Range<u64>, mut reply: Reply) {
        self.requests.lock().unwrap().push(range.clone());
        let offset = |at| usize::try_from(at).unwrap();
        reply.write(&self.bytes[offset(range.start)..offset(range.end)]).unwrap();
        reply.finish();
    }

    fn expected_device(&self) -> Option<LearntDevice> {
        let cost = LearntCost {
            per_request_ns: 20e6,
            per_kib_ns: 12_800.0,
            parallel: None,
            min_parallel: 32,
        };
        Some(LearntDevice { window: Pages(1 << 13), cost: Some(cost) })
    }
}

fn image(folder: &Path) -> Vec<u8> {
    let tree = folder.join("tree");
    for directory in 0..TOPS * SUBDIRECTORIES {
        let (top, sub) = (directory / SUBDIRECTORIES, directory % SUBDIRECTORIES);
        let path = tree.join(format!("d{top}/e{sub:02}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..FILES {
            fs::write(path.join(format!("f{file:02}")), [7; 8192]).unwrap();
        }
    }
    let image = folder.join("image");
    fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).unwrap();
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-b", "4096", "-I", "256", "-d"]).arg(&tree).arg(&image);
    let made = mkfs.output().unwrap();
    assert!(made.status.success(), "{made:?}");
    fs::read(image).unwrap()
}

/// A mount without the kernel in front of it.
struct Mounted {
    fs: FuseFs,
    ahead: WalkPrefetcher,
    requests: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Mounted {
    fn new(bytes: Vec<u8>) -> Self {
        let requests = Arc::default();
        let source = CountedImage { bytes, requests: Arc::clone(&requests) };
        let engine = Engine::builder().memory(64 << 20).learn_max_window().build().unwrap();
        let file = engine.open_source(source).unwrap();
        let fs = Ext4::open(ImageSource::new(file), Journal::Refuse).unwrap();
        let inodes = Arc::new(Inodes::new(fs, ItableReadahead::Adaptive));
        let ahead = WalkPrefetcher::new(Arc::clone(&inodes), 8 << 20);
        let state = MountState {
            inodes,
            contents: Contents::default(),
            ahead: WalkNotifier::default(),
            log: DamageLog::new(Box::new(|line| panic!("{line}"))),
            checks_permissions: false,
        };
        Self { fs: FuseFs(Arc::new(state)), ahead, requests }
    }

    /// Lists a directory with the attributes of its names, and then those in it; the read-ahead of
    /// a walk always comes too late for the directory that it hears of. Returns how many names.
    fn find(&mut self, directory: u32) -> u64 {
        let (mut names, mut inside) = (0, Vec::new());
        let listed = self.fs.each_inode(directory, 0, |number, _, _, _, inode| {
            if let Some(inode) = inode {
                names += 1;
                inside.extend((inode.kind == FileKind::Directory).then_some(number));
            }
            false
        });
        listed.unwrap();
        self.ahead.follow(&[(directory, NameOrder::Listed)]);
        names + inside.into_iter().map(|number| self.find(number)).sum::<u64>()
    }

    /// Looks a path up, name by name.
    fn stat(&mut self, path: &[&str]) {
        let mut directory = ROOT_INODE;
        for name in path {
            let state = &self.fs.0;
            let inode = state.directory(directory).unwrap();
            let number = state.inodes.fs().lookup(&inode, name.as_bytes()).unwrap().unwrap();
            state.inodes.named(number).unwrap();
            self.ahead.follow(&[(directory, NameOrder::Named)]);
            directory = number;
        }
    }

    /// How many requests, bytes, and round trips there were.
    fn counted(&self) -> (usize, u64, usize) {
        let requests = self.requests.lock().unwrap();
        let batches = self.fs.0.inodes.fs().source().batches.lock().unwrap();
        let overlaps = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let is_of = |batch: &Vec<Range<u64>>, request: &Range<u64>| {
            batch.iter().any(|range| overlaps(range, request))
        };
        let mut left: Vec<_> = requests.clone();
        let mut trips = 0;
        for batch in &*batches {
            let before = left.len();
            left.retain(|request| !is_of(batch, request));
            trips += (before - left.len()).div_ceil(64);
        }
        let bytes = requests.iter().map(|range| range.end - range.start).sum();
        (requests.len(), bytes, trips + left.len())
    }
}

fn mounted(test: &str) -> Option<Mounted> {
    if let Err(error) = Command::new("mkfs.ext4").arg("-V").output() {
        let is_required = std::env::var("REQUIRE")
            .is_ok_and(|list| list.split(',').any(|word| matches!(word.trim(), "tools" | "all")));
        assert!(!is_required, "{test}: mkfs.ext4: {error}");
        let line = format!("SKIP {test}: mkfs.ext4: {error}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    Some(Mounted::new(image(folder.path())))
}

/// Each name's inode was waited for alone, 15 round trips for a directory of 15 others, and a walk
/// began with 8 directories at a time.
#[test]
fn a_find_waits_for_few_round_trips_and_reads_little_that_it_does_not_need() {
    let test = "a_find_waits_for_few_round_trips_and_reads_little_that_it_does_not_need";
    let Some(mut mounted) = mounted(test) else { return };
    assert_eq!(mounted.find(ROOT_INODE), INODES - 1);
    let (requests, bytes, trips) = mounted.counted();
    println!("{requests} requests, {trips} round trips, {bytes} bytes of {NEEDED} needed");
    assert!(trips <= 24, "{trips} round trips");
    assert!(requests <= 110, "{requests} requests");
    assert!(bytes <= NEEDED * 3 / 2, "{bytes} bytes, {NEEDED} are needed");
}

#[test]
fn a_stat_of_one_file_reads_no_tables() {
    let Some(mut mounted) = mounted("a_stat_of_one_file_reads_no_tables") else { return };
    mounted.stat(&["d2", "e07", "f11"]);
    let (requests, bytes, trips) = mounted.counted();
    println!("{requests} requests, {trips} round trips, {bytes} bytes");
    // Superblock and descriptors; four inodes, three directories.
    assert!(trips <= 8, "{trips} round trips");
    // Beside these seven blocks, what the policy reads along for inodes that lie near each other:
    // less than one window of the kernel and a half.
    let along = 48 * 4096;
    assert!(bytes <= (64 << 10) + 7 * 4096 + along, "{bytes} bytes");
}
