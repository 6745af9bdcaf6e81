//! `foreread record --pid`: a process that was running before and runs on afterwards.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use crate::common::{Command, Need, is_required, needs, skip};
use crate::said::refused;

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

/// Its main thread ends alone; the other one reads.
const WITHOUT_MAIN: &str = r#"
import ctypes, os, sys, threading
data = os.open("data", os.O_RDONLY)
def state():
    with open(f"/proc/self/task/{os.getpid()}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]
def reads():
    while state() != "Z":
        pass
    while line := sys.stdin.readline():
        os.pread(data, 100, int(line))
        print("done", flush=True)
    os._exit(0)
threading.Thread(target=reads).start()
exit = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
ctypes.CDLL(None).syscall(exit, 0)
"#;

/// It reads once; for the next offset and later ones a child does, and it ends.
const LEAVES_A_CHILD: &str = r#"
import os, sys
data = os.open("data", os.O_RDONLY)
is_child = False
while line := sys.stdin.readline():
    if int(line) > 0 and not is_child:
        if os.fork() > 0:
            os._exit(0)
        is_child = True
    os.pread(data, 50, int(line))
    print("done", flush=True)
"#;

/// It sends itself signals until its stdin ends, and says how many it has sent and got. The byte of
/// each is written by the handler itself.
const SIGNALS: &str = r#"
import os, signal, sys, threading
ends = threading.Event()
def waits():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    sys.stdin.read()
    ends.set()
came, comes = os.pipe()
for end in came, comes:
    os.set_blocking(end, False)
signal.set_wakeup_fd(comes)
signal.signal(signal.SIGRTMIN, lambda *_: None)
sys.stdin.readline()
print("done", flush=True)
threading.Thread(target=waits).start()
sent = got = 0
while not ends.is_set():
    os.kill(os.getpid(), signal.SIGRTMIN)
    sent += 1
    try:
        got += len(os.read(came, 4096))
    except BlockingIOError:
        pass
print(sent, got)
"#;

/// It waits for its stdin without a time-out, and fails if the wait ends otherwise.
#[cfg(target_arch = "x86_64")]
const WAITS: &str = r#"
import ctypes, select, sys
comes, event = select.epoll(), ctypes.create_string_buffer(64)
comes.register(0, select.EPOLLIN)
while sys.stdin.readline():
    print("done", flush=True)
    assert ctypes.CDLL(None).epoll_wait(comes.fileno(), event, 1, -1) == 1
"#;

struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn new(folder: &Path) -> Self {
        Self::program(PROGRAM, folder)
    }

    fn program(program: &str, folder: &Path) -> Self {
        fs::write(folder.join("data"), vec![7; 10_000]).unwrap();
        let mut command = Command::new("python3");
        command.args(["-I", "-S", "-c", program]).current_dir(folder);
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
        command.args(["record", "-o", "trace.csv", "--pid"]);
        attached(test, command.arg(self.child.id().to_string()).current_dir(folder))
    }
}

/// A recorder that has attached; None where the system does not let it.
fn attached(test: &str, command: &mut Command) -> Option<Child> {
    let mut recorder = command.stderr(Stdio::piped()).spawn().unwrap();
    let line = line_of(&mut recorder);
    if line.contains("cannot attach") {
        assert!(!is_required("root"), "{line}");
        skip(test, &line);
        recorder.wait().unwrap();
        return None;
    }
    assert!(line.contains("recording process"), "{line}");
    Some(recorder)
}

