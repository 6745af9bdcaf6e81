//! Output files of a command, such as `--html FILE`.
//!
//! Paths are checked before the work starts. A file is written atomically and replaces only an
//! earlier result of the same kind; two options never share a file. Errors name the option.

use std::io::{self, Write};
use std::path::Path;

use foreread_files::{CommandInput, FileError, OutputDestination, ResultFile, is_stdout};

use crate::output::Failure;

/// The outputs of one command, each of which is prepared before its work.
pub struct CommandOutputs<'i> {
    inputs: &'i [CommandInput<'i>],
    /// Files prepared so far.
    taken: Vec<(&'static str, OutputDestination)>,
}

/// A file that is not there before [`OutputFile::write`].
pub struct OutputFile {
    option: &'static str,
    file: ResultFile,
}

impl<'i> CommandOutputs<'i> {
    /// Creates the outputs of a command with these inputs, which are never replaced.
    pub fn beside(inputs: &'i [CommandInput<'i>]) -> Self {
        Self { inputs, taken: Vec::new() }
    }

    /// Prepares the file of an option. `is_ours` recognises an earlier result by its first bytes.
    pub fn prepare(
        &mut self,
        option: &'static str,
        path: &Path,
        is_ours: fn(&[u8]) -> bool,
    ) -> Result<OutputFile, Failure> {
        let failed = |error: FileError| failed(option, &error);
        self.take(option, path, OutputDestination::of(path).map_err(failed)?)?;
        let file = ResultFile::create(path, self.inputs, is_ours).map_err(failed)?;
        Ok(OutputFile { option, file })
    }

    /// Reserves the path of an option whose file is created elsewhere, which also checks the path.
    pub fn reserve(&mut self, option: &'static str, path: &Path) -> Result<(), Failure> {
        self.take(option, path, OutputDestination::of(path).ok().flatten())
    }

    fn take(
        &mut self,
        option: &'static str,
        path: &Path,
        destination: Option<OutputDestination>,
    ) -> Result<(), Failure> {
        let Some(destination) = destination else { return Ok(()) };
        let mut taken = self.taken.iter();
        if let Some((other, _)) = taken.find(|(_, taken)| *taken == destination) {
            let line = format!("{option} {}: {other} is written there", path.display());
            return Err(Failure::WrongUse(format!("{line}; give one of them another path")));
        }
        self.taken.push((option, destination));
        Ok(())
    }
}

impl OutputFile {
    /// Writes all of it.
    pub fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.file.write_whole(write).map_err(|error| failed(self.option, &error))
    }
}

/// Refuses stdout for an output (`the page`) if another one (`--json is`) is written there.
pub fn refuse_stdout(
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

/// Converts the error of an option's file. A closed reader of stdout (`--output - | head`) is no
/// error of the path.
pub fn failed(option: &str, error: &FileError) -> Failure {
    if let FileError::System { path, source, .. } = error
        && is_stdout(path)
        && source.kind() == io::ErrorKind::BrokenPipe
    {
        return Failure::Stdout(io::ErrorKind::BrokenPipe.into());
    }
    Failure::WrongUse(format!("{option} {error}"))
}
