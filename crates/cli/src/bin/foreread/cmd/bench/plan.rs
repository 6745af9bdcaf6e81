//! A run of `foreread bench` with every option resolved. `args` makes it; the other modules see no
//! options of the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use foreread::Policy;
use foreread::lab::Delay;
use foreread_core::units::ByteCount;

use foreread_cli::args::max_window::MaxWindow;
use foreread_cli::measure::flood::{FloodMethod, FloodSettings};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;
use foreread_cli::store::StoreAccess;

/// One run of `foreread bench`.
#[derive(Debug)]
pub(super) enum BenchPlan {
    /// Patterns that only read.
    Read(ReadPlan),
    /// A chain of reads while other threads overwrite the target.
    Flood(FloodPlan),
}

/// Patterns that only read.
#[derive(Debug)]
pub(super) struct ReadPlan {
    pub(super) target: ReadTarget,
    pub(super) patterns: PatternSelection,
    pub(super) methods: Vec<AccessMethod>,
    /// Read-ahead policy of foreread.
    pub(super) policy: Policy,
    /// Largest window of foreread and of the kernel; None: the kernel's.
    pub(super) window: Option<MaxWindow>,
    /// Memory limit of foreread's cache.
    pub(super) memory: ByteCount,
    pub(super) prefault: bool,
    /// Directory for what is learnt about the device; None: each run starts without records.
    pub(super) remember: Option<PathBuf>,
    pub(super) threads: u32,
    pub(super) runs: u32,
    /// Bytes per run; None: the pattern's own amount.
    pub(super) amount: Option<ByteCount>,
    /// Time limit of a run.
    pub(super) time: Duration,
    /// Time limit of a run of direct.
    pub(super) direct_time: Duration,
    /// First page of each stream.
    pub(super) start_page: u64,
    pub(super) delay: Option<Delay>,
    pub(super) output: BenchOutput,
}

/// Target of patterns that only read.
#[derive(Debug)]
pub(super) enum ReadTarget {
    /// File or block device.
    File(PathBuf),
    /// Object of a store.
    Object { url: String, store: StoreAccess },
}

/// Patterns to measure.
#[derive(Debug)]
pub(super) enum PatternSelection {
    /// These; one that does not fit is refused.
    Named(Vec<AccessPattern>),
    /// All that fit.
    Fitting,
}

/// Flood of writes beside a chain of reads.
#[derive(Debug)]
pub(super) struct FloodPlan {
    pub(super) target: PathBuf,
    pub(super) methods: Vec<FloodMethod>,
    pub(super) delay: Option<Delay>,
    pub(super) ours: FloodSettings,
    pub(super) runs: u32,
    /// Duration, or that of one chain if longer.
    pub(super) time: Duration,
    pub(super) output: BenchOutput,
}

/// Result files, and the form of the answer.
#[derive(Debug)]
pub(super) struct BenchOutput {
    pub(super) is_json: bool,
    /// All figures as JSON.
    pub(super) save: Option<PathBuf>,
    /// HTML report; of reads only.
    pub(super) html: Option<PathBuf>,
}

impl ReadTarget {
    /// Returns the path, or the URL.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Object { url, .. } => Path::new(url),
        }
    }
}
