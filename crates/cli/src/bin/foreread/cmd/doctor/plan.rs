//! A run of `foreread doctor` with every option resolved. `args` makes it; the other modules see no
//! options of the command line.

use std::path::PathBuf;

/// One run of `foreread doctor`.
#[derive(Debug)]
pub(super) enum DoctorPlan {
    /// Examines devices and mounts.
    System(SystemPlan),
    /// Examines the stores of objects.
    #[cfg(feature = "objects")]
    Stores { urls: Vec<String>, form: FindingsForm },
    /// Writes all that doctor reads from a system to a file.
    Capture { root: PathBuf, file: PathBuf },
    /// Compares machines.
    Merge(MergePlan),
}

/// Examination of devices and mounts.
#[derive(Debug)]
pub(super) struct SystemPlan {
    /// Names of devices and mounts; empty: all.
    pub(super) targets: Vec<String>,
    /// This system, or a recorded one.
    pub(super) root: PathBuf,
    pub(super) form: FindingsForm,
    /// HTML report.
    pub(super) html: Option<PathBuf>,
    /// Metrics for the textfile collector.
    pub(super) prometheus: Option<PathBuf>,
    /// Directory for the scratch file of the measurement; None: no measurement.
    pub(super) measure_in: Option<PathBuf>,
}

/// Form of the findings on stdout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FindingsForm {
    /// Tables and paragraphs.
    Report,
    /// The same, with the device stack below each mount.
    ReportWithStacks,
    /// One line per finding.
    Lines,
    Json,
}

/// Comparison of machines.
#[derive(Debug)]
pub(super) struct MergePlan {
    /// Output files of `doctor --json`.
    pub(super) files: Vec<PathBuf>,
    /// HTML report.
    pub(super) html: Option<PathBuf>,
    pub(super) is_json: bool,
}
