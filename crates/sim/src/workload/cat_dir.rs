//! `cat dir/*.c`: small files, one after the other. A chain of dependent reads; only read-ahead
//! runs concurrently.
//!
//! ```text
//!   a directory   |dir|inodes|file 0|file 1|  file 2, its first 48K  |indirect| the rest |file 3|
//!   reads           1    2      3      4               5                 6         7
//! ```
//!
//! The layout is that of ext2: 32 inodes per block, and after the first 12 blocks of a file an
//! indirect block with the positions of the others.

use foreread_core::path::DeviceId;
use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE, Sector};
use serde::Deserialize;

use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::reader::SimReader;
use crate::rng::Rng;
use crate::run::{SimFile, SimRun};
use crate::size::Size;
use crate::time::{check_time, ns_of_ms, seconds};
use crate::validate::check;

/// Reads the files of directories. Its meter reports `chain_s`: the seconds from the start of its
/// first read to the end of its last.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatDir {
    /// Device.
    pub device: String,
    /// Position of the directory.
    #[serde(default)]
    pub at: Size,
    /// Number of directories.
    #[serde(default = "one")]
    pub dirs: u32,
    /// With several: each is at a random position within this range after `at`.
    #[serde(default)]
    pub spread: Size,
    /// Number of files per directory.
    pub files: u32,
    /// Mean file size; sizes are random, small ones more frequent, and at most eight times the
    /// mean.
    pub size: Size,
    /// Size of a read.
    #[serde(default = "read")]
    pub read: Size,
    /// CPU time to open and print a file.
    #[serde(default)]
    pub cpu_us: f64,
}

/// Files that are read one after the other.
#[derive(Debug)]
struct Dir {
    /// The directory and its inodes.
    head: SimFile,
    files: Vec<Parts>,
}

/// A file: its data, and the indirect block in between.
#[derive(Debug)]
struct Parts {
    first: SimFile,
    indirect: Option<(SimFile, SimFile)>,
}

impl CatDir {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        check((1..=10_000).contains(&self.files), "files", "1 to 10000")?;
        check((1..=10_000).contains(&self.dirs), "dirs", "1 to 10000")?;
        check(
            u64::from(self.files) * u64::from(self.dirs) <= 20_000,
            "dirs",
            "at most 20000 / files",
        )?;
        let size = self.size.0;
        check((ByteCount(1)..=ByteCount(1 << 20)).contains(&size), "size", "1 to 1M")?;
        check(self.read.0 > ByteCount::ZERO, "read", "at least a byte")?;
        check_time(self.cpu_us / 1e3, "cpu_us")?;
        let longest = ByteCount((LARGEST * size.0 + 2 * PAGE_SIZE) * u64::from(self.files));
        let longest = longest.0.next_multiple_of(PAGE_SIZE) + 2 * PAGE_SIZE;
        let room = ByteCount(self.spread.0.0.saturating_add(longest));
        machine.check_range(&self.device, self.at.0, room)
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let device = building.device(&self.device)?;
        let mut rng = Rng::named(building.run.seed(), name);
        let run = &mut building.run;
        let dirs = (0..self.dirs).map(|_| self.lay_out(run, device, &mut rng));
        let dirs = dirs.collect::<Result<Vec<_>, _>>()?;
        let params = self.clone();
        building.begin(name, start, async move |process: Process| {
            for dir in &dirs {
                params.cat(&process, dir).await;
            }
            process.meter(|meter, now| meter.other.insert("chain_s", seconds(now.0 - start.0)));
        });
        Ok(())
    }

    /// Places a directory on the device.
    fn lay_out(&self, run: &mut SimRun, device: DeviceId, rng: &mut Rng) -> Result<Dir, String> {
        let pages = self.spread.0.0 / PAGE_SIZE;
        let from = if pages > 0 { rng.below(pages) * PAGE_SIZE } else { 0 };
        let mut at = self.at.0.0.next_multiple_of(PAGE_SIZE) + from;
        let mut put = |bytes: u64| {
            let file = run.try_file(device, Sector(at / 512), ByteCount(bytes));
            at += bytes.next_multiple_of(PAGE_SIZE);
            file
        };
        let head = put((1 + u64::from(self.files).div_ceil(INODES)) * PAGE_SIZE)?;
        let files = (0..self.files).map(|_| {
            let size = drawn(self.size.0, rng);
            let first = put(size.min(DIRECT))?;
            let indirect =
                if size > DIRECT { Some((put(PAGE_SIZE)?, put(size - DIRECT)?)) } else { None };
            Ok(Parts { first, indirect })
        });
        Ok(Dir { head, files: files.collect::<Result<_, String>>()? })
    }

    async fn cat(&self, process: &Process, dir: &Dir) {
        let head = process.open(dir.head);
        // Blocks of file systems are not read ahead: each is read by number.
        head.advise(foreread_core::prefetch::Advice::Random);
        self.read_page(&head, 0).await;
        for (index, parts) in (0..).zip(&dir.files) {
            self.read_page(&head, 1 + index / INODES).await;
            process.pass_ns(ns_of_ms(self.cpu_us / 1e3)).await;
            self.read_all(&process.open(parts.first)).await;
            if let Some((indirect, rest)) = parts.indirect {
                self.read_all(&process.open(indirect)).await;
                self.read_all(&process.open(rest)).await;
            }
        }
    }

    async fn read_page(&self, reader: &SimReader, page: u64) {
        let got = reader.read(ByteCount(page * PAGE_SIZE), ByteCount(PAGE_SIZE)).await;
        got.expect("no device model fails a request");
    }

    async fn read_all(&self, reader: &SimReader) {
        let mut pos = ByteCount::ZERO;
        while pos < reader.len() {
            pos += reader.read(pos, self.read.0).await.expect("no device model fails a request");
        }
    }
}

/// Draws a file size from the exponential distribution, truncated where large files are rare.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small file"
)]
fn drawn(mean: ByteCount, rng: &mut Rng) -> u64 {
    (rng.exponential(mean.0 as f64) as u64).clamp(1, LARGEST * mean.0)
}

/// ext2: inodes per block of 4K.
const INODES: u64 = 32;
/// ext2: bytes of a file that need no indirect block.
const DIRECT: u64 = 12 * PAGE_SIZE;
/// Largest size relative to the mean: the cut changes the mean by a third of a thousandth.
const LARGEST: u64 = 8;

fn one() -> u32 {
    1
}

/// Default read size: the read-ahead of 2002 started a file with half of its largest window of
/// 128K.
fn read() -> Size {
    Size(ByteCount(64 << 10))
}
