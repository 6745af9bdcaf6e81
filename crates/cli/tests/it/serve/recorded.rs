//! `serve --record`: what clients read, as a trace that replays.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::common::{Command, Need, needs};
use crate::said::{data, json, refused, stdout};
use crate::serve::server::{Place, Server, foreread, printed};

/// The reads of a trace: file, offset, length.
fn reads(trace: &Path) -> Vec<(String, u64, u64)> {
    let text = stdout(&["trace", trace.to_str().unwrap(), "--to", "csv", "--output", "-"]);
    let mut found = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, "read", file, offset, length, "0"] = fields[..] else { panic!("{line}") };
        found.push((file.to_owned(), offset.parse().unwrap(), length.parse().unwrap()));
    }
    found
}

/// Ends a server: what it says then is one line about its trace.
#[track_caller]
fn recorded(server: Server, trace: &Path) {
    server.signal(Signal::TERM);
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    let start = format!("foreread: {}: ", trace.display());
    assert!(said.starts_with(&start) && said.lines().count() == 1, "{said}");
}

#[test]
fn each_read_of_qemu_io_is_recorded_hit_or_miss() {
    let test = "each_read_of_qemu_io_is_recorded_hit_or_miss";
    if !needs(Need::Tool("qemu-io"), test) {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", 8 << 20);
    let trace = place.path("disk.frt");
    let flags = ["--read-only", "--record", trace.to_str().unwrap()];
    let server = place.serve(&file, &flags);
    let mut io = Command::new("qemu-io");
    io.args(["-r", "-f", "raw"]);
    for read in ["read 4096 512", "read 1M 64k", "read 1M 64k", "read 5000000 4096"] {
        io.args(["-c", read]);
    }
    printed(io.arg(server.uri()));
    recorded(server, &trace);
    let found = reads(&trace);
    let count = |offset: u64, length: u64| {
        found.iter().filter(|(_, at, of)| (*at, *of) == (offset, length)).count()
    };
    assert_eq!((count(4096, 512), count(1 << 20, 64 << 10)), (1, 2), "{found:?}");
    let covers = |(_, at, of): &&(String, u64, u64)| *at <= 5_000_000 && at + of >= 5_004_096;
    assert!(found.iter().any(|read| covers(&read)), "{found:?}");
    assert!(found.iter().all(|(name, ..)| name == file.to_str().unwrap()), "{found:?}");
}

#[test]
fn a_copy_by_nbdcopy_is_recorded_whole_and_replays_in_virtual_and_real_time() {
    let test = "a_copy_by_nbdcopy_is_recorded_whole_and_replays_in_virtual_and_real_time";
    if !needs(Need::Tool("nbdcopy"), test) {
        return;
    }
    let place = Place::new();
    let len = 8 << 20;
    let file = place.file("disk", len);
    let trace = place.path("disk.frt");
    let (path, name) = (trace.to_str().unwrap(), file.to_str().unwrap());
    let mut serve = foreread(&["serve", name, "--read-only", "--no-remember"]);
    serve.args(["--record", path, "--run", "nbdcopy --request-size=65536 \"$uri\" null:"]);
    printed(&mut serve);
    let summary = &json(&["trace", path, "--json"])[0];
    assert_eq!((&summary["format"], &summary["cut_off"]), (&"foreread".into(), &false.into()));
    let bytes: u64 = reads(&trace).iter().map(|(.., length)| length).sum();
    assert_eq!(bytes, len as u64);
    assert_eq!(summary["files"][0]["name"], name, "{summary}");

    let rows = json(&["replay", path, "--scale", "0", "--memory", "4M", "--json"]);
    assert_eq!(rows[0]["bytes"], len);
    // All reads are due at once, and most of them are late, which is said.
    let mut real = foreread(&["replay", path, "--real", name, "--loop", "open", "--scale", "0"]);
    real.args(["--workers", "8", "--memory", "4M", "--json"]);
    let rows = data(printed(&mut real).as_bytes());
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["bytes"] == len), "{rows:?}");
}

