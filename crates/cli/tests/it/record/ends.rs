//! How the recording of a command ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::common::{Command, Need, needs};
use crate::record::recorded::{file, is_unseen, of, recorded, run};
use crate::said::{data, json, stdout};

#[test]
fn a_program_that_is_killed_leaves_a_whole_trace_and_its_exit_code() {
    let test = "a_program_that_is_killed_leaves_a_whole_trace_and_its_exit_code";
    let folder = TempDir::new().unwrap();
    file(folder.path(), "data", 10_000);
    // The shell dies; the child that it leaves behind reads on.
    let script = "cat data >/dev/null; \
                  (while kill -0 $$; do :; done; dd if=data of=copy bs=999 status=none) 2>/dev/null & \
                  kill -9 $$";
    let command = ["sh", "-c", script];
    let Some((output, reads)) = recorded(test, folder.path(), &command) else { return };
    assert_eq!(output.status.code(), Some(137), "128 and SIGKILL: {output:?}");
    let found = of(&reads, "/data");
    assert_eq!(found.iter().filter(|(_, length)| *length == 999).count(), 10, "{found:?}");
    assert_eq!(fs::read(folder.path().join("copy")).unwrap().len(), 10_000);
    let Some((output, _)) = recorded(test, folder.path(), &["sh", "-c", "exit 7"]) else { return };
    assert_eq!(output.status.code(), Some(7));
}

