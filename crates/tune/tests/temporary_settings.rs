//! Settings that are held are restored however a run ends; values that other processes have set
//! meanwhile are kept.
//!
//! In:    a tree like sysfs, which tests write; real loop devices, where there are some.
//! Out:   what is in force afterwards.
//! Never: a setting of a device that is not the test's own.

#[path = "../../engine/tests/common/mod.rs"]
mod common;
mod machine;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};

use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::temporary_settings::{self, TemporarySettings};
use machine::{Loop, Need, looks_until, myself, needs};
use tempfile::TempDir;

use crate::common::Command;

/// A system with one disk.
fn system() -> (TempDir, SystemRoot) {
    let root = tempfile::tempdir().expect("a folder");
    let sys = SystemRoot::at(root.path());
    for (path, text) in [
        ("/sys/block/sda/dev", "8:0\n"),
        ("/sys/block/sda/diskseq", "7\n"),
        ("/sys/block/sda/queue/read_ahead_kb", "128\n"),
        ("/sys/block/sda/queue/scheduler", "mq-deadline\n"),
        ("/sys/block/sda/queue/nr_requests", "256\n"),
        ("/sys/block/sda/queue/iosched/fifo_batch", "8\n"),
    ] {
        write(&sys, path, text);
    }
    (root, sys)
}

fn write(sys: &SystemRoot, path: &str, text: &str) {
    let path = sys.path(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
    fs::write(path, text).expect("it is written");
}

fn held(sys: &SystemRoot) -> TemporarySettings {
    TemporarySettings::new(myself("holder", &sys.path("/")).into_std(), sys).expect("it starts")
}

fn setting(attribute: &str, value: &str) -> DeviceSetting {
    DeviceSetting { device: "sda".into(), attribute: attribute.into(), value: value.into() }
}

fn window(sys: &SystemRoot) -> u64 {
    sys.number("/sys/block/sda/queue/read_ahead_kb").expect("a number")
}

fn notes(sys: &SystemRoot) -> usize {
    fs::read_dir(sys.path("/run/foreread")).map_or(0, Iterator::count)
}

#[test]
#[ignore = "the holder of the other tests"]
fn holder() {
    machine::hold_until_the_end();
}

#[test]
#[ignore = "the run that other tests kill"]
fn run_that_is_killed() {
    let Some(sys) = machine::root() else { return };
    let device = std::env::var("DEVICE").expect("a device");
    let held = held(&sys);
    held.set(&DeviceSetting::read_ahead_kb(&device, 64)).expect("it is set");
    held.set(&DeviceSetting::read_ahead_kb(&device, 52)).expect("it is set");
    let line = format!("held by {}\n", held.holder());
    std::io::stdout().write_all(line.as_bytes()).expect("the test reads stdout");
    let _ = std::io::stdin().read(&mut [0]);
}

/// A run that holds a window, and its holder.
fn run(sys: &SystemRoot, device: &str) -> (Child, u32) {
    let mut run = myself("run_that_is_killed", &sys.path("/"))
        .env("DEVICE", device)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(run.stdout.as_mut().expect("it was asked for")).lines();
    let holder = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("held by ").and_then(|(_, pid)| pid.trim().parse().ok()));
    (run, holder.expect("it prints the holder's pid"))
}

fn kill(pid: u32) {
    machine::done(Command::new("kill").args(["-KILL", &pid.to_string()]));
    // It has let go of its files when nothing but its exit code is left of it.
    let is_gone = || {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        threads <= 1 && text.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
    };
    assert!(looks_until(is_gone));
}

#[test]
fn all_is_as_it_was_when_it_is_restored_and_when_it_is_dropped() {
    let (_root, sys) = system();
    let held = held(&sys);
    assert_eq!(notes(&sys), 0, "nothing is changed yet");
    for kib in [4, 8, 1024] {
        held.set(&DeviceSetting::read_ahead_kb("sda", kib)).expect("it is set");
        assert_eq!(window(&sys), kib);
        assert_eq!(notes(&sys), 1);
    }
    held.set(&setting("queue/iosched/fifo_batch", "1")).expect("it is set");
    let restored = held.restore().expect("it restores");
    assert_eq!(
        restored.back,
        [DeviceSetting::read_ahead_kb("sda", 128), setting("queue/iosched/fifo_batch", "8")]
    );
    assert_eq!((window(&sys), notes(&sys)), (128, 0));

    held.set(&DeviceSetting::read_ahead_kb("sda", 16)).expect("more can be set");
    drop(held);
    assert_eq!((window(&sys), notes(&sys)), (128, 0));
}