/// A disk that is full ends the trace, not the service. The trace is written in pieces of 64 KiB:
/// what followed a piece was lost with all before it when the end of the service wrote it.
#[test]
fn a_full_disk_ends_the_recording_and_not_the_copy() {
    let test = "a_full_disk_ends_the_recording_and_not_the_copy";
    for need in [Need::Tool("nbdcopy"), Need::Tool("unshare"), Need::Root] {
        if !needs(need, test) {
            return;
        }
    }
    // A read takes some five bytes: the first piece does not fit, or nothing but the last.
    for (reads, room, least) in [(16_384, "16k", 1000), (1200, "4k", 300)] {
        let (trace, said) = copied_on_a_full_disk(reads, room);
        let warnings = said.lines().filter(|line| line.contains("--record")).count();
        assert_eq!(warnings, 1, "{said}");
        assert!(said.contains("the recording has ended, and reads go on"), "{said}");
        // What was written stays, and is a trace.
        let kept = trace["reads"].as_u64().unwrap();
        assert!((least..reads).contains(&kept), "{trace}");
        assert_eq!(trace["cut_off"], true);
    }
}

/// Copies a disk by so many reads, while there is so much room for their trace: what that holds,
/// and what the server said.
fn copied_on_a_full_disk(reads: u64, room: &str) -> (serde_json::Value, String) {
    let place = Place::new();
    let file = place.file("disk", usize::try_from(reads).unwrap() * 4096);
    let small = place.path("small");
    fs::create_dir(&small).unwrap();
    // The mount is in a name space of its own, and goes with it.
    let script = "mount -t tmpfs -o size=$3 none \"$1\" && \
                  \"$0\" serve \"$2\" --read-only --no-remember --record \"$1/t.frt\" \
                      --run 'nbdcopy --connections=1 --request-size=4096 \"$uri\" null: && \
                             echo copied' && \
                  \"$0\" trace \"$1/t.frt\" --json";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_foreread")]);
    let output = command.arg(&small).arg(&file).arg(room).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let (copied, trace) = printed.split_once('\n').unwrap();
    assert_eq!(copied, "copied", "{said}");
    (data(trace.as_bytes()).remove(0), said)
}

/// The thread that writes ended at once, and reads waited for it.
#[test]
fn a_recording_can_be_discarded() {
    let test = "a_recording_can_be_discarded";
    if !needs(Need::Tool("nbdcopy"), test) {
        return;
    }
    let place = Place::new();
    // More reads than there is room for in memory.
    let file = place.file("disk", 64 << 20);
    let mut serve = foreread(&["serve", file.to_str().unwrap(), "--read-only", "--no-remember"]);
    let copy = "nbdcopy --connections=1 --request-size=4096 \"$uri\" null: && echo copied";
    serve.args(["--record", "/dev/null", "--run", copy]);
    assert_eq!(printed(&mut serve), "copied\n");
}

#[test]
fn a_file_of_another_program_is_no_trace_and_a_refused_start_leaves_none() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let (name, mine) = (file.to_str().unwrap(), place.file("mine", 100));
    let socket = place.path("sock");
    let flags = ["--unix", socket.to_str().unwrap(), "--no-remember"];
    let serve = |record: &Path| {
        let record = ["--record", record.to_str().unwrap()];
        refused(&[&["serve", name][..], &flags, &record].concat())
    };
    assert!(serve(&mine).contains("was not written by"), "another program's");
    assert!(serve(&file).contains("would replace TARGET"), "the target");
    let trace = place.path("t.frt");
    let wrong = ["--record", trace.to_str().unwrap(), "--set", "no_such=1"];
    refused(&[&["serve", name][..], &flags, &wrong].concat());
    assert!(!trace.exists());
}
