//! Workloads: the behaviour of the processes of a scenario.
//!
//! In:    parameters, and the files and devices of the scenario.
//! Out:   one process, or a group of cooperating ones.
//!
//! One file per workload: its parameters, their checks, and its behaviour as an `async fn`.

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
    /// Reads a file sequentially, like `dd` and `cat`.
    Sequential(sequential::Sequential),
    /// Reads at random positions, through the cache or bypassing it.
    Random(random::Random),
    /// Runs finite scans from random positions.
    Scans(scans::Scans),
    /// Reads the head of a device, like `blkid`.
    Blkid(blkid::Blkid),
    /// Alternates between several streams on one handle.
    Interleaved(interleaved::Interleaved),
    /// Reads the small files of directories, one after the other.
    CatDir(cat_dir::CatDir),
    /// Writes as fast as a queue accepts.
    Flood(flood::Flood),
    /// Records video.
    Capture(capture::Capture),
    /// Walks an ext4 tree, like `find`.
    Find(find::Find),
    /// Checks all files of an ext4 tree, like `git status`.
    GitStatus(git_status::GitStatus),
    /// An NFS server whose threads share one file, and its client.
    Nfsd(nfsd::Nfsd),
    /// A server of large files, and its clients with individual rates.
    Streaming(streaming::Streaming),
}

impl Workload {
    /// Checks the parameters.
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

    /// Starts the workload at `start`; `index` is its number among identical ones.
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
