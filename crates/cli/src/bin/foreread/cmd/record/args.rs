//! The arguments of `foreread record`, their help, and the plan that follows from them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use foreread_files::is_stdout;
use foreread_record::RecordCommand;

use super::plan::{RecordPlan, RecordedProgram};
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::trace_output::format_of;
use foreread_cli::output::Failure;

/// Record the file reads of a command or a running process, for `foreread-lab replay`
///
/// Records file, offset, length, thread and time of each read of the command and its children. Root
/// is not needed. Each read of a file takes some microseconds longer (a seccomp filter and ptrace;
/// docs/guide/record.md has figures). Reads of pipes and sockets are stopped, too, but not
/// recorded. Accesses to mapped memory, io_uring, io_submit and calls of 32-bit programs are not
/// recorded; a line at the end counts them. Unless root records, programs cannot gain privileges
/// (sudo, ping); a line names those that tried.
///
/// The recording ends with the last process of the command. If the command leaves some behind (a
/// daemon), a line on stderr names them: kill them to end the recording. Ctrl-C and Ctrl-\ go to
/// the command; SIGTERM is passed on to it. The exit code is that of the command.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct RecordArgs {
    /// Trace file to write
    ///
    /// A name that ends in .csv is written as CSV, one in .iolog as fio's iolog version 3, any
    /// other in foreread's own format, which `foreread-lab trace` converts. iolog has no threads,
    /// has times in microseconds, and hashes names with white space; the others are lossless.
    ///
    /// FILE must be absent, empty, or a trace in one of these formats (docs/guide/files.md). If its
    /// disk fills up, the trace ends there; the command still runs to its end, a line on stderr
    /// says so, and the exit code is 2.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Replace file names by hashes
    ///
    /// Equal names have equal hashes in every trace. Hashes of names that can be guessed can be
    /// confirmed.
    #[arg(long)]
    hash_names: bool,

    /// Record a running process instead of a command
    ///
    /// Records the process, its threads and the processes it starts, until it exits, or until
    /// Ctrl-C or SIGTERM ends the recording. The process continues then, also if this command is
    /// killed. Uses ptrace: each system call of the process stops twice, and no debugger may be
    /// attached.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Command and its arguments
    #[arg(required_unless_present = "pid", last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RecordArgs {
    /// Resolves the options into a plan.
    ///
    /// # Errors
    ///
    /// Refuses stdout as the trace file of a command, which owns it.
    pub(super) fn plan(self) -> Result<RecordPlan, Failure> {
        let program = match self.pid {
            Some(process) => RecordedProgram::Process(process),
            None if is_stdout(&self.output) => {
                let shown = self.output.display();
                let line =
                    format!("--output {shown}: stdout is the command's; give the trace a file");
                return Err(Failure::WrongUse(line));
            }
            None => {
                let mut words = self.command.into_iter();
                let program = words.next().expect("clap requires a command");
                RecordedProgram::Command(RecordCommand { program, args: words.collect() })
            }
        };
        Ok(RecordPlan {
            program,
            format: format_of(&self.output),
            file: self.output,
            hash_names: self.hash_names,
        })
    }
}

const EXAMPLES: &str = "\
Examples:
  foreread record -o scan.frt -- sqlite3 my.db 'select count(*) from t'
  foreread record -o status.csv --hash-names -- git status
  foreread record -o server.frt --pid 4711
  foreread-lab replay scan.frt --html scan.html

";
