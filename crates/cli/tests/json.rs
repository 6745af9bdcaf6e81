//! `--json` has one shape: each command that has the flag prints the same envelope.
//!
//! In:    every command with the flag, found in the help.
//! Out:   a version, the command's name, a list of objects.
//! Never: a command with the flag that this test does not run.

#[path = "../../engine/tests/common/mod.rs"]
mod common;
#[path = "../../ext4/tests/images/mod.rs"]
mod images;

mod said;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use said::foreread;
use serde_json::Value;
use tempfile::TempDir;

/// The commands that have the flag, by their help.
fn commands_with_json() -> BTreeSet<String> {
    let below = |prefix: &[&str]| -> Vec<String> {
        let help = foreread(&[prefix, &["--help"]].concat());
        let help = String::from_utf8(help.stdout).unwrap();
        let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let list = list.take_while(|line| !line.is_empty());
        let names = list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
    };
    let mut found = BTreeSet::new();
    for verb in below(&[]) {
        let of_verb = below(&[&verb]).into_iter().map(|sub| format!("{verb} {sub}"));
        for command in of_verb.chain([verb.clone()]) {
            let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
            let help = String::from_utf8(foreread(&words).stdout).unwrap();
            if help.lines().any(|line| line.trim_start().starts_with("--json")) {
                found.insert(command);
            }
        }
    }
    found
}

/// The shape that docs/json.md promises.
fn check(command: &str, output: &Output) {
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(1), "{command}: {output:?}");
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: Vec<_> = envelope.as_object().unwrap().keys().map(String::as_str).collect();
    let beside = keys.iter().filter(|key| !["command", "data", "version"].contains(key));
    let beside: Vec<_> = beside.copied().collect();
    let expected = if command == "doctor" { BESIDE_FINDINGS.to_vec() } else { Vec::new() };
    assert_eq!((keys.len() - beside.len(), beside), (3, expected), "{command}");
    assert_eq!((&envelope["version"], &envelope["command"]), (&1.into(), &command.into()));
    let data = envelope["data"].as_array().unwrap();
    assert!(data.iter().all(Value::is_object), "{command}: {envelope}");
    let head = format!("{{\"version\":1,\"command\":\"{command}\",\"data\":[\n");
    assert!(output.stdout.starts_with(head.as_bytes()), "{command}: {envelope}");
    assert!(output.stdout.ends_with(b"\n]}\n"), "{command}: {envelope}");
}

/// What `doctor` prints beside its findings, in the order of the alphabet.
const BESIDE_FINDINGS: [&str; 5] = ["devices", "machine", "mounts", "notes", "stacks"];

/// A server that ends with its test.
struct Server(Child);

impl Server {
    fn new(disk: &str, socket: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command.args(["serve", disk, "--unix", socket, "--no-remember"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        let stderr = child.stderr.as_mut().expect("its stderr is a pipe");
        BufReader::new(stderr).read_line(&mut ready).unwrap();
        assert!(ready.contains("serving"), "{ready}");
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_command_with_the_flag_prints_the_same_envelope() {
    let folder = TempDir::new_in(common::scratch()).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (disk, scenario, socket) = (path("disk"), path("small.toml"), path("sock"));
    fs::write(&disk, vec![7; 16 << 20]).unwrap();
    fs::write(&scenario, said::one_reader(30)).unwrap();
    fs::create_dir_all(folder.path().join("root/sys/block")).unwrap();
    let root = path("root");
    let machine = path("machine.json");
    fs::write(&machine, foreread(&["doctor", "--json", "--root", &root]).stdout).unwrap();
    let _server = Server::new(&disk, &socket);

    let mut calls = vec![
        ("bench", format!("{disk} --pattern seq4k --method foreread --runs 1 --amount 1M")),
        ("demo", format!("{disk} --runs 1 --delay latency=100us")),
        ("doctor", format!("--root {root}")),
        ("doctor merge", machine),
        ("explain geometry", "64M".to_owned()),
        (
            "explain itable",
            "--table 1000 --inodes-per-group 8192 --inodes-per-block 16 --inode-readahead-blks 16 1100"
                .to_owned(),
        ),
        ("explain readahead", "0+1 1+1".to_owned()),
        ("explain schedule", "R1@0".to_owned()),
        ("seeds", "--only 004".to_owned()),
        ("set", socket.clone()),
        ("sim", scenario),
        ("sim grid", "--device 0.15ms-1x-180MB-1024K --readers 2".to_owned()),
        ("sim rivals", "--scenario random-64k --policy linux-6".to_owned()),
        ("stats", socket.clone()),
        ("tune", "--device usb-stick-2g --quick".to_owned()),
        ("tune --list", String::new()),
        ("tune verify", String::new()),
    ];
    let mut expected = commands_with_json();
    const NAME: &str = "every_command_with_the_flag_prints_the_same_envelope";
    if images::can_make(NAME) {
        let image = images::make(folder.path(), 16, &[]).to_str().unwrap().to_owned();
        calls.push(("ls", image.clone()));
        calls.push(("stat", format!("{image} /")));
    } else {
        expected.remove("ls");
        expected.remove("stat");
    }
    expected.insert("tune --list".to_owned());
    let called: BTreeSet<String> = calls.iter().map(|(command, _)| (*command).to_owned()).collect();
    assert_eq!(
        called, expected,
        "a command with --json that this test does not run, or the reverse"
    );
    for (command, args) in calls {
        let words = command.split(' ').chain(args.split(' ')).filter(|word| !word.is_empty());
        let words: Vec<_> = words.chain(["--json"]).collect();
        check(command, &foreread(&words));
    }
}
