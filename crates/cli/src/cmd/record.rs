//! `foreread record`: what a program reads, as a trace.
//!
//! In:    a command.
//! Out:   a trace; the command's exit code; what was not seen, on stderr.
//! Never: a line on stdout: that is the command's.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use clap::Args;
use foreread_files::{CommandInput, ResultFile};
use foreread_record::{RecordCommand, RecordError, RecordSummary, record};
use foreread_trace::{OutputFormat, TraceWriter};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::args::help::CODES_AND_UNITS;
use crate::args::trace_output::{is_trace, output_formats};
use crate::output::{Failure, cannot};

/// Record what a command and all that it starts read of files, for `foreread replay`
///
/// Root is not needed. Each read of a file is stopped for some microseconds (a seccomp filter), so
/// that its file, offset, length, thread and time can be noted; docs/record.md has what that costs.
/// Reads of pipes and sockets are stopped, too, and left out. Not seen: accesses to mapped memory,
/// io_uring and io_submit; a line at the end says how many there were. Programs cannot gain
/// privileges (sudo, ping) while they are recorded.
///
/// The recording ends when the last process of the command has ended. Ctrl-C goes to the command;
/// SIGTERM is passed on to it. The exit code is the command's.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct RecordArgs {
    /// The trace
    ///
    /// FILE must not exist, be empty, or be a trace of a format of --to (docs/files.md).
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The format
    ///
    /// fio-3 has no threads, and times in microseconds; the others have all.
    #[arg(long, value_name = "FORMAT", value_parser = output_formats(), default_value = "foreread")]
    to: OutputFormat,

    /// Write hashes in place of the names of files
    ///
    /// The same name has the same hash in every trace. A name that can be guessed can be confirmed.
    #[arg(long)]
    hash_names: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  foreread record -o scan.frt -- sqlite3 my.db 'select count(*) from t'
  foreread record -o status.csv --to csv --hash-names -- git status
  foreread replay scan.frt --html scan.html

";

pub(crate) fn run(args: &RecordArgs) -> Result<(), Failure> {
    let (program, rest) = args.command.split_first().expect("clap requires a command");
    let command = RecordCommand { program: program.clone(), args: rest.to_vec() };
    let inputs: [CommandInput<'_>; 0] = [];
    let file_error = |error| Failure::WrongUse(format!("--output {error}"));
    let file = ResultFile::create(&args.output, &inputs, is_trace).map_err(file_error)?;
    let terminator = Terminator::new().map_err(cannot("listen to signals"))?;
    let mut summary = None;
    let mut failed = None;
    let written = file.write_whole(|out| {
        let mut writer = TraceWriter::new(out, args.to, args.hash_names);
        match record(&command, &mut writer, |pid| terminator.watch(pid)) {
            Ok(recorded) => summary = Some(recorded),
            Err(RecordError::Output(error)) => return Err(error),
            Err(error) => {
                let copy = io::Error::other(error.to_string());
                failed = Some(error);
                return Err(copy);
            }
        }
        writer.finish().map(drop)
    });
    if let Some(error) = failed {
        return Err(Failure::WrongUse(error.to_string()));
    }
    written.map_err(file_error)?;
    let summary = summary.expect("the trace was written");
    say(args, &summary);
    match code(summary.status) {
        0 => Ok(()),
        code => Err(Failure::Command(code)),
    }
}

/// What was recorded, and what was not, on stderr.
fn say(args: &RecordArgs, summary: &RecordSummary) {
    let mut lines = vec![format!(
        "{}: {} reads of {} files, {} MiB",
        args.output.display(),
        summary.reads,
        summary.files,
        summary.bytes >> 20
    )];
    let unseen = summary.unseen;
    // Every program maps a few small files of its libraries.
    let mib = unseen.mapped_bytes >> 20;
    if mib > 0 {
        lines.push(format!(
            "{} mappings of files of {mib} MiB: accesses to them are not seen",
            unseen.mappings
        ));
    }
    if unseen.asynchronous > 0 {
        lines.push("it uses io_uring or io_submit: these reads are not seen".to_owned());
    }
    if unseen.lost > 0 {
        lines.push(format!(
            "{} reads are missing: their file or position could not be seen",
            unseen.lost
        ));
    }
    for line in lines {
        // Lost if stderr is closed.
        let _ = writeln!(io::stderr(), "foreread: {line}");
    }
}

/// As a shell: 128 and the signal's number for one that was killed.
fn code(ended: ExitStatus) -> u8 {
    let code = ended.code().or(ended.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Passes SIGTERM on to the command.
struct Terminator {
    heard: UnixStream,
}

impl Terminator {
    /// From now on signals do not end this process: the command would be left without its reads.
    fn new() -> io::Result<Self> {
        // Handlers that do nothing: the command gets the signal's own meaning back. The terminal
        // sends both to all of its processes. What is ignored (nohup) stays so for the command.
        let ignored = ignored_signals();
        for signal in [SIGINT, SIGHUP].into_iter().filter(|signal| !is_in(ignored, *signal)) {
            flag::register(signal, Arc::default())?;
        }
        let (heard, said) = UnixStream::pair()?;
        if !is_in(ignored, SIGTERM) {
            low_level::pipe::register(SIGTERM, said)?;
        }
        Ok(Self { heard })
    }

    fn watch(self, pid: u32) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let open = |pid| pidfd_open(pid, PidfdFlags::empty()).ok();
        let Some(command) = pid.and_then(open) else { return };
        let mut heard = self.heard;
        let pass_on = move || {
            let mut one = [0];
            while matches!(heard.read(&mut one), Ok(1)) {
                // It may have ended: then other processes of the command are waited for.
                let _ = pidfd_send_signal(&command, Signal::TERM);
            }
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(pass_on);
    }
}

/// The signals that this process ignores, as bits from signal 1 on.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(signals: u64, signal: i32) -> bool {
    signals & (1 << (signal - 1)) != 0
}