#[test]
fn a_value_that_another_process_sets_meanwhile_is_kept() {
    let (_root, sys) = system();
    let held = held(&sys);
    held.set(&DeviceSetting::read_ahead_kb("sda", 64)).expect("it is set");
    held.set(&setting("queue/iosched/fifo_batch", "1")).expect("it is set");
    write(&sys, "/sys/block/sda/queue/read_ahead_kb", "4096\n");
    let restored = held.restore().expect("it restores");
    assert_eq!(restored.theirs, [DeviceSetting::read_ahead_kb("sda", 4096)]);
    assert_eq!(restored.back, [setting("queue/iosched/fifo_batch", "8")]);
    assert_eq!(window(&sys), 4096);
}

/// A regression: the run overwrote the other process's value with its next window, and at the end
/// restored what was there before both.
#[test]
fn a_value_that_another_process_sets_between_two_of_ours_comes_back() {
    let (_root, sys) = system();
    let held = held(&sys);
    held.set(&DeviceSetting::read_ahead_kb("sda", 64)).expect("it is set");
    write(&sys, "/sys/block/sda/queue/read_ahead_kb", "4096\n");
    for kib in [32, 16, 8] {
        held.set(&DeviceSetting::read_ahead_kb("sda", kib)).expect("it is set");
    }
    let restored = held.restore().expect("it restores");
    assert_eq!(restored.theirs, [DeviceSetting::read_ahead_kb("sda", 4096)]);
    assert_eq!((restored.back, window(&sys)), (Vec::new(), 4096));
}

#[test]
fn what_a_scheduler_brings_along_is_restored_after_it() {
    let (_root, sys) = system();
    let held = held(&sys);
    held.set(&setting("queue/scheduler", "kyber")).expect("it is set");
    // What the kernel does then, and again when the first one comes back.
    write(&sys, "/sys/block/sda/queue/iosched/fifo_batch", "16\n");
    write(&sys, "/sys/block/sda/queue/nr_requests", "64\n");
    let restored = held.restore().expect("it restores");
    assert_eq!(
        restored.back,
        [
            setting("queue/scheduler", "mq-deadline"),
            setting("queue/nr_requests", "256"),
            setting("queue/iosched/fifo_batch", "8"),
        ]
    );
}

#[test]
fn a_second_run_at_one_device_gets_one_line() {
    let (_root, sys) = system();
    let (first, second) = (held(&sys), held(&sys));
    first.set(&DeviceSetting::read_ahead_kb("sda", 64)).expect("it is set");
    let error = second.set(&DeviceSetting::read_ahead_kb("sda", 32)).expect_err("it is held");
    let line = error.to_string();
    assert!(line.contains("another run of foreread has changed settings of sda; wait"), "{line}");
    assert_eq!(line.lines().count(), 1);
    assert_eq!(
        temporary_settings::restore_left_behind(&sys),
        temporary_settings::Restored::default(),
        "it is not left"
    );
    assert_eq!(window(&sys), 64);
    drop(first);
    second.set(&DeviceSetting::read_ahead_kb("sda", 32)).expect("its turn has come");
}

#[test]
fn what_cannot_be_set_is_refused_and_leaves_nothing() {
    let (_root, sys) = system();
    let file = sys.path("/sys/block/sda/queue/read_ahead_kb");
    fs::remove_file(&file).expect("it was there");
    // Root may write to a file that is read-only by its mode, but not to a directory.
    fs::create_dir(&file).expect("it is made");
    let held = held(&sys);
    assert!(held.set(&DeviceSetting::read_ahead_kb("sda", 64)).is_err());
    let error = held.set(&DeviceSetting::read_ahead_kb("sdb", 64)).expect_err("no such disk");
    assert!(error.to_string().contains("there is no /sys/block/sdb/"), "{error}");
    assert_eq!(notes(&sys), 0);
    assert_eq!(held.restore().expect("nothing to do"), temporary_settings::Restored::default());
}

