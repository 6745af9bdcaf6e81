//! I/O trace formats, read and written as streams.
//!
//! In:    a trace in one of the field's formats, compressed or not.
//! Out:   its records, one at a time; a trace in another format.
//! Never: a whole trace in memory, a device, a clock.
//!
//! The formats, how they are told apart, and what each can hold: docs/lab/traces.md.
//!
//! ```
//! use foreread_trace::TraceReader;
//!
//! let trace = "1538323200,0,8,0,7\n1538323201,8,8,0,7\n";
//! let mut reader = TraceReader::new(trace.as_bytes(), "tencent.csv")?;
//! let first = reader.next_record()?.expect("two records");
//! assert_eq!((first.offset, first.length), (0, 4096));
//! assert_eq!(reader.next_record()?.expect("two records").at.0, 1_000_000_000);
//! # Ok::<(), foreread_trace::TraceError>(())
//! ```

mod compressed;
mod detect;
mod error;
mod field;
mod file_table;
mod format;
mod reader;
mod record;
mod summary;
mod text_lines;
mod unsupported;
mod writer;

pub use error::{Position, TraceError};
pub use file_table::{FileNo, FileTable, TraceFile};
pub use format::TraceFormat;
pub use reader::TraceReader;
pub use record::{MAX_LENGTH, TraceLevel, TraceOp, TraceRecord};
pub use summary::{FileSummary, TraceSummary};
pub use writer::{OutputFormat, TraceWriter, UnheldNames};
