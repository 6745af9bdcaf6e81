//! `foreread record --pid`: a process that was running before and runs on afterwards.

#[path = "../../engine/tests/common/mod.rs"]
mod common;
mod said;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::{Need, is_required, needs, skip};
use rustix::process::{Pid, Signal, kill_process};
use said::refused;
use tempfile::TempDir;

/// For each offset that it is told, a new thread reads 100 bytes there, and a new process 50.
const PROGRAM: &str = r#"
import os, subprocess, sys, threading
data = os.open("data", os.O_RDONLY)
while line := sys.stdin.readline():
    at = int(line)
    thread = threading.Thread(target=lambda: os.pread(data, 100, at))
    thread.start()
    thread.join()
    if os.fork() == 0:
        os.pread(data, 50, at)
        os._exit(0)
    os.wait()
    print("done", flush=True)
"#;

struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn new(folder: &Path) -> Self {
        fs::write(folder.join("data"), vec![7; 10_000]).unwrap();
        let mut command = Command::new("python3");
        command.args(["-I", "-S", "-c", PROGRAM]).current_dir(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut running = Self { child, stdin, stdout: BufReader::new(stdout) };
        running.reads_at(0);
        running
    }

    /// Has it read there, and waits until it has.
    fn reads_at(&mut self, offset: u64) {
        writeln!(self.stdin, "{offset}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    /// It ends as it does alone.
    fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }

    /// A recorder that has attached to it; None where the system does not let it.
    fn recorder(&self, test: &str, folder: &Path) -> Option<Child> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command.args(["record", "--to", "csv", "-o", "trace.csv", "--pid"]);
        command.arg(self.child.id().to_string()).current_dir(folder);
        let mut recorder = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = Vec::new();
        // Byte by byte: what follows is for others.
        let stderr = recorder.stderr.as_mut().unwrap();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            if stderr.read(&mut byte).unwrap() == 0 {
                break;
            }
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        if line.contains("cannot attach") {
            assert!(!is_required("root"), "{line}");
            skip(test, &line);
            recorder.wait().unwrap();
            return None;
        }
        assert!(line.contains("recording process"), "{line}");
        Some(recorder)
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_running_process_is_recorded_with_its_threads_and_children_and_runs_on() {
    let test = "a_running_process_is_recorded_with_its_threads_and_children_and_runs_on";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut running = Running::new(folder.path());
    for end in [Signal::INT, Signal::TERM] {
        let Some(recorder) = running.recorder(test, folder.path()) else { return running.end() };
        running.reads_at(1000);
        running.reads_at(2000);
        signal(&recorder, end);
        let output = recorder.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        running.reads_at(3000);
        let trace = fs::read_to_string(folder.path().join("trace.csv")).unwrap();
        let count = |read: &str| trace.lines().filter(|line| line.contains(read)).count();
        for read in ["/data,1000,100,", "/data,1000,50,", "/data,2000,100,", "/data,2000,50,"] {
            assert_eq!(count(read), 1, "{read}: {trace}");
        }
        assert_eq!(count("/data,0,") + count("/data,3000,"), 0, "before and after: {trace}");
    }
    running.end();
}

#[test]
fn a_process_whose_recorder_is_killed_runs_on() {
    let test = "a_process_whose_recorder_is_killed_runs_on";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut running = Running::new(folder.path());
    let Some(mut recorder) = running.recorder(test, folder.path()) else { return running.end() };
    running.reads_at(1000);
    signal(&recorder, Signal::KILL);
    recorder.wait().unwrap();
    running.reads_at(2000);
    assert!(!folder.path().join("trace.csv").exists());
    running.end();
}

#[test]
fn a_recording_ends_with_its_process() {
    let test = "a_recording_ends_with_its_process";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut running = Running::new(folder.path());
    let Some(recorder) = running.recorder(test, folder.path()) else { return running.end() };
    running.reads_at(1000);
    running.end();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let trace = fs::read_to_string(folder.path().join("trace.csv")).unwrap();
    assert!(trace.contains("/data,1000,100,"), "{trace}");
}

#[test]
fn what_cannot_be_attached_to_is_refused() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    let trace = trace.to_str().unwrap();
    // No process has the largest number.
    let line = refused(&["record", "-o", trace, "--pid", "4194304"]);
    assert!(line.contains("there is no process 4194304"), "{line}");
    assert!(refused(&["record", "-o", trace, "--pid", "0"]).contains("--pid"));
    assert!(refused(&["record", "-o", trace, "--pid", "1", "--", "true"]).contains("--pid"));
    assert!(!Path::new(trace).exists());
}
