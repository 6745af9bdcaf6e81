//! Runs the real binary.
//!
//! In:    arguments.
//! Out:   what a user sees.

use serde_json::Value;

use crate::common::Command;

/// What a user sees.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread-lab"));
    command.args(args);
    command
}

pub(crate) fn foreread(args: &[&str]) -> Answer {
    let output = command(args).output().unwrap();
    Answer {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Stdout of a command that must succeed without a word on stderr.
#[track_caller]
pub(crate) fn stdout(args: &[&str]) -> String {
    let answer = foreread(args);
    assert_eq!(answer.code, Some(0), "{args:?}: {answer:?}");
    assert_eq!(answer.stderr, "", "{args:?}");
    answer.stdout
}

#[track_caller]
pub(crate) fn lines(args: &[&str]) -> Vec<String> {
    stdout(args).lines().map(str::to_owned).collect()
}

#[track_caller]
pub(crate) fn json_of(args: &[&str]) -> Value {
    let mut envelope: Value = serde_json::from_str(&stdout(args)).unwrap();
    assert_eq!(
        (&envelope["version"], envelope["command"].as_str()),
        (&Value::from(1), Some(&*args[..2].join(" ")))
    );
    envelope["data"].take()
}

/// A line of command line, split at blanks.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
