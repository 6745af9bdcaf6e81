//! `foreread record`, with programs that everyone has.
//!
//! In:    the real binary; commands and processes that read files.
//! Out:   their traces, and what the recorder says.
//! Never: a claim about speed.

mod command;
mod ends;
mod process;
mod recorded;
mod unchanged;
#[cfg(target_arch = "x86_64")]
mod waits;
