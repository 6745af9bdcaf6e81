//! Workloads: what a process of a scenario does.
//!
//! In:    its parameters, the files and devices of the scenario.
//! Out:   one process, or several that belong together.
//! Never: a policy. What it reads, it reads for its own reasons.
//!
//! One file per workload: its parameters, what is wrong with them, and its life as an `async fn`.

pub mod blkid;
pub mod capture;
pub mod cat_dir;
pub mod find;
pub mod flood;
pub mod git_status;
pub mod interleaved;
pub mod mount;
pub mod nfsd;
mod pace;
pub mod random;
pub mod rates;
pub mod sequential;
pub mod streaming;

use foreread_core::units::{ByteCount, Nanos};
use serde::Deserialize;

use crate::scenario::{PreparedRun, Scenario};

/// A workload with its parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// Reads a file from one end, as `dd` and `cat` do.
    Sequential(sequential::Sequential),
    /// Reads at random places, through the cache or past it.
    Random(random::Random),
    /// Looks at the head of a device, as `blkid` does.
    Blkid(blkid::Blkid),
    /// Reads several streams in turns, through one handle.
    Interleaved(interleaved::Interleaved),
    /// Reads the small files of directories, one after the other.
    CatDir(cat_dir::CatDir),
    /// Writes as fast as a queue takes them.
    Flood(flood::Flood),
    /// Records video.
    Capture(capture::Capture),
    /// Walks a tree of ext4, as `find` does.
    Find(find::Find),
    /// Looks at all files of a tree of ext4, as `git status` does.
    GitStatus(git_status::GitStatus),
    /// An NFS server whose threads take turns at one file, and its client.
    Nfsd(nfsd::Nfsd),
    /// A server of large files and its clients, each with a rate of its own.
    Streaming(streaming::Streaming),
}

impl Workload {
    /// What is wrong with its parameters, if anything.
    pub(crate) fn check(&self, scenario: &Scenario) -> Result<(), String> {
        match self {
            Self::Sequential(params) => params.check(scenario),
            Self::Random(params) => params.check(scenario),
            Self::Blkid(params) => params.check(scenario),
            Self::Interleaved(params) => params.check(scenario),
            Self::CatDir(params) => params.check(scenario),
            Self::Flood(params) => params.check(scenario),
            Self::Capture(params) => params.check(scenario),
            Self::Find(params) => params.check(scenario),
            Self::GitStatus(params) => params.check(scenario),
            Self::Nfsd(params) => params.check(scenario),
            Self::Streaming(params) => params.check(scenario),
        }
    }

    /// Begins it at `start`; `index` is its number among those that are alike.
    pub(crate) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        index: u32,
        start: Nanos,
    ) -> Result<(), String> {
        match self {
            Self::Sequential(params) => params.begin(building, name, index, start),
            Self::Random(params) => params.begin(building, name, start),
            Self::Blkid(params) => params.begin(building, name, start),
            Self::Interleaved(params) => params.begin(building, name, start),
            Self::CatDir(params) => params.begin(building, name, start),
            Self::Flood(params) => params.begin(building, name, start),
            Self::Capture(params) => params.begin(building, name, start),
            Self::Find(params) => params.begin(building, name, start),
            Self::GitStatus(params) => params.begin(building, name, start),
            Self::Nfsd(params) => params.begin(building, name, start),
            Self::Streaming(params) => params.begin(building, name, start),
        }
    }
}

/// The file of that name in a scenario.
fn file_of<'s>(
    scenario: &'s Scenario,
    name: &str,
) -> Result<&'s crate::scenario::FileSpec, String> {
    let files = &scenario.file;
    files.get(name).ok_or_else(|| crate::scenario::unknown("file", name, files.keys()))
}

/// Refuses a place that a device of a scenario does not have.
fn check_place(
    scenario: &Scenario,
    device: &str,
    at: ByteCount,
    size: ByteCount,
) -> Result<(), String> {
    let devices = &scenario.device;
    let unknown = || crate::scenario::unknown("device", device, devices.keys());
    let spec = devices.get(device).ok_or_else(unknown)?;
    check(at.0.is_multiple_of(512), "at", "whole sectors")?;
    let capacity = spec.model.get_ref().model.geometry().capacity;
    let is_inside = at.0.checked_add(size.0).is_some_and(|end| end <= capacity.0);
    if is_inside {
        return Ok(());
    }
    Err(format!("at: {size} bytes from there on end behind {device}, which has {capacity}"))
}

/// Refuses a request larger than a device of the scenario takes: requests are not split.
fn check_request(
    scenario: &Scenario,
    device: &str,
    request: ByteCount,
    what: &str,
) -> Result<(), String> {
    let devices = &scenario.device;
    let unknown = || crate::scenario::unknown("device", device, devices.keys());
    let spec = devices.get(device).ok_or_else(unknown)?;
    let most = spec.model.get_ref().model.geometry().max_io.bytes();
    let wants = format!("no more than max_command of {device}, {most} bytes");
    check(request <= most, what, &wants)
}

/// When a reader of this rate wants the byte at `done`.
#[expect(clippy::cast_precision_loss, reason = "53 bits of bytes")]
fn due(began: Nanos, done: ByteCount, kib_per_s: f64) -> Nanos {
    let ns = crate::scenario::ns_of_ms(done.0 as f64 / 1024.0 / kib_per_s * 1e3);
    Nanos(began.0.saturating_add(ns))
}

/// Refuses what makes no sense.
fn check(holds: bool, what: &str, wants: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: wants {wants}")) }
}
