//! The file of an option that wants one, such as `--html FILE`.
//!
//! In:    the option and its path, checked before the work; what is to be written.
//! Out:   the file, whole; errors that name the option.
//! Never: another file than an earlier result of the same kind replaced.

use std::io::{self, Write};
use std::path::Path;

use foreread_files::{CommandInput, FileError, ResultFile, is_stdout};

use crate::output::Failure;

/// A file that is not there before [`OutputFile::write`].
pub(crate) struct OutputFile {
    option: &'static str,
    file: ResultFile,
}

impl OutputFile {
    /// Prepares the file of an option.
    pub(crate) fn prepare(
        option: &'static str,
        path: &Path,
        inputs: &[CommandInput<'_>],
        is_ours: fn(&[u8]) -> bool,
    ) -> Result<Self, Failure> {
        let file = ResultFile::create(path, inputs, is_ours);
        file.map(|file| Self { option, file }).map_err(|error| failed(option, &error))
    }

    /// Writes all of it.
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.file.write_whole(write).map_err(|error| failed(self.option, &error))
    }
}

/// Refuses stdout for what an option makes (`the page`), because something else (`--json is`) is
/// written there.
pub(crate) fn refuse_stdout(
    (option, made): (&str, &str),
    path: &Path,
    other: &str,
) -> Result<(), Failure> {
    if !is_stdout(path) {
        return Ok(());
    }
    let shown = path.display();
    Err(Failure::WrongUse(format!("{option} {shown}: {other} written there; give {made} a file")))
}

fn failed(option: &str, error: &FileError) -> Failure {
    Failure::WrongUse(format!("{option} {error}"))
}
