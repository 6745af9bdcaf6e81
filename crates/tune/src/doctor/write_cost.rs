//! Measures the cost of an odd size to buffered writes, on temporary loop devices.
//!
//! It writes only to loop devices whose backing file is the scratch file. The file is unlinked and
//! the device detached at once, so both disappear with this process, however it ends.
//!
//! ```text
//!   scratch file --> loop device, 131072 sectors --> 4 KiB writes, fsync --> requests: stat
//!                `-> loop device, 131073 sectors --> the same ------------> requests: stat
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use foreread_core::geometry::block_size;
use foreread_core::units::{ByteCount, PAGE_SIZE, SECTOR_SIZE};
use foreread_files::scratch::NamedScratch;
use foreread_files::trusted_path::helper_program;
use rustix::fs::FallocateFlags;
use serde::Serialize;

use crate::sysfs::SystemRoot;

/// Measured cost of writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WriteCost {
    /// Bytes written each time.
    pub bytes: u64,
    /// Cost with a size of whole pages.
    pub whole: SizeCost,
    /// Cost with one sector more.
    pub odd: SizeCost,
}

/// Cost for one of the two sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SizeCost {
    /// Size of the device.
    pub sectors: u64,
    /// Block size implied by that size.
    pub block_bytes: u64,
    /// Write requests counted by the kernel, median of the rounds.
    pub requests: u64,
    /// Expected requests, from the block size and the limits of the device.
    pub expected_requests: u64,
    /// Throughput with fsync, median of the rounds.
    pub mb_per_s: f64,
}

impl WriteCost {
    /// Returns the ratio of requests, odd size to whole pages.
    #[must_use]
    pub fn times_as_many(&self) -> f64 {
        self.odd.requests as f64 / (self.whole.requests as f64).max(1.0)
    }

    /// Returns the ratio of durations, odd size to whole pages.
    #[must_use]
    pub fn times_as_long(&self) -> f64 {
        self.whole.mb_per_s / self.odd.mb_per_s.max(f64::MIN_POSITIVE)
    }
}

/// Measures both sizes alternately on a scratch file in `folder`. Requires root and `losetup`.
///
/// # Errors
///
/// If the file or the devices cannot be created, or a write fails. The text explains the remedy.
pub fn measure(folder: &Path, now: &dyn Fn() -> Instant) -> io::Result<WriteCost> {
    let sizes = [WRITTEN / SECTOR_SIZE, WRITTEN / SECTOR_SIZE + 1];
    let mut sides = [SizeCost::default(); 2];
    let mut requests = [const { Vec::new() }; 2];
    let mut speeds = [const { Vec::new() }; 2];
    for round in 0..=ROUNDS {
        for (n, sectors) in sizes.into_iter().enumerate() {
            let scratch = LoopDevice::new(folder, sectors)?;
            sides[n] = scratch.expected(sectors);
            let before = scratch.writes()?;
            let started = now();
            scratch.fill()?;
            let ns = now().duration_since(started).as_nanos();
            // The first round touches new pages and blocks; it does not count.
            if round > 0 {
                requests[n].push(scratch.writes()?.saturating_sub(before));
                speeds[n].push(WRITTEN as f64 * 1e3 / (ns as f64).max(1.0));
            }
        }
    }
    for ((side, requests), speeds) in sides.iter_mut().zip(&mut requests).zip(&mut speeds) {
        requests.sort_unstable();
        speeds.sort_unstable_by(f64::total_cmp);
        side.requests = requests[requests.len() / 2];
        side.mb_per_s = speeds[speeds.len() / 2];
    }
    let [whole, odd] = sides;
    Ok(WriteCost { bytes: WRITTEN, whole, odd })
}

/// A loop device of this process over a nameless file.
struct LoopDevice {
    name: String,
    device: File,
}

