//! `foreread-lab replay --real`: traces on files of the build's disk.

use crate::common;
use crate::common::Command;
use crate::said;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use common::{Need, is_required, needs, scratch, skip};
use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, Signal, kill_process};
use said::{data, foreread, json, refused, stdout};
use serde_json::Value;
use tempfile::TempDir;

/// A folder on the disk of the build, with a file of so many bytes that is on its device and in no
/// cache.
fn target(len: usize) -> (TempDir, String) {
    let folder = TempDir::new_in(scratch()).unwrap();
    let path = folder.path().join("target");
    let file = File::create(&path).unwrap();
    file.write_all_at(&vec![7; len], 0).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// A trace: microseconds, thread, file, offset, length.
fn trace(folder: &TempDir, reads: &[(u64, u32, &str, u64, u64)]) -> String {
    let mut text = String::from("time_us,thread,op,file,offset,length\n");
    for (at, thread, file, offset, length) in reads {
        let _ = writeln!(text, "{at},{thread},r,{file},{offset},{length}");
    }
    let path = folder.path().join("trace.csv");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"))
}

#[test]
fn a_trace_is_read_by_each_method_and_the_device_is_asked_for_what_is_missing() {
    let test = "a_trace_is_read_by_each_method_and_the_device_is_asked_for_what_is_missing";
    if !needs(Need::ODirect, test) {
        return;
    }
    let (folder, target) = target(4 << 20);
    // Each page twice, by two threads of which each has a half.
    let reads: Vec<_> = (0..2048_u64)
        .map(|n| {
            let (thread, page) = (n % 2, n / 2 % 512);
            (n, u32::try_from(thread).unwrap(), "/db", (thread * 512 + page) * 4096, 4096)
        })
        .collect();
    let trace = trace(&folder, &reads);
    let rows = json(&["replay", &trace, "--real", &target, "--scale", "0", "--json"]);
    let methods: Vec<&str> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["foreread", "buffered", "direct"]);
    for row in &rows {
        assert_eq!((number(row, "reads"), number(row, "bytes")), (2048, 8 << 20));
        assert_eq!((&row["loop"], &row["threads"]), (&"closed".into(), &2.into()));
        assert_eq!(row["mapping"], "offsets as in the trace");
        assert_eq!((number(row, "late"), number(row, "wrapped")), (0, 0), "{row}");
        assert_eq!((&row["interrupted"], &row["length_error"]), (&false.into(), &Value::Null));
    }
    let [foreread, buffered, direct] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(
        (&foreread["policy"], &foreread["memory"]),
        (&"adaptive".into(), &(256 << 20).into())
    );
    assert_eq!((&direct["policy"], &direct["memory"]), (&Value::Null, &Value::Null));
    // The second half of the reads is in memory, and most of the first is read ahead.
    assert_eq!(number(foreread, "device_bytes"), 4 << 20);
    assert!(number(foreread, "waits") <= 1024, "{foreread}");
    assert!(number(buffered, "waits") <= 1024, "{buffered}");
    assert_eq!(number(direct, "waits"), 2048, "without a cache each read waits");
    assert_eq!(number(direct, "device_bytes"), 8 << 20);

    let page = folder.path().join("real.html");
    let html = ["--html", page.to_str().unwrap(), "--method", "foreread,direct"];
    let more = ["--memory", "4M", "8M", "--policy", "none", "--scale", "0"];
    let text = stdout(&[&["replay", &trace, "--real", &target][..], &html, &more].concat());
    for part in ["foreread 4M none", "foreread 8M none", "direct", "2 threads; offsets as in"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("with O_DIRECT alone."), "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("foreread 8M none") && page.contains("How long reads wait"));
}

#[test]
fn an_open_loop_keeps_the_order_of_each_thread_and_counts_what_is_late() {
    let (folder, target) = target(1 << 20);
    // All reads of a thread are due at once: all but the first are late, whatever the device does.
    let reads: Vec<_> = (0..40).map(|n| (0, 1, "/a", n * 4096, 4096)).collect();
    let trace = trace(&folder, &reads);
    let method = ["--method", "buffered", "--loop", "open", "--json"];
    let output = foreread(&[&["replay", &trace, "--real", &target][..], &method].concat());
    assert!(output.status.success(), "{output:?}");
    let row = &data(&output.stdout)[0];
    assert_eq!((number(row, "reads"), number(row, "late")), (40, 39));
    // A late read waits from when it was due; the first may find its page in memory.
    assert!((39..=40).contains(&number(row, "waits")), "{row}");
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("39 reads (97.5 %) were issued late"), "{notes}");
    // Of forty workers each may take one; how many do, the system decides.
    let workers = ["--workers", "40"];
    let args = [&["replay", &trace, "--real", &target][..], &method, &workers].concat();
    let row = &data(&foreread(&args).stdout)[0];
    assert_eq!((number(row, "reads"), number(row, "threads")), (40, 40));
    assert!(number(row, "late") <= 39, "{row}");
}