/// Each descriptor counted as closed: the trace was empty, and the exit code 0.
#[test]
fn without_proc_nothing_is_recorded_and_the_error_names_it() {
    let test = "without_proc_nothing_is_recorded_and_the_error_names_it";
    if !needs(Need::Root, test) || !needs(Need::Tool("unshare"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    for what in [&["--", "touch", "started"][..], &["--pid", "1"]] {
        let mut recorder = Command::new("unshare");
        recorder.args(["-m", "sh", "-c", "umount -l /proc && exec \"$0\" \"$@\""]);
        recorder.arg(env!("CARGO_BIN_EXE_foreread")).args(["record", "-o", "trace.frt"]).args(what);
        let Some((output, said)) = run(test, recorder.current_dir(folder.path())) else { return };
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("/proc is not mounted") && said.lines().count() == 1, "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The recorder's own handlers took from the command what `nohup` gives it.
#[test]
fn a_signal_that_is_ignored_stays_ignored_for_the_command() {
    let test = "a_signal_that_is_ignored_stays_ignored_for_the_command";
    let folder = TempDir::new().unwrap();
    let said = |before: &str| {
        let script =
            format!("{before} exec \"$0\" record -o trace -- sh -c 'kill -HUP $$; exit 5'");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_foreread")]).current_dir(folder.path());
        run(test, &mut shell).map(|(output, line)| (output.status.code(), line))
    };
    let Some((code, line)) = said("trap '' HUP;") else { return };
    assert_eq!(code, Some(5), "{line}");
    let (code, line) = said("").expect("reads were seen before");
    assert_eq!(code, Some(129), "{line}");
}

/// Ctrl-\ ended the recorder with the command, and the trace was lost.
#[test]
fn a_key_that_ends_the_command_leaves_a_whole_trace() {
    let test = "a_key_that_ends_the_command_leaves_a_whole_trace";
    for (signal, code) in [(Signal::INT, 130), (Signal::QUIT, 131)] {
        let folder = TempDir::new().unwrap();
        let path = folder.path();
        file(path, "data", 5000);
        // It waits for its stdin, and leaves no core file.
        let script = "ulimit -c 0; cat data >/dev/null; echo ready; exec cat";
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_foreread"));
        recorder.args(["record", "-o", "trace.frt", "--", "sh", "-c", script]).current_dir(path);
        recorder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The terminal sends a key's signal to all processes of a group.
        let mut recorder = recorder.process_group(0).spawn().unwrap();
        let _stdin = recorder.stdin.take();
        let mut line = String::new();
        BufReader::new(recorder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line == "ready\n" {
            kill_process_group(Pid::from_child(&recorder), signal).unwrap();
        }
        let output = recorder.wait_with_output().unwrap();
        if is_unseen(test, &String::from_utf8_lossy(&output.stderr)) {
            return;
        }
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let trace = path.join("trace.frt");
        let trace = trace.to_str().unwrap();
        assert_eq!(json(&["trace", trace, "--json"])[0]["cut_off"], false);
        let reads = stdout(&["trace", trace, "--to", "csv", "--output", "-"]);
        assert!(reads.contains("/data,0,5000,0\n"), "{reads}");
    }
}

/// A daemon that the command leaves behind was waited for without a word.
#[test]
fn what_a_command_leaves_behind_is_named_and_recorded_to_its_end() {
    let test = "what_a_command_leaves_behind_is_named_and_recorded_to_its_end";
    for tool in ["setsid", "mkfifo"] {
        if !needs(Need::Tool(tool), test) {
            return;
        }
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    file(path, "data", 5000);
    // The daemon waits for its pipe, reads a file, and ends. Nothing of it is on the pipes of the
    // command.
    let script = "mkfifo wait; (setsid sh -c 'cat wait; cat data' >/dev/null 2>&1 </dev/null &)";
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_foreread"));
    recorder.args(["record", "-o", "trace.csv", "--", "sh", "-c", script]);
    recorder.current_dir(path).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut recorder = recorder.spawn().unwrap();
    let mut stderr = BufReader::new(recorder.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    if is_unseen(test, &line) {
        recorder.wait().unwrap();
        return;
    }
    assert!(line.contains("sh has ended; waiting for process"), "{line}");
    assert!(line.contains("(cat)") && line.contains("kill "), "{line}");
    // It goes on when the pipe has a writer, and that has gone.
    drop(fs::File::options().write(true).open(path.join("wait")).unwrap());
    assert!(recorder.wait().unwrap().success());
    let trace = fs::read_to_string(path.join("trace.csv")).unwrap();
    assert!(trace.contains("/data,0,5000,0\n"), "{trace}");
}

/// The trace of a program that had run for an hour was lost with its last piece.
#[test]
fn a_full_disk_keeps_the_reads_before_in_each_format() {
    let test = "a_full_disk_keeps_the_reads_before_in_each_format";
    for need in [Need::Tool("unshare"), Need::Root] {
        if !needs(need, test) {
            return;
        }
    }
    // The mount is in a name space of its own, and goes with it.
    let script = "mount -t tmpfs -o size=8k none small; \
                  \"$0\" record -o small/trace$1 -- dd if=data of=copy bs=64 status=none; \
                  echo $?; \"$0\" trace small/trace$1 --json";
    for (format, ending) in [("foreread", ""), ("csv", ".csv"), ("fio-3", ".iolog")] {
        let folder = TempDir::new().unwrap();
        file(folder.path(), "data", 2000 * 64);
        fs::create_dir(folder.path().join("small")).unwrap();
        let mut shell = Command::new("unshare");
        shell.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_foreread"), ending]);
        let Some((output, said)) = run(test, shell.current_dir(folder.path())) else { return };
        assert!(output.status.success(), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
        assert!(said.contains("the trace has the reads before that"), "{said}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let (code, trace) = printed.split_once('\n').unwrap();
        let trace = &data(trace.as_bytes())[0];
        assert_eq!((code, &trace["format"]), ("2", &format.into()));
        let reads = trace["reads"].as_u64().unwrap();
        assert!((50..2000).contains(&reads), "{trace}");
        let copy = fs::read(folder.path().join("copy")).unwrap();
        assert_eq!(copy.len(), 2000 * 64, "the command has run to its end");
    }
}

/// Nothing was recorded, and the command was not run.
#[test]
fn a_trace_can_be_discarded() {
    let test = "a_trace_can_be_discarded";
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_foreread"));
    recorder.args(["record", "-o", "/dev/null", "--", "echo", "done"]);
    let Some((output, said)) = run(test, &mut recorder) else { return };
    assert!(output.status.success() && output.stdout == b"done\n", "{output:?}");
    assert!(said.contains("/dev/null: "), "{said}");
}