/// The next line on stderr.
fn line_of(recorder: &mut Child) -> String {
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
    String::from_utf8(line).unwrap()
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

/// Attaches to a program, which reads and ends.
fn is_recorded_to_its_end(test: &str, program: &str) {
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut running = Running::program(program, folder.path());
    let Some(recorder) = running.recorder(test, folder.path()) else { return running.end() };
    running.reads_at(1000);
    running.end();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let trace = fs::read_to_string(folder.path().join("trace.csv")).unwrap();
    assert!(trace.contains("/data,1000,100,"), "{trace}");
}

#[test]
fn a_recording_ends_with_its_process() {
    is_recorded_to_its_end("a_recording_ends_with_its_process", PROGRAM);
}

#[test]
fn a_process_whose_main_thread_has_ended_is_recorded() {
    is_recorded_to_its_end("a_process_whose_main_thread_has_ended_is_recorded", WITHOUT_MAIN);
}

/// A shell that has started a program becomes the recorder, which waited for that program, too.
#[test]
fn a_recorder_with_a_child_of_its_own_ends_with_its_process() {
    let test = "a_recorder_with_a_child_of_its_own_ends_with_its_process";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut running = Running::new(folder.path());
    let script = "exec 3<&0; cat <&3 >/dev/null 2>&1 & \
                  exec \"$0\" record -o trace.csv --pid $1 3<&-";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_foreread"), &running.child.id().to_string()]);
    shell.current_dir(folder.path()).stdin(Stdio::piped());
    let Some(mut recorder) = attached(test, &mut shell) else { return running.end() };
    let _until_its_child_ends = recorder.stdin.take();
    running.reads_at(1000);
    running.end();
    assert!(recorder.wait_with_output().unwrap().status.success());
    let trace = fs::read_to_string(folder.path().join("trace.csv")).unwrap();
    assert!(trace.contains("/data,1000,100,") && trace.contains("/data,1000,50,"), "{trace}");
}

/// A program that called Python's `sigtimedwait` counted more: interrupted at its deadline, as by
/// Ctrl-Z, that returns a signal which has not come.
#[test]
fn each_signal_comes_once_while_recorders_come_and_go() {
    let test = "each_signal_comes_once_while_recorders_come_and_go";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut running = Running::program(SIGNALS, folder.path());
    for _ in 0..6 {
        let Some(recorder) = running.recorder(test, folder.path()) else { return running.end() };
        signal(&recorder, Signal::INT);
        assert!(recorder.wait_with_output().unwrap().status.success());
    }
    drop(running.stdin);
    let mut said = String::new();
    running.stdout.read_to_string(&mut said).unwrap();
    assert!(running.child.wait().unwrap().success());
    let (sent, got) = said.trim().split_once(' ').unwrap();
    assert_eq!(sent, got, "signals that were sent, and that came");
    assert_ne!(sent, "0");
}

/// It got EINTR when a recording began, and when it ended.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_wait_without_a_time_out_is_not_interrupted_by_a_recorder_that_comes_or_goes() {
    let test = "a_wait_without_a_time_out_is_not_interrupted_by_a_recorder_that_comes_or_goes";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut running = Running::program(WAITS, folder.path());
    let call = format!("/proc/{}/syscall", running.child.id());
    for offset in 0..3 {
        // The number of epoll_wait.
        while !fs::read_to_string(&call).unwrap().starts_with("232 ") {}
        let Some(recorder) = running.recorder(test, folder.path()) else { return running.end() };
        signal(&recorder, Signal::INT);
        assert!(recorder.wait_with_output().unwrap().status.success());
        running.reads_at(offset);
    }
    running.end();
}

#[test]
fn what_a_process_leaves_behind_is_said_and_recorded() {
    let test = "what_a_process_leaves_behind_is_said_and_recorded";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut running = Running::program(LEAVES_A_CHILD, folder.path());
    let Some(mut recorder) = running.recorder(test, folder.path()) else { return running.end() };
    running.reads_at(1000);
    let line = line_of(&mut recorder);
    let ended = format!("process {} has ended; what it has started runs on", running.child.id());
    assert!(line.contains(&ended) && line.contains("(python3"), "{line}");
    running.reads_at(2000);
    running.end();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let trace = fs::read_to_string(folder.path().join("trace.csv")).unwrap();
    assert!(trace.contains("/data,1000,50,") && trace.contains("/data,2000,50,"), "{trace}");
}

#[test]
fn a_zombie_is_called_so() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    let mut child = Command::new("true").spawn().unwrap();
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&child)), ended).unwrap();
    let pid = child.id().to_string();
    let line = refused(&["record", "-o", trace.to_str().unwrap(), "--pid", &pid]);
    assert!(line.contains("(it is a zombie): nothing to record"), "{line}");
    assert!(!trace.exists());
    child.wait().unwrap();
}

#[test]
fn what_cannot_be_attached_to_is_refused() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    let trace = trace.to_str().unwrap();
    // No process has the largest number.
    let line = refused(&["record", "-o", trace, "--pid", "4194304"]);
    assert!(line.contains("no process 4194304"), "{line}");
    assert!(refused(&["record", "-o", trace, "--pid", "0"]).contains("--pid"));
    assert!(refused(&["record", "-o", trace, "--pid", "1", "--", "true"]).contains("--pid"));
    assert!(!Path::new(trace).exists());
}
