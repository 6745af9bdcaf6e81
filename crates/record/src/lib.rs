//! Records what a program reads of files, above the page cache, without privileges; or what this
//! process reads, where it says so itself ([`ReadLog`]).
//!
//! In:    a command; or reads.
//! Out:   a trace: thread, file, offset, length and time of each read; what could not be seen.
//! Never: a change of what the program reads; a word about processes that it did not start.
//!
//! A seccomp filter stops each read of the program, and of all that it starts, until this process,
//! its tracer, has looked at it and lets it go on. What that costs, and what is not seen:
//! docs/guide/record.md. [`record_process`] does the same to a process that runs already.
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
