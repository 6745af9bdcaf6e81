//! Records what a program reads of files, above the page cache, without privileges; or what this
//! process reads, where it says so itself ([`ReadLog`]).
//!
//! In:    a command; or reads.
//! Out:   a trace: thread, file, offset, length and time of each read; what could not be seen.
//! Never: a change of what the program reads; a word about processes that it did not start.
//!
//! A seccomp filter stops each read of the program, and of all that it starts, until this process
//! has looked at it and lets it go on. What that costs, and what is not seen: docs/record.md.
//!
//! ```no_run
//! use foreread_record::{RecordCommand, record};
//! use foreread_trace::{OutputFormat, TraceWriter};
//!
//! let mut writer = TraceWriter::new(Vec::new(), OutputFormat::Foreread, false);
//! let command = RecordCommand { program: "tar".into(), args: vec!["cf".into(), "-".into()] };
//! let recorded = record(&command, &mut writer, |_pid| ())?;
//! println!("{} reads of {} files", recorded.reads, recorded.files);
//! # Ok::<(), foreread_record::RecordError>(())
//! ```

mod error;
mod filter;
mod listener;
mod observer;
mod read_log;
mod recorder;
mod target;

pub use error::RecordError;
pub use read_log::{LoggedRead, ReadLog, ReadLogSummary};
pub use recorder::{RecordCommand, RecordSummary, UnseenReads, record};
