//! Commands that are recorded into CSV.
//!
//! In:    a command, a folder.
//! Out:   what the recorder gave and said, and the reads of the trace.
//! Never: a failure where the system does not let reads be seen: the test is skipped.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::common::{Command, copy_program, is_required, skip};

/// Runs the command behind it as a user without privileges.
pub(crate) const UNPRIVILEGED: [&str; 4] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A folder that all users may write to, with the recorder, `foreread`.
pub(crate) fn folder_of_all_users() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    copy_program(env!("CARGO_BIN_EXE_foreread"), folder.path().join("foreread"));
    folder
}

/// A read of a trace in CSV.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CsvRead {
    pub(crate) thread: u32,
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Runs a recorder: what it gave and said; None where the system does not let reads be seen.
pub(crate) fn run(test: &str, recorder: &mut Command) -> Option<(Output, String)> {
    let output = recorder.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if is_unseen(test, &said) { None } else { Some((output, said)) }
}

/// Whether a recorder said that the system does not let reads be seen: the test is skipped.
pub(crate) fn is_unseen(test: &str, said: &str) -> bool {
    let is_unseen = said.contains("cannot observe the reads");
    if is_unseen {
        assert!(!is_required("tools"), "{said}");
        skip(test, said);
    }
    is_unseen
}

/// Records a command below a folder; None where the system does not let reads be seen.
pub(crate) fn recorded(
    test: &str,
    folder: &Path,
    command: &[&str],
) -> Option<(Output, Vec<CsvRead>)> {
    let trace = folder.join("trace.csv");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_foreread"));
    recorder.args(["record", "-o", "trace.csv", "--"]).args(command);
    let (output, said) = run(test, recorder.current_dir(folder))?;
    let text = fs::read_to_string(trace).unwrap_or_else(|error| panic!("{error}: {said}"));
    let mut reads = Vec::new();
    let mut last = 0;
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [time, thread, op, file, offset, length, mapped] = fields[..] else {
            panic!("{line}");
        };
        let time: u64 = time.parse().unwrap();
        assert!(time >= last && (op, mapped) == ("read", "0"), "{line}");
        last = time;
        let (offset, length) = (offset.parse().unwrap(), length.parse().unwrap());
        reads.push(CsvRead { thread: thread.parse().unwrap(), file: file.into(), offset, length });
    }
    Some((output, reads))
}

/// Of one file: offsets and lengths.
pub(crate) fn of(reads: &[CsvRead], name: &str) -> Vec<(u64, u64)> {
    let of_file = reads.iter().filter(|read| read.file.ends_with(name));
    of_file.map(|read| (read.offset, read.length)).collect()
}

pub(crate) fn file(folder: &Path, name: &str, len: usize) {
    let bytes: Vec<u8> = (0..len).map(|n| u8::try_from(n * 7 % 251).unwrap()).collect();
    fs::write(folder.join(name), bytes).unwrap();
}
