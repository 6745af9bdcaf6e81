//! `--record` of commands that read through an engine: their reads as a trace.
//!
//! The trace appears when the recording ends. A failure to write it never ends the service.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use clap::Args;
use foreread::{EngineBuilder, ReadEvent};
use foreread_files::{CommandInput, KeptPart, ResultFile};
use foreread_record::{LoggedRead, ReadLog, ReadLogSummary};
use foreread_trace::OutputFormat;

use foreread_cli::args::trace_output::is_trace;
use foreread_cli::output::{Failure, cannot};

/// Options for recording reads.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReadRecordingArgs {
    /// Record each read as a trace in FILE, for `foreread-lab replay`
    ///
    /// The trace has thread, file, offset, length and time of each read, including cache hits. It
    /// appears when this command exits. FILE must be absent, empty, or a trace
    /// (docs/guide/files.md). If its disk fills up, a line on stderr says so, the trace is kept up
    /// to that point, and this command continues; if nothing could be written, another line says
    /// that the recording is lost.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// A running recording; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadRecording(Option<Arc<RunningRecording>>);

#[derive(Debug)]
struct RunningRecording {
    log: Arc<ReadLog>,
    /// True if the trace is moved to its final path.
    is_kept: Arc<AtomicBool>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl ReadRecordingArgs {
    /// Resolves the options.
    pub(crate) fn resolve(self) -> RecordingTarget {
        RecordingTarget(self.record)
    }
}

/// File that reads are recorded in; None: no recording.
#[derive(Clone, Debug)]
pub(crate) struct RecordingTarget(Option<PathBuf>);

impl RecordingTarget {
    /// Returns the file of --record.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// Begins to record the reads of an engine, if that is wanted.
    pub(crate) fn start(
        &self,
        target: &Path,
        builder: EngineBuilder,
    ) -> Result<(EngineBuilder, ReadRecording), Failure> {
        let Some(path) = &self.0 else { return Ok((builder, ReadRecording::default())) };
        let inputs = [CommandInput { name: "TARGET", path: target }];
        let file = ResultFile::create(path, &inputs, is_trace);
        let file = file.map_err(|error| Failure::WrongUse(format!("--record {error}")))?;
        let log = Arc::new(ReadLog::new());
        let shown = path.display().to_string();
        let is_kept = Arc::new(AtomicBool::new(false));
        let writer = {
            let (log, is_kept) = (Arc::clone(&log), Arc::clone(&is_kept));
            let write = move || write(file, &shown, &log, &is_kept);
            std::thread::Builder::new().name("record".to_owned()).spawn(write)
        };
        let writer = Mutex::new(Some(writer.map_err(cannot("start a thread"))?));
        let observed = Arc::clone(&log);
        let builder = builder.observe_reads(move |read| {
            let ReadEvent { path, handle, file_len, offset, length, .. } = *read;
            observed.add(&LoggedRead { path, handle, file_len, offset, length });
        });
        Ok((builder, ReadRecording(Some(Arc::new(RunningRecording { log, is_kept, writer })))))
    }
}

impl ReadRecording {
    /// Ends the recording, and waits until its trace is written. Once is enough; a recording that
    /// is dropped before leaves no trace.
    pub(crate) fn finish(&self) {
        if let Some(running) = &self.0 {
            running.is_kept.store(true, Ordering::SeqCst);
            running.end();
        }
    }
}

impl RunningRecording {
    fn end(&self) {
        self.log.finish();
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = writer.take() {
            // Errors were already printed.
            let _ = writer.join();
        }
    }
}

impl Drop for RunningRecording {
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes the trace until the recording ends. A full disk ends it early and keeps the part written.
fn write(file: ResultFile, shown: &str, log: &ReadLog, is_kept: &AtomicBool) {
    let mut summary = ReadLogSummary::default();
    let mut has_failed = false;
    // A trace of this format reads back wherever it is cut off.
    let written = file.write_what_fits(KeptPart::Bytes, |out| {
        summary = log.write_to(out, OutputFormat::Foreread, false);
        if let Some(error) = summary.error.take() {
            has_failed = true;
            warn(&format!("--record {shown}: {error}; the recording has ended, and reads go on"));
            return Err(error);
        }
        let is_kept = is_kept.load(Ordering::SeqCst);
        if is_kept { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    });
    let ReadLogSummary { reads, bytes, files, lost, .. } = summary;
    match written {
        Err(error) if has_failed => warn(&format!("--record {error}; what was recorded is lost")),
        _ if has_failed || !is_kept.load(Ordering::SeqCst) => {}
        Err(error) => warn(&format!("--record {error}")),
        Ok(_) => {
            let mib = bytes >> 20;
            warn(&format!("{shown}: {reads} reads of {files} files, {mib} MiB"));
        }
    }
    if lost > 0 {
        warn(&format!("{lost} reads are missing: a trace has room for 2^20 files"));
    }
}

fn warn(line: &str) {
    // The line is lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}
