//! Records the file reads of a program, cached or not, without privileges; or the reads of this
//! process, which it reports itself ([`ReadLog`]).
//!
//! In:    a command; or reads.
//! Out:   a trace: thread, file, offset, length and time of each read; a count of unseen reads.
//! Never: a change to the data that the program reads; output about processes that it did not
//! start.
//!
//! A seccomp filter stops each read of the program, and of its descendants, until this process, its
//! tracer, has examined it and resumes it. docs/guide/record.md describes the overhead and the
//! gaps. [`record_process`] attaches to a running process.
//!
//! ```no_run
//! use foreread_record::{RecordCommand, record};
//! use foreread_trace::{OutputFormat, TraceWriter};
//!
//! let mut writer = TraceWriter::new(Vec::new(), OutputFormat::Foreread, false);
//! let command = RecordCommand { program: "tar".into(), args: vec!["cf".into(), "-".into()] };
//! let recorded = record(&command, &mut writer, |_pid| (), |_left| ())?;
//! println!("{} reads of {} files", recorded.totals.reads, recorded.totals.files);
//! # Ok::<(), foreread_record::RecordError>(())
//! ```

mod attach;
mod clock;
mod error;
mod filter;
mod interrupted_waits;
mod left_behind;
mod listener;
mod observer;
mod proc_status;
mod read_log;
mod recorded_trace;
mod recorder;
mod registers;
mod started_command;
mod target;
mod traced_program;
mod traced_threads;
mod tracer;
mod written_reads;

pub use attach::{AttachSummary, record_process};
pub use error::RecordError;
pub use left_behind::LeftProcess;
pub use read_log::{LoggedRead, ReadLog, ReadLogSummary};
pub use recorded_trace::{RecordTotals, UnseenReads};
pub use recorder::{RecordSummary, record};
pub use started_command::RecordCommand;
