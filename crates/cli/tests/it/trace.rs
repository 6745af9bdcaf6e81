//! `foreread-lab trace`, as a user runs it.

use crate::common::Command;
use crate::generated;
use crate::said;

use std::fs;
use std::io::{BufWriter, Write as _};
use std::process::Stdio;

use said::{foreread, json, refused, stdout};
use tempfile::TempDir;

const TRACE: &str = "fio version 3 iolog\n0 /data add\n10 /data read 0 4096\n20 /data write 4096 8192\n\
                     30 /data close\n";

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("fio.log"), TRACE).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn a_trace_is_summed_up() {
    let folder = Folder::new();
    let report = json(&["trace", &folder.path("fio.log"), "--json"]).remove(0);
    assert_eq!(report["format"], "fio-3");
    assert_eq!(report["level"], "file");
    assert_eq!((&report["reads"], &report["write_bytes"]), (&1.into(), &8192.into()));
    assert_eq!(report["files"][0]["name"], "/data");
    let text = stdout(&["trace", &folder.path("fio.log")]);
    assert!(text.starts_with("format fio-3, file level, 0.000 s\n1 reads of 0.0 MiB, 1 writes"));
}

#[test]
fn a_trace_is_converted_there_and_back() {
    let folder = Folder::new();
    let (log, own, back) = (folder.path("fio.log"), folder.path("own"), folder.path("back"));
    assert_eq!(stdout(&["trace", &log, "--to", "foreread", "-o", &own]), "");
    stdout(&["trace", &own, "--to", "fio-3", "-o", &back]);
    let text = fs::read_to_string(&back).unwrap();
    let expected = "fio version 3 iolog\n0 /data add\n0 /data open\n0 /data read 0 4096\n\
                    10 /data write 4096 8192\n";
    assert_eq!(text, expected, "times count from the first record");
    // An earlier result is replaced, the input is not.
    stdout(&["trace", &own, "--to", "fio-3", "-o", &back]);
    let refused = foreread(&["trace", &own, "--to", "csv", "-o", &own]);
    assert_eq!(refused.status.code(), Some(2));
    let hidden = stdout(&["trace", &own, "--to", "csv", "-o", "-", "--hash-names"]);
    assert!(hidden.contains(",read,h"), "{hidden}");
    assert!(!hidden.contains("/data"), "{hidden}");
}

