//! What a command says, as it was expected to.
//!
//! In:    arguments.
//! Out:   its answer; or the line with which it was refused.
//! Never: an answer with anything on stderr.

#![allow(dead_code, reason = "each test file uses the part it needs")]

use std::process::{Command, Output};

use serde_json::Value;

pub(crate) fn foreread(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreread")).args(args).output().unwrap()
}

pub(crate) fn stdout(args: &[&str]) -> String {
    let output = foreread(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    assert!(output.stderr.is_empty(), "no progress bar without a terminal: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn json(args: &[&str]) -> Vec<Value> {
    data(stdout(args).as_bytes())
}

/// The list of objects in what `--json` prints.
pub(crate) fn data(printed: &[u8]) -> Vec<Value> {
    let mut envelope: Value = serde_json::from_slice(printed).unwrap();
    assert_eq!(envelope["version"], 1, "{envelope}");
    let Value::Array(data) = envelope["data"].take() else { panic!("no list in {envelope}") };
    data
}

/// Wrong use: exit 2, one line on stderr, nothing on stdout.
pub(crate) fn refused(args: &[&str]) -> String {
    let output = foreread(args);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}
