//! `foreread record`: records the file reads of a program as a trace.
//!
//! Stdout belongs to the command; notes go to stderr.

mod args;
mod plan;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;

use foreread_files::{CommandInput, FileError, KeptPart, ResultFile};
use foreread_record::{
    LeftProcess, RecordCommand, RecordError, RecordTotals, record, record_process,
};
use foreread_trace::{OutputFormat, TraceWriter, UnheldNames};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{flag, low_level};

pub(crate) use self::args::RecordArgs;
use self::plan::{RecordPlan, RecordedProgram};
use foreread_cli::args::trace_output::is_trace;
use foreread_cli::output::{Failure, cannot, plain};

pub(crate) fn run(args: RecordArgs) -> Result<(), Failure> {
    let plan = args.plan()?;
    let inputs: [CommandInput<'_>; 0] = [];
    let file = ResultFile::create(&plan.file, &inputs, is_trace).map_err(file_error)?;
    match &plan.program {
        RecordedProgram::Process(process) => run_process(&plan, *process, file),
        RecordedProgram::Command(command) => run_command(&plan, command, file),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn file_error(error: FileError) -> Failure {
    Failure::WrongUse(format!("--output {error}"))
}

fn run_command(
    plan: &RecordPlan,
    command: &RecordCommand,
    file: ResultFile,
) -> Result<(), Failure> {
    let terminator = Terminator::new().map_err(cannot("listen to signals"))?;
    let waits = |left: &[LeftProcess]| say_left(&command.program.to_string_lossy(), left);
    let summary =
        written(plan, file, |writer| record(command, writer, |pid| terminator.watch(pid), waits))?;
    say(plan, &summary.totals);
    if let Some(error) = &summary.untraced {
        let line = format!(
            "the command could not be traced ({error}), so its reads stopped at a listener: a \
             signal may have made some of them fail with EINTR"
        );
        // Lost if stderr is closed.
        let _ = writeln!(io::stderr(), "foreread: {line}");
    }
    match code(summary.status) {
        0 => Ok(()),
        code => Err(Failure::Command(code)),
    }
}

fn run_process(plan: &RecordPlan, process: u32, file: ResultFile) -> Result<(), Failure> {
    let attached = |threads: usize| {
        let line = format!("recording process {process} ({threads} threads); Ctrl-C ends that");
        // Lost if stderr is closed.
        let _ = writeln!(io::stderr(), "foreread: {line}");
    };
    let left = |left: &[LeftProcess]| say_running(process, left);
    let summary = written(plan, file, |writer| record_process(process, writer, attached, left))?;
    say(plan, &summary.totals);
    Ok(())
}

/// Records into a file, which is there when all of it is, or all that its disk had room for.
fn written<T>(
    plan: &RecordPlan,
    file: ResultFile,
    record: impl FnOnce(&mut TraceWriter<&mut dyn io::Write>) -> Result<T, RecordError>,
) -> Result<T, Failure> {
    let kept = match plan.format {
        OutputFormat::Foreread => KeptPart::Bytes,
        OutputFormat::Csv | OutputFormat::FioV3 => KeptPart::Lines,
    };
    let mut summary = None;
    let mut failed = None;
    let mut hashed = 0;
    let written = file.write_what_fits(kept, |out| {
        // The program runs once: its reads are kept.
        let writer = TraceWriter::new(out, plan.format, plan.hash_names);
        let mut writer = writer.unheld_names(UnheldNames::Hashed);
        let recorded = record(&mut writer);
        hashed = writer.hashed_names();
        match recorded {
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
    if let Some(error) = written.map_err(file_error)? {
        let path = plan.file.display();
        let line = format!("--output {path}: {error}; the trace has the reads before that");
        return Err(Failure::WrongUse(line));
    }
    if hashed > 0 {
        let line = format!(
            "hashes stand for {hashed} names of files, which fio-3 cannot hold: they have white \
             space, or more than 255 bytes"
        );
        // Lost if stderr is closed.
        let _ = writeln!(io::stderr(), "foreread: {line}");
    }
    Ok(summary.expect("the trace was written"))
}

/// Prints a summary to stderr, including accesses that were not recorded.
fn say(plan: &RecordPlan, totals: &RecordTotals) {
    let mut lines = vec![format!(
        "{}: {} reads of {} files, {} MiB",
        plan.file.display(),
        totals.reads,
        totals.files,
        totals.bytes >> 20
    )];
    let unseen = totals.unseen;
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
    if unseen.foreign > 0 {
        lines.push(format!(
            "{} reads and mappings by 32-bit programs are missing: only calls of 64-bit programs \
             are recorded",
            unseen.foreign
        ));
    }
    if unseen.listeners > 0 {
        lines.push(
            "it installed a listener of system calls of its own (seccomp): reads that stop there \
             are not seen"
                .to_owned(),
        );
    }
    for program in &totals.unprivileged {
        lines.push(format!(
            "{} ran without the privileges that its file gives (setuid or capabilities): record as \
             root to keep them",
            plain(program)
        ));
    }
    for line in lines {
        // Lost if stderr is closed.
        let _ = writeln!(io::stderr(), "foreread: {line}");
    }
}

/// Formats the first processes by number and name, and the number of others.
fn names(left: &[LeftProcess]) -> String {
    let shown = |process: &LeftProcess| format!("{} ({})", process.id, process.name);
    let names: Vec<String> = left.iter().take(LEFT_SHOWN).map(shown).collect();
    let more = left.len().saturating_sub(LEFT_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}

/// Reports processes that are still recorded after the given one ended, and how to end the
/// recording.
fn say_running(process: u32, left: &[LeftProcess]) {
    let line = format!(
        "process {process} has ended; what it has started runs on and is recorded: {}. Ctrl-C ends \
         that",
        names(left)
    );
    // Lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}

/// Reports processes that the recording waits for, and how to end it.
fn say_left(program: &str, left: &[LeftProcess]) {
    let line = match left {
        [] => format!(
            "{program} has ended; waiting for processes that it has left behind. The recording ends \
             with the last of them"
        ),
        [one] => format!(
            "{program} has ended; waiting for process {}, which it has left behind. The recording \
             ends with it: kill {}",
            names(left),
            one.id
        ),
        all => {
            let ids: Vec<String> = all.iter().map(|process| process.id.to_string()).collect();
            format!(
                "{program} has ended; waiting for processes {}, which it has left behind. The \
                 recording ends with the last of them: kill {}",
                names(left),
                ids.join(" ")
            )
        }
    };
    // Lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}

/// Number of processes to name.
const LEFT_SHOWN: usize = 8;

/// Returns the exit code like a shell: 128 plus the signal for a killed command.
fn code(ended: ExitStatus) -> u8 {
    let code = ended.code().or(ended.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Passes SIGTERM on to the command.
struct Terminator {
    heard: UnixStream,
}

impl Terminator {
    /// Keeps signals from ending this process, which would end the recording before the command.
    fn new() -> io::Result<Self> {
        // Uses empty handlers, so that the command inherits the default actions. The terminal
        // signals all its processes. Ignored signals (nohup) stay ignored in the command.
        let ignored = ignored_signals();
        let of_terminal = [SIGINT, SIGQUIT, SIGHUP];
        for signal in of_terminal.into_iter().filter(|signal| !is_in(ignored, *signal)) {
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
                // The command may have ended while its other processes run.
                let _ = pidfd_send_signal(&command, Signal::TERM);
            }
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(pass_on);
    }
}

/// Returns the ignored signals of this process as a bit mask from signal 1 on.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(signals: u64, signal: i32) -> bool {
    signals & (1 << (signal - 1)) != 0
}