#[test]
fn pages_that_were_cached_before_stay_and_those_of_the_runs_go() {
    let (folder, target) = target(1 << 20);
    let file = File::open(&target).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    for page in [3, 4, 100] {
        file.read_exact_at(&mut [0], page * 4096).unwrap();
    }
    let cached = || foreread::cached_pages(&file).unwrap();
    let before = cached();
    if before == 0 || before > 100 {
        assert!(!is_required("o_direct"));
        return skip(
            "pages_that_were_cached_before_stay_and_those_of_the_runs_go",
            "no page cache",
        );
    }
    let reads: Vec<_> = (0..256).map(|n| (0, 1, "/a", n * 4096, 4096)).collect();
    let trace = trace(&folder, &reads);
    let args = ["replay", &trace, "--real", &target, "--scale", "0", "--method", "buffered"];
    let output = foreread(&args);
    assert!(output.status.success(), "{output:?}");
    let notes = String::from_utf8(output.stderr).unwrap();
    let line = format!("{} KiB of the target were in the page cache before", before * 4);
    assert!(notes.contains(&line), "{notes}");
    assert_eq!(cached(), before);
}

#[test]
fn a_directory_has_the_files_of_the_trace() {
    let folder = TempDir::new_in(scratch()).unwrap();
    for name in ["db/a", "db/b"] {
        let path = folder.path().join("copy").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![1; 10_000]).unwrap();
    }
    let copy = folder.path().join("copy");
    let copy = copy.to_str().unwrap();
    let reads = [(0, 1, "/db/a", 0, 10_000), (1, 2, "/db/b", 9_999, 1), (2, 1, "/db/b", 5, 5)];
    let trace = trace(&folder, &reads);
    // Its pages are in the page cache, which is said.
    let output = foreread(&["replay", &trace, "--real", copy, "--scale", "0", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let rows = data(&output.stdout);
    let mapping = format!("2 files below {copy}: DIR/NAME");
    for row in &rows {
        assert_eq!((number(row, "reads"), &row["mapping"]), (3, &mapping.as_str().into()));
    }
}

#[test]
fn what_lies_past_the_end_is_refused_or_wrapped() {
    let (folder, target) = target(100_000);
    let trace = trace(&folder, &[(0, 1, "/a", 0, 4096), (0, 1, "/a", 100_000, 4096)]);
    let line = refused(&["replay", &trace, "--real", &target]);
    assert!(line.contains("up to byte 104096") && line.contains("--wrap"), "{line}");
    let args = ["replay", &trace, "--real", &target, "--wrap", "--json", "--scale", "0"];
    let output = foreread(&args);
    assert!(output.status.success(), "{output:?}");
    let rows = data(&output.stdout);
    assert!(rows.iter().all(|row| number(row, "wrapped") == 1), "{rows:?}");
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("1 reads past the end of the target began again"), "{notes}");
}