/// Names in a trace of another's may be commands to a terminal, or more lines.
#[test]
fn names_are_printed_without_control_characters() {
    let folder = Folder::new();
    let trace = folder.path("hostile");
    let text = "time_us,file,offset,length\n0,/a%1b[2J%0ab,0,4096\n1,/c,0,4096\n";
    fs::write(&trace, text).unwrap();
    let shown = stdout(&["trace", &trace]);
    assert!(shown.contains("/a?[2J?b ") && !shown.contains('\x1b'), "{shown}");
    let line = refused(&["replay", &trace, "--real", folder.0.path().to_str().unwrap()]);
    assert!(line.contains("/a?[2J?b: no such file") && !line.contains('\x1b'), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}

/// What is made of a trace that was cut off has an end mark: only this line tells.
#[test]
fn a_conversion_says_that_its_trace_was_cut_off() {
    let folder = Folder::new();
    let (log, own, back) = (folder.path("fio.log"), folder.path("own"), folder.path("back"));
    stdout(&["trace", &log, "--to", "foreread", "-o", &own]);
    let convert = ["trace", &own, "--to", "foreread", "-o", &back];
    let said = |args: &[&str]| String::from_utf8(foreread(args).stderr).unwrap();
    assert_eq!(said(&convert), "");
    let whole = fs::read(&own).unwrap();
    fs::write(&own, &whole[..whole.len() - 2]).unwrap();
    assert!(said(&convert).contains("ends without its end mark"));
    assert_eq!(json(&["trace", &back, "--json"])[0]["reads"], 1);
    fs::write(&own, "5,8,8,0,7\n0,8,8,0,7\n").unwrap();
    assert!(said(&convert).contains("1 records are earlier"));
}

#[test]
fn a_bad_trace_is_named_with_its_line_and_leaves_no_file() {
    let folder = Folder::new();
    let bad = folder.path("bad");
    fs::write(&bad, "0,8,8,0,7\n0,8,x,0,7\n").unwrap();
    let line = refused(&["trace", &bad]);
    assert!(line.ends_with("bad: line 2: length: \"x\" is not a whole number\n"), "{line}");
    let to = folder.path("to");
    refused(&["trace", &bad, "--to", "csv", "-o", &to]);
    assert!(fs::metadata(&to).is_err());
    refused(&["trace", &folder.path("missing")]);
    refused(&["trace", &bad, "--to", "csv"]);
}

/// As in `foreread trace FILE --to csv --output - | head`.
#[test]
fn a_closed_reader_of_the_converted_trace_is_no_error() {
    let folder = Folder::new();
    for output in ["-", "/dev/stdout"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command.args(["trace", &folder.path("fio.log"), "--to", "csv", "--output", output]);
        let output = command.stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    let full = fs::File::create("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.args(["trace", &folder.path("fio.log"), "--to", "csv", "--output", "-"]);
    assert_eq!(command.stdout(full).output().unwrap().status.code(), Some(2));
}

#[test]
fn stdin_is_a_trace_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread-lab"));
    command.args(["trace", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(TRACE.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.starts_with(b"format fio-3"), "{output:?}");
}

/// All records were reads of one file, and nothing was said.
#[test]
fn what_was_not_understood_of_a_trace_is_said_by_each_command() {
    let folder = Folder::new();
    let trace = folder.path("t.csv");
    fs::write(&trace, "time_us,verb,offset,size\n1,W,0,4096\n2,W,4096,4096\n").unwrap();
    let out = folder.path("out");
    for args in [
        &["trace", &trace][..],
        &["trace", &trace, "--json"],
        &["trace", &trace, "--to", "csv", "-o", &out],
        &["replay", &trace],
        &["replay", &trace, "--json"],
        &["replay", &trace, "--cache", "lru", "--objects", "10"],
    ] {
        let output = foreread(args);
        let said = String::from_utf8(output.stderr).unwrap().replace('\n', " ");
        assert!(output.status.success(), "{args:?}: {said}");
        assert!(said.contains("ignored unknown columns: verb"), "{args:?}: {said}");
    }
}

/// fio takes names as they are: with a blank as `%20` it opened another file.
#[test]
fn a_name_that_fio_cannot_hold_is_refused() {
    let folder = Folder::new();
    let (trace, out) = (folder.path("t.csv"), folder.path("out"));
    fs::write(&trace, "time_us,file,offset,length\n1,/a b,0,4096\n").unwrap();
    let line = refused(&["trace", &trace, "--to", "fio-3", "-o", &out]);
    assert!(line.contains("fio-3 cannot express the name \"/a b\""), "{line}");
    assert!(fs::metadata(&out).is_err());
    let hashed = stdout(&["trace", &trace, "--to", "fio-3", "-o", "-", "--hash-names"]);
    assert!(hashed.contains(" read 0 4096\n"), "{hashed}");
}

/// The most memory that a command has had in kB, when it has read so many lines from its stdin.
fn peak_kb(args: &[&str], lines: u64) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread-lab"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = BufWriter::with_capacity(1 << 16, child.stdin.take().unwrap());
    generated::write_lines(lines, &mut stdin).unwrap();
    stdin.flush().unwrap();
    // All but what a pipe holds has been read, and the command waits for more.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A record of each line would be 16 MB at least.
#[test]
fn memory_does_not_grow_with_the_lines() {
    for args in [&["trace", "-"][..], &["trace", "-", "--to", "foreread", "-o", "/dev/null"]] {
        let [few, many] = [100_000, 1_000_000].map(|lines| peak_kb(args, lines));
        assert!(many <= few + 1024, "{args:?}: {few} kB for 10^5 lines, {many} kB for 10^6");
    }
}
