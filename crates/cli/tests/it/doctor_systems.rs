//! `foreread doctor` on recorded systems: mounts, stacks, recordings, fleets.
//!
//! In:    crates/tune/tests/it/doctor/systems: recordings, made of documented attributes; each
//!        names its source.
//! Out:   golden reports (`./dev golden`); the same findings from a system and its recording.
//! Never: this machine's settings.

use crate::common::Command;
use crate::tree;

use crate::said;
use crate::schema;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use schema::fits;
use serde_json::Value;
use tempfile::TempDir;
use tree::{TREES, golden, tree};

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreread")).arg("doctor").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tune/tests/it/doctor/systems")
}

/// The recordings, by their names.
fn systems() -> Vec<String> {
    let names = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let names = names.filter_map(|name| name.strip_suffix(".txt").map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn path_of(name: &str) -> String {
    folder().join(format!("{name}.txt")).to_str().unwrap().to_owned()
}

#[test]
fn the_report_on_each_recorded_system_is_as_written() {
    let systems = systems();
    assert!(systems.len() + TREES.len() >= 30, "{systems:?}");
    for name in systems {
        let output = doctor(&["--stacks", "--root", &path_of(&name)]);
        let report = text(&output.stdout);
        golden(&format!("system-{name}.txt"), &report);
        let is_found = !report.contains("\nNo findings.\n");
        assert_eq!(output.status.code(), Some(i32::from(is_found)), "{name}: {output:?}");
        // Trees are as wide as they are deep.
        let plain = text(&doctor(&["--root", &path_of(&name)]).stdout);
        for line in plain.lines().filter(|line| line.len() > 100) {
            let is_command = line.starts_with("  mend") || line.starts_with("      or");
            assert!(is_command, "{name}: {line}");
        }
    }
}

#[test]
fn checks_of_mounts_find_what_they_should() {
    let checks = |name: &str| {
        let output = doctor(&["--check", "--root", &path_of(name)]);
        let lines = text(&output.stdout);
        let found =
            lines.lines().map(|line| line.split('\t').take(2).collect::<Vec<_>>().join(" "));
        found.collect::<Vec<_>>()
    };
    for (name, expected) in [
        ("nfs-default", vec!["/mnt/media mount-read-ahead-small"]),
        ("nfs-kernel-5.3", vec![]),
        ("nfs-nfsrahead", vec![]),
        ("efs-amazon-rule", vec![]),
        ("smb-6.4", vec![]),
        ("ceph", vec![]),
        ("ceph-small", vec!["/mnt/cephfs mount-read-ahead-small"]),
        ("9p-no-cache", vec![]),
        ("virtiofs", vec!["/shared mount-read-ahead-small"]),
        (
            "fuse-sshfs-s3",
            vec!["/home/a/remote mount-read-ahead-small", "/bucket mount-read-ahead-off"],
        ),
        ("overlay-docker", vec![]),
        ("zfs", vec![]),
        ("damon", vec!["memory reclaims-with-memory-free"]),
        ("dm-keeps-8192", vec!["dm-4 window-does-not-reach"]),
    ] {
        let found = checks(name);
        let missing: Vec<_> =
            expected.iter().filter(|it| !found.contains(&(**it).to_owned())).collect();
        assert!(missing.is_empty(), "{name}: {found:?}");
        if expected.is_empty() {
            assert_eq!(found, Vec::<String>::new(), "{name}");
        }
    }
    let found = checks("btrfs-two-disks");
    assert!(
        found.contains(&"/ window-does-not-reach".to_owned()) || !found.is_empty(),
        "{found:?}"
    );
}

/// The window of a device is that of the first layer from the top, and the tree says so.
#[test]
fn the_tree_says_which_window_counts() {
    let report = text(&doctor(&["--stacks", "--root", &path_of("luks-lvm")]).stdout);
    let line = |name: &str| {
        let is_it = |line: &&str| {
            let is_branch = |word: &&str| ["'-", "|-", "|"].contains(word);
            let words = || line.split_whitespace();
            words().any(|word| is_branch(&word))
                && words().find(|word| !is_branch(word)) == Some(name)
        };
        report.lines().find(is_it).unwrap_or_else(|| panic!("{name}: {report}")).to_owned()
    };
    assert!(line("dm-1").contains("counts"), "{report}");
    for name in ["dm-0", "nvme0n1"] {
        assert!(line(name).contains("ignored"), "{report}");
    }
    let report = text(&doctor(&["--stacks", "--root", &path_of("loop-buffered")]).stdout);
    assert!(report.contains("counts again"), "{report}");
}

#[test]
fn a_recording_of_a_system_has_its_findings() {
    let scratch = TempDir::new().unwrap();
    let file = scratch.path().join("recording.txt");
    let file = file.to_str().unwrap();
    let findings = |root: &str| said::data(&doctor(&["--json", "--root", root]).stdout);
    let mut roots: Vec<(String, Option<TempDir>)> =
        systems().iter().map(|name| (path_of(name), None)).collect();
    roots.extend(TREES.iter().map(|name| {
        let root = tree(name);
        (root.path().to_str().unwrap().to_owned(), Some(root))
    }));
    for (root, _folder) in &roots {
        let output = doctor(&["--capture", file, "--root", root]);
        assert!(output.status.success(), "{root}: {output:?}");
        assert_eq!(findings(file), findings(root), "{root}");
    }
    // This machine's, too; a second one replaces it.
    let output = doctor(&["--capture", file]);
    assert!(output.status.success(), "{output:?}");
    let output = doctor(&["--root", file]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    let scratch = TempDir::new().unwrap();
    let put = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let other = put("other", "hello\n");
    let leaves = put("leaves", "# foreread capture 1\n[..]\nx: 1\n");
    for (args, part) in [
        (vec!["--root", &other], "is not a file of doctor --capture"),
        (vec!["--root", &leaves], "is not a path below a folder"),
        (vec!["--capture", &other], "exists"),
        (vec!["--capture", "/proc/x"], "--capture"),
        (vec!["merge", &other], "is not the output of doctor --json"),
        (vec!["merge"], "required"),
        (vec!["merge", "/nonexistent"], "/nonexistent: "),
        (vec!["--check", "--json"], "cannot be used with"),
        (vec!["--prometheus", &other], "--prometheus"),
    ] {
        let output = doctor(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        let line = text(&output.stderr);
        assert!(line.contains(part) && line.lines().count() == 1, "{args:?}: {line}");
    }
    assert_eq!(fs::read_to_string(&other).unwrap(), "hello\n");
}

#[test]
fn the_json_is_as_the_schema_says() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/doctor.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    for name in systems() {
        let output = doctor(&["--json", "--root", &path_of(&name)]);
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        fits(&schema, &schema, &value, &name);
    }
}

/// Five machines of one kind, one of them set otherwise, and one of another kind.
fn fleet(scratch: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let base = fs::read_to_string(path_of("nfs-default")).unwrap();
    for (host, window) in [("m1", 128), ("m2", 128), ("m3", 1024), ("m4", 128), ("m5", 128)] {
        let text = base.replace("hostname: media1", &format!("hostname: {host}")).replace(
            "[sys/class/bdi/0:52]\nread_ahead_kb: 128",
            &format!("[sys/class/bdi/0:52]\nread_ahead_kb: {window}"),
        );
        let root = scratch.join(format!("{host}.txt"));
        fs::write(&root, text).unwrap();
        let output = doctor(&["--json", "--root", root.to_str().unwrap()]);
        let file = scratch.join(format!("{host}.json"));
        fs::write(&file, &output.stdout).unwrap();
        files.push(file.to_str().unwrap().to_owned());
    }
    let output = doctor(&["--json", "--root", &path_of("zfs")]);
    let file = scratch.join("zfs.json");
    fs::write(&file, &output.stdout).unwrap();
    files.push(file.to_str().unwrap().to_owned());
    files
}

#[test]
fn a_fleet_has_classes_outliers_and_commands() {
    let scratch = TempDir::new().unwrap();
    let files = fleet(scratch.path());
    let page = scratch.path().join("fleet.html");
    let mut args: Vec<&str> = vec!["merge"];
    args.extend(files.iter().map(String::as_str));
    args.extend(["--html", page.to_str().unwrap()]);
    let output = doctor(&args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(text(&output.stderr), "foreread: 4 of 6 machines have findings\n");
    golden("fleet.txt", &text(&output.stdout));
    let html = fs::read_to_string(&page).unwrap();
    for part in ["<!DOCTYPE html>", "m3", "/mnt/media read_ahead_kb", "foreread tune /mnt/media"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("src=") && !html.contains("href="), "it needs nothing else");
    // A second one replaces it; a report of doctor is not replaced.
    assert_eq!(doctor(&args).status.code(), Some(1));
    args.pop();
    args.push(&files[0]);
    assert_eq!(doctor(&args).status.code(), Some(2), "an input is not replaced");

    let json = [vec!["merge", "--json"], files.iter().map(String::as_str).collect()].concat();
    let machines = said::data(&doctor(&json).stdout);
    let of = |host: &str| machines.iter().find(|machine| machine["host"] == host).unwrap();
    assert_eq!(of("m3")["outliers"][0]["value"], "1024");
    assert_eq!(of("m1")["outliers"], Value::Array(Vec::new()));
    assert_ne!(of("m1")["class"], of("pve1")["class"]);
}

#[test]
fn metrics_are_those_of_the_report() {
    let scratch = TempDir::new().unwrap();
    let file = scratch.path().join("foreread.prom");
    let file_name = file.to_str().unwrap();
    let root = path_of("nfs-default");
    for _ in 0..2 {
        let output = doctor(&["--prometheus", file_name, "--check", "--root", &root]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    let metrics = fs::read_to_string(&file).unwrap();
    assert!(metrics.contains("foreread_read_ahead_kb{target=\"/mnt/media\"} 128\n"), "{metrics}");
    let names: BTreeSet<&str> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let typed = |name: &&str| metrics.contains(&format!("# TYPE {name} gauge\n"));
    assert!(names.len() == 3 && names.iter().all(typed), "{metrics}");
}