#[test]
fn what_two_kills_have_left_the_next_start_restores() {
    let (_root, sys) = system();
    let (mut killed, its_holder) = run(&sys, "sda");
    assert_eq!(window(&sys), 52);
    kill(its_holder);
    killed.kill().expect("it runs");
    killed.wait().expect("it ended");
    assert_eq!((window(&sys), notes(&sys)), (52, 1));
    let restored = temporary_settings::restore_left_behind(&sys);
    assert_eq!(restored.back, [DeviceSetting::read_ahead_kb("sda", 128)]);
    assert_eq!((window(&sys), notes(&sys)), (128, 0));
    assert_eq!(
        temporary_settings::restore_left_behind(&sys),
        temporary_settings::Restored::default()
    );
}

#[test]
fn a_new_run_restores_before_it_notes_what_was_there() {
    let (_root, sys) = system();
    let (mut killed, its_holder) = run(&sys, "sda");
    kill(its_holder);
    killed.kill().expect("it runs");
    killed.wait().expect("it ended");
    let next = held(&sys);
    next.set(&DeviceSetting::read_ahead_kb("sda", 8)).expect("it is set");
    drop(next);
    assert_eq!((window(&sys), notes(&sys)), (128, 0));
}

#[test]
fn a_holder_that_was_killed_alone_is_stood_in_for() {
    let (_root, sys) = system();
    let held = held(&sys);
    held.set(&DeviceSetting::read_ahead_kb("sda", 64)).expect("it is set");
    kill(held.holder());
    let restored = held.restore().expect("it restores");
    assert_eq!(restored.back, [DeviceSetting::read_ahead_kb("sda", 128)]);
    assert_eq!((window(&sys), notes(&sys)), (128, 0));
}

#[test]
fn another_disk_of_the_same_name_is_left_alone() {
    let (_root, sys) = system();
    let held = held(&sys);
    held.set(&DeviceSetting::read_ahead_kb("sda", 64)).expect("it is set");
    write(&sys, "/sys/block/sda/diskseq", "8\n");
    assert_eq!(held.restore().expect("it restores"), temporary_settings::Restored::default());
    assert_eq!((window(&sys), notes(&sys)), (64, 0));
}

#[test]
fn notes_that_end_in_the_middle_of_a_line_are_read_up_to_there() {
    let (_root, sys) = system();
    let (mut killed, its_holder) = run(&sys, "sda");
    kill(its_holder);
    killed.kill().expect("it runs");
    killed.wait().expect("it ended");
    let file = sys.path("/run/foreread/held-sda.notes");
    let mut text = fs::read_to_string(&file).expect("it is there");
    text.push_str(r#"{"Set":{"device":"sda","attri"#);
    fs::write(&file, text).expect("it is written");
    assert_eq!(temporary_settings::restore_left_behind(&sys).back.len(), 1);
    assert_eq!((window(&sys), notes(&sys)), (128, 0));
}

#[test]
fn a_killed_run_leaves_a_real_device_as_it_was() {
    const NAME: &str = "a_killed_run_leaves_a_real_device_as_it_was";
    if !needs(Need::Loop, NAME) || !needs(Need::Tool("losetup"), NAME) {
        return;
    }
    let device = Loop::new(4);
    let was = device.window_kib();
    assert_ne!(was, 52);
    let sys = SystemRoot::at(Path::new("/"));
    let (mut killed, _) = run(&sys, &device.name);
    assert_eq!(device.window_kib(), 52);
    killed.kill().expect("it runs");
    killed.wait().expect("it ended");
    assert!(looks_until(|| device.window_kib() == was), "a setting was left behind");

    let (mut killed, its_holder) = run(&sys, &device.name);
    kill(its_holder);
    killed.kill().expect("it runs");
    killed.wait().expect("it ended");
    assert_eq!(device.window_kib(), 52);
    let restored = temporary_settings::restore_left_behind(&sys);
    assert!(
        restored.back.contains(&DeviceSetting::read_ahead_kb(&device.name, was)),
        "{restored:?}"
    );
    assert_eq!(device.window_kib(), was);
}