#[test]
fn what_makes_no_sense_on_a_real_target_is_refused() {
    let (folder, target) = target(10_000);
    let trace = trace(&folder, &[(0, 1, "/a", 0, 4096)]);
    let with = |args: &[&str]| refused(&[&["replay", &trace][..], args].concat());
    assert!(with(&["--wrap"]).contains("--real"));
    assert!(with(&["--real", &target, "--device", "cloud-gp3"]).contains("--device"));
    assert!(with(&["--real", &target, "--cache", "lru"]).contains("--cache"));
    assert!(with(&["--real", &target, "--workers", "2"]).contains("open loop"));
    assert!(with(&["--real", &target, "--policy", "leap"]).contains("simulator only"));
    assert!(with(&["--real", &target, "--method", "memory"]).contains("buffered"));
    assert!(with(&["--real", "/nowhere/file"]).contains("/nowhere/file"));
    let empty: PathBuf = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert!(with(&["--real", empty.to_str().unwrap()]).contains("is empty"));
}

/// Ctrl-C in a pause of the trace prints what was measured until then.
#[test]
fn an_interrupted_replay_prints_what_it_has() {
    let (folder, target) = target(1 << 20);
    // The second read is due in an hour.
    let trace = trace(&folder, &[(0, 1, "/a", 0, 4096), (3_600_000_000, 1, "/a", 8192, 4096)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread-lab"));
    command.args(["replay", &trace, "--real", &target, "--loop", "open", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = Pid::from_child(&child);
    // It has handlers as soon as its status says so; from then on the signal ends it well.
    let status = format!("/proc/{}/status", child.id());
    while !fs::read_to_string(&status).unwrap().lines().any(catches_interrupts) {
        std::thread::yield_now();
    }
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let rows = data(&output.stdout);
    assert_eq!((rows.len(), &rows[0]["interrupted"]), (1, &true.into()), "{rows:?}");
    assert!(number(&rows[0], "reads") <= 1);
    assert!(String::from_utf8(output.stderr).unwrap().contains("the trace has more"));
}

fn catches_interrupts(line: &str) -> bool {
    const SIGINT: u64 = 2;
    const SIGTERM: u64 = 15;
    const SIGHUP: u64 = 1;

    let caught = line.strip_prefix("SigCgt:").map(str::trim);
    let mask = caught.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    // The last of the three is registered after the others.
    [SIGINT, SIGTERM, SIGHUP].iter().all(|signal| mask & 1 << (signal - 1) != 0)
}

/// Four jobs of fio's random reads, replayed as recorded and on the file itself.
#[test]
fn what_fio_reads_is_recorded_and_read_again() {
    let test = "what_fio_reads_is_recorded_and_read_again";
    if !needs(Need::Tool("fio"), test) {
        return;
    }
    let (folder, target) = target(8 << 20);
    let trace = folder.path().join("fio.frt");
    let trace = trace.to_str().unwrap();
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_foreread"));
    recorder.args(["record", "-o", trace, "--", "fio", "--name=job", "--ioengine=psync"]);
    recorder.args(["--rw=randread", "--bs=4k", "--numjobs=4", "--thread", "--io_size=1m"]);
    recorder.args(["--invalidate=0", &format!("--filename={target}"), "--output=/dev/null"]);
    let output = recorder.current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot observe the reads") {
        assert!(!is_required("tools"), "{said}");
        return skip(test, &said);
    }
    assert!(output.status.success(), "{said}");
    // Of all that fio reads, its target.
    let csv = stdout(&["trace", trace, "--to", "csv", "--output", "-"]);
    let is_kept = |line: &&str| line.starts_with("time_ns,") || line.contains(&target);
    let kept: Vec<&str> = csv.lines().filter(is_kept).collect();
    assert_eq!(kept.len(), 1 + 4 * 256);
    let of_target = folder.path().join("target.csv");
    fs::write(&of_target, kept.join("\n") + "\n").unwrap();
    let of_target = of_target.to_str().unwrap();
    for pace in ["open", "closed"] {
        let args = ["replay", of_target, "--real", &target, "--loop", pace, "--memory", "4M"];
        let output = foreread(&[&args[..], &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        for row in data(&output.stdout) {
            assert_eq!((number(&row, "bytes"), number(&row, "threads")), (4 << 20, 4), "{row}");
        }
    }
}
