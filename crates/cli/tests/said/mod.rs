//! What a command says, as it was expected to.
//!
//! In:    arguments.
//! Out:   its answer; or the line with which it was refused.
//! Never: an answer with anything on stderr.

#![allow(dead_code, reason = "each test file uses the part it needs")]

use std::process::Output;

use serde_json::Value;

use crate::common::Command;

/// Runs the program that has the verb.
pub(crate) fn foreread(args: &[&str]) -> Output {
    Command::new(program(args)).args(args).output().unwrap()
}

/// Returns `foreread-lab` for its verbs, else `foreread`.
pub(crate) fn program(args: &[&str]) -> &'static str {
    match args.first() {
        Some(&("explain" | "replay" | "seeds" | "sim" | "trace")) => LAB,
        _ => env!("CARGO_BIN_EXE_foreread"),
    }
}

pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_foreread-lab");

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

/// A scenario of some milliseconds: these processes, in a small device's 64 MiB of data.
pub(crate) fn scenario(name: &str, processes: &str) -> String {
    format!("\nname = \"{name}\"\n{SMALL_MACHINE}\n{processes}")
}

/// The same with one process, which reads so many times at random.
pub(crate) fn one_reader(reads: u32) -> String {
    let read = format!("{{ file = \"data\", read = \"4K\", reads = {reads} }}");
    scenario("one reader", &format!("[[process]]\nname = \"look-up\"\nrun.random = {read}\n"))
}

const SMALL_MACHINE: &str = r#"seed = 7

[cache]
memory = "8M"
policy = "linux-6"

[device.disk]
model.flash = { capacity = "1G", mb_per_s = 100.0, overhead_us = 50.0 }

[file.data]
device = "disk"
size = "64M"
"#;
