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
mod places;
pub mod random;
pub mod rates;
pub mod run_length;
pub mod scans;
pub mod sequential;
pub mod streaming;

use foreread_core::units::Nanos;
use serde::Deserialize;

use crate::machine::Machine;
use crate::prepared_run::PreparedRun;

/// A workload with its parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// Reads a file from one end, as `dd` and `cat` do.
    Sequential(sequential::Sequential),
    /// Reads at random places, through the cache or past it.
    Random(random::Random),
    /// Scans from place to place, each of which ends.
    Scans(scans::Scans),
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
    pub(crate) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        match self {
            Self::Sequential(params) => params.check(machine),
            Self::Random(params) => params.check(machine),
            Self::Scans(params) => params.check(machine),
            Self::Blkid(params) => params.check(machine),
            Self::Interleaved(params) => params.check(machine),
            Self::CatDir(params) => params.check(machine),
            Self::Flood(params) => params.check(machine),
            Self::Capture(params) => params.check(machine),
            Self::Find(params) => params.check(machine),
            Self::GitStatus(params) => params.check(machine),
            Self::Nfsd(params) => params.check(machine),
            Self::Streaming(params) => params.check(machine),
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
            Self::Scans(params) => params.begin(building, name, start),
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
