//! Tune, as its users run it: on models, on loop devices of our own, as root and as others.
//!
//! In:    devices; signals in the middle.
//! Out:   reports, settings as before, rules that come and go.
//! Never: a device that is not ours; a claim about speed.

use crate::common::Command;
use crate::machine;

use crate::said;

mod in_use;
mod kept;
mod mounts;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use machine::{Loop, Need, done, looks_until, needs, skip};
use serde_json::Value;

fn tune(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.arg("tune").args(args).stdin(Stdio::null());
    command
}

fn ran(args: &[&str]) -> Output {
    tune(args).output().unwrap()
}

/// The one object of an answer.
fn one(output: &Output) -> Value {
    let mut data = said::data(&output.stdout);
    assert_eq!(data.len(), 1, "{output:?}");
    data.remove(0)
}

fn report(args: &[&str]) -> Value {
    let output = ran(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    one(&output)
}

/// The report of a sweep that comes to a recommendation: a machine that has much else to do needs
/// longer.
fn recommended(args: &[&str]) -> Value {
    let found = ["10", "20", "60"].into_iter().find_map(|seconds| {
        let output = ran(&[args, &["--seconds", seconds]].concat());
        let found = one(&output);
        let is_known = !found["recommended"].is_null();
        assert!(output.status.success() || !is_known, "{args:?}: {output:?}");
        is_known.then_some(found)
    });
    found.expect("a minute is enough")
}

/// The one line on stderr of an answer that was refused.
fn refused(args: &[&str]) -> String {
    let output = ran(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn wrong_use_is_answered_with_one_line_that_says_what_to_do() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (args, what) in [
        (&[][..], "TARGET"),
        (&["/dev/null"], "is a character device; give a block device"),
        (&["/nonexistent"], "no such file"),
        (&[empty], "too small to measure"),
        (&["/proc/self/status"], "has no block device"),
        (&["--device", "abacus"], "possible values"),
        (&["--device", "sd-card", "--apply"], "cannot be used with"),
        (&["--device", "sd-card", "/dev/null"], "cannot be used with"),
        (&["--seconds", "9", "--device", "sd-card"], "10..=3600"),
        (&["--list", "--apply"], "cannot be used with"),
        (&["--scratch", "/nonexistent", empty], "/nonexistent: No such file"),
        (&["--seconds", "1", "--device", "sd-card"], "10..=3600"),
        (&["forget", "nothing-of-this-name"], "not remembered"),
        (&["no-device-of-this-name"], "no such file; give a block device"),
        (&["--seconds", "15", "--remember", "/dev/null"], "--remember: less than 21 s is a first"),
        (&["--seconds", "20", "--remember", "/dev/null"], "--force remembers it all the same"),
        (&["--seconds", "15", "--remember", "--force", "/dev/null"], "is a character device"),
    ] {
        let line = refused(args);
        assert!(line.contains(what), "{args:?}: {line}");
    }
}

#[test]
fn a_known_device_is_tuned_in_virtual_time() {
    let found = report(&["--device", "usb-stick-2g", "--json"]);
    assert_eq!(found["device"], "usb-stick-2g");
    assert_eq!(found["method"], "simulated");
    assert_eq!(found["plateau_kib"], 256);
    assert_eq!(found["recommended"]["read_ahead_kb"], 256);
    assert_eq!(found["recommended"]["profile"], "mixed");
    assert_eq!(found["compared"]["size_rule_kib"], 256);
    assert_eq!(found["restored"], true);
    assert!(found["seconds"].as_f64().unwrap() <= 60.0);
    for row in found["sweep"].as_array().unwrap() {
        let value = |key: &str| row[key].as_f64().unwrap();
        assert!(value("low") <= value("mb_per_s") && value("mb_per_s") <= value("high"), "{row}");
    }
    let again = report(&["--device", "usb-stick-2g", "--json"]);
    assert_eq!(found, again, "virtual time is the same on every run");
}

#[test]
fn profiles_weigh_differently() {
    let window = |profile| {
        let args = ["--device", "intel-x25m-80g", "--json", "--profile", profile];
        report(&args)["recommended"]["read_ahead_kb"].as_u64().unwrap()
    };
    let (streaming, mixed, database) = (window("streaming"), window("mixed"), window("database"));
    assert!(streaming > 2048, "{streaming}");
    assert!(mixed <= 2048, "{mixed}");
    assert!(database < mixed, "{database} {mixed}");
}

#[test]
fn a_device_is_measured_and_everything_is_as_before() {
    const NAME: &str = "a_device_is_measured_and_everything_is_as_before";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::new(64);
    let (before, (_, writes)) = (disk.window_kib(), disk.requests());
    let node = disk.node();
    let found = recommended(&[node.to_str().unwrap(), "--json"]);
    assert_eq!(found["device"], disk.name.as_str());
    assert_eq!(found["method"], "kernel");
    assert_eq!(found["compared"]["now_kib"], before);
    assert_eq!(found["restored"], true, "{found}");
    assert!(found["sweep"].as_array().unwrap().len() >= 5, "{found}");
    assert_eq!(disk.window_kib(), before);
    assert_eq!(disk.requests().1, writes, "nothing was written");
}

/// A tune of a device that has begun to change its window.
fn begun(disk: &Loop, before: u64) -> Child {
    let node = disk.node();
    let child = tune(&[node.to_str().unwrap(), "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(looks_until(|| disk.window_kib() != before), "it measures");
    child
}

fn signal(child: &Child, name: &str) {
    done(Command::new("kill").args(["-s", name, &child.id().to_string()]));
}

#[test]
fn ctrl_c_restores_and_prints_what_is_known() {
    const NAME: &str = "ctrl_c_restores_and_prints_what_is_known";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::new(64);
    let before = disk.window_kib();
    let child = begun(&disk, before);
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(disk.window_kib(), before);
    let found = one(&output);
    assert_eq!((&found["restored"], &found["recommended"]), (&true.into(), &Value::Null));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("interrupted; every setting is as it was"), "{said}");
}

#[test]
fn a_kill_leaves_no_setting_behind() {
    const NAME: &str = "a_kill_leaves_no_setting_behind";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::new(64);
    let before = disk.window_kib();
    let mut child = begun(&disk, before);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(looks_until(|| disk.window_kib() == before), "{}", disk.window_kib());
}