impl LoopDevice {
    fn new(folder: &Path, sectors: u64) -> io::Result<Self> {
        let bytes = sectors * SECTOR_SIZE;
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {what}: {error}", folder.display()))
        };
        // The name disappears when this function returns; the loop device keeps the file.
        let named = NamedScratch::new(folder).map_err(io::Error::other)?;
        let (file, path) = (named.file(), named.path());
        // Preallocate: a write without space would be an error of the loop device.
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes)?,
            Err(error) => return Err(failed("no room for 64 MiB", &io::Error::from(error))),
        }
        let node = losetup(&["--find", "--show", "--sizelimit", &bytes.to_string()], path)?;
        let name = node.trim_start_matches("/dev/").to_owned();
        let device = OpenOptions::new().read(true).write(true).open(&node);
        // It stays attached while open; then the kernel detaches it.
        let detached = losetup(&["--detach"], Path::new(&node));
        let device = device.map_err(|error| failed(&node, &error))?;
        detached?;
        let scratch = Self { name, device };
        scratch.is_ours(file, bytes)?;
        Ok(scratch)
    }

    /// Checks that the device held open is backed by the scratch file. Another process could have
    /// taken it between two calls, but not while it is held open.
    fn is_ours(&self, file: &File, bytes: u64) -> io::Result<()> {
        let sys = SystemRoot::here();
        let device = sys.device(&self.name).ok_or_else(|| io::Error::other("it has gone"))?;
        let backing = sys.text(device.folder.join("loop/backing_file")).unwrap_or_default();
        let number = self.device.metadata()?.rdev();
        let is_it = device.number == (rustix::fs::major(number), rustix::fs::minor(number));
        let same_file = |backing: &Path| {
            let (ours, its) = (file.metadata().ok()?, backing.metadata().ok()?);
            Some((ours.dev(), ours.ino()) == (its.dev(), its.ino()))
        };
        if !is_it || device.size.0 != bytes || same_file(Path::new(&backing)) != Some(true) {
            let line =
                format!("{}: another process has claimed it; run the command again", self.name);
            return Err(io::Error::other(line));
        }
        Ok(())
    }

    /// Computes the expected requests. A segment is one block, and a request has a limited number
    /// of segments and bytes. A flush adds one.
    fn expected(&self, sectors: u64) -> SizeCost {
        let number = |name: &str| {
            SystemRoot::here()
                .number(format!("/sys/block/{}/queue/{name}", self.name))
                .unwrap_or(u64::MAX)
        };
        let logical = ByteCount(number("logical_block_size").min(PAGE_SIZE));
        let block = block_size(ByteCount(sectors * SECTOR_SIZE), logical, ByteCount(PAGE_SIZE)).0;
        let most = number("max_segments").saturating_mul(block);
        let most = most.min(number("max_sectors_kb").saturating_mul(1024));
        let requests = WRITTEN.div_ceil(most) + 1;
        SizeCost { sectors, block_bytes: block, expected_requests: requests, ..SizeCost::default() }
    }

    /// Returns the write requests so far, the fifth field of `stat`.
    fn writes(&self) -> io::Result<u64> {
        let stat =
            SystemRoot::here().text(format!("/sys/block/{}/stat", self.name)).unwrap_or_default();
        let field = stat.split_whitespace().nth(4).and_then(|field| field.parse().ok());
        field.ok_or_else(|| {
            io::Error::other(format!("{}: the statistics do not count writes", self.name))
        })
    }

    fn fill(&self) -> io::Result<()> {
        let mut device = &self.device;
        for _ in 0..WRITTEN / PAGE_SIZE {
            device.write_all(&PAGE)?;
        }
        device.sync_all()
    }
}

/// Runs losetup and returns its output.
fn losetup(args: &[&str], path: &Path) -> io::Result<String> {
    let done = helper_program("losetup")
        .and_then(|program| Command::new(program).args(args).arg(path).output());
    let done = done.map_err(|error| io::Error::other(format!("losetup: {error}; install it")))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned());
    }
    let error = String::from_utf8_lossy(&done.stderr);
    let error = error.trim().lines().next().unwrap_or("it failed").to_owned();
    Err(io::Error::other(format!("{error}; run as root, with loop devices available")))
}

/// Bytes written each time: enough for a thousand requests, and few enough for any folder.
const WRITTEN: u64 = 64 << 20;

/// Data to write: whole pages, so that nothing has to be read first.
const PAGE: [u8; 4096] = [0x5a; 4096];
const _: () = assert!(PAGE.len() as u64 == PAGE_SIZE);

/// Rounds that count.
const ROUNDS: u32 = 3;
