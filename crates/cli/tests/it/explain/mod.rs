//! `foreread-lab explain`, as its users run it: the real binary, arguments in, text out.

#[cfg(unix)]
mod documents;
mod geometry;
mod itable;
mod readahead;
mod run;
mod schedule;
mod wrong_use;
