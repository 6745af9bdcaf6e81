//! A recording with every option resolved. `args` makes it; the other modules see no options of the
//! command line.

use std::path::PathBuf;

use foreread_record::RecordCommand;
use foreread_trace::OutputFormat;

/// One run of `foreread record`.
#[derive(Debug)]
pub(super) struct RecordPlan {
    pub(super) program: RecordedProgram,
    /// Trace file.
    pub(super) file: PathBuf,
    pub(super) format: OutputFormat,
    /// Writes hashes instead of file names.
    pub(super) hash_names: bool,
}

/// Program whose reads are recorded.
#[derive(Debug)]
pub(super) enum RecordedProgram {
    /// A command to start.
    Command(RecordCommand),
    /// A running process.
    Process(u32),
}
