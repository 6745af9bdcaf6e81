//! `--json` has one shape: each command that has the flag prints the same envelope, and its help
//! names the keys.
//!
//! In:    every command with the flag, found in the help.
//! Out:   a version, the command's name, a list of objects.
//! Never: a command with the flag that this test does not run; a list of keys in this test.

use crate::common;
use crate::common::Command;
use crate::images;

use crate::said;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Output, Stdio};

use foreread_serve::stats::{CostStats, ServerStats, StoreStats, WindowCount};
use said::foreread;
use serde_json::Value;
use tempfile::TempDir;

/// The commands that have the flag, by their help.
fn commands_with_json() -> BTreeSet<String> {
    let below = |help: Output| -> Vec<String> {
        let help = String::from_utf8(help.stdout).unwrap();
        let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let list = list.take_while(|line| !line.is_empty());
        let names = list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
    };
    let mut found = BTreeSet::new();
    let lab = Command::new(said::LAB).arg("--help").output().unwrap();
    let verbs = below(foreread(&["--help"])).into_iter().chain(below(lab));
    for verb in verbs.collect::<BTreeSet<_>>() {
        let of_verb =
            below(foreread(&[&verb, "--help"])).into_iter().map(|sub| format!("{verb} {sub}"));
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

/// The shape that docs/guide/json.md promises.
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

/// The words in what the help of a command says of `--json`.
fn words_of_help(command: &str) -> BTreeSet<String> {
    let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
    let help = said::stdout(&words);
    let of_flag = help.lines().skip_while(|line| line.trim() != "--json").skip(1);
    let of_flag = of_flag.take_while(|line| line.is_empty() || line.starts_with("          "));
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = of_flag.flat_map(|line| line.split(move |c: char| !is_of_word(c)));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// All keys below a value, but those of [`MAPS`].
fn keys_of(value: &Value, keys: &mut BTreeSet<String>) {
    for element in value.as_array().into_iter().flatten() {
        keys_of(element, keys);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        keys.insert(key.clone());
        if !(MAPS.contains(&key.as_str()) && value.is_object()) {
            keys_of(value, keys);
        }
    }
}

/// Objects whose keys are names in the data: what a workload measures, kinds of requests.
const MAPS: [&str; 2] = ["other", "requests"];

/// Compares the keys that a command prints with those in its help: each key is a word there, and
/// each word with an underscore is a key.
#[track_caller]
fn are_in_help(command: &str, keys: &BTreeSet<String>) {
    let words = words_of_help(command);
    names_all(command, keys, &words);
    // Values and units are words without one.
    let stale: Vec<_> = words.difference(keys).filter(|word| word.contains('_')).collect();
    assert!(stale.is_empty(), "{command} --help names {stale:?}, which it does not print");
}

/// The keys of one call: others may be in the help that this one did not print.
fn check_keys(command: &str, output: &Output) {
    let mut keys = BTreeSet::new();
    said::data(&output.stdout).iter().for_each(|row| keys_of(row, &mut keys));
    let mut words = words_of_help(command);
    // "The keys of `foreread ls --json`, and ..".
    let others = [("demo", "bench"), ("stat", "ls")];
    for (_, other) in others.iter().filter(|(one, _)| *one == command) {
        words.extend(words_of_help(other));
    }
    names_all(command, &keys, &words);
}

#[track_caller]
fn names_all(command: &str, keys: &BTreeSet<String>, words: &BTreeSet<String>) {
    let missing: Vec<_> = keys.difference(words).collect();
    assert!(missing.is_empty(), "{command} --help does not name {missing:?}");
}

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
    let trace = path("trace.csv");
    fs::write(&trace, "0,8,8,0,7\n1,16,8,0,7\n").unwrap();
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
        ("explain itable", "--table 1000+8192/16 --inode-readahead-blks 16 1100".to_owned()),
        ("explain readahead", "0+1 1+1".to_owned()),
        ("explain schedule", "R1@0".to_owned()),
        ("seeds", "004".to_owned()),
        ("set", socket.clone()),
        ("sim", scenario),
        ("sim grid", "0.15ms-1x-180MB-1024K --readers 2".to_owned()),
        ("sim rivals", "random-64k --policy linux-6".to_owned()),
        ("stats", socket.clone()),
        ("replay", format!("{trace} --memory 8M")),
        ("trace", trace),
        ("tune", "--device usb-stick-2g --seconds 15".to_owned()),
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
        let output = foreread(&words);
        check(command, &output);
        // Those of doctor are in a schema.
        if command != "doctor" {
            check_keys(command, &output);
        }
    }
}

/// A store and a disk, a process that measures something besides, and waits.
const SCENARIO: &str = r#"
name = "all keys"

[cache]
memory = "8M"

[device.store]
model = "object-store"

[[process]]
name = "reader"
run.streaming = { device = "store", file_size = "4M", read = "128K", kib_per_s = [100000] }
"#;

#[test]
fn the_help_names_each_key_with_its_unit() {
    let folder = TempDir::new_in(common::scratch()).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (disk, scenario, socket, trace) = (path("disk"), path("s.toml"), path("sock"), path("t"));
    fs::write(&disk, vec![7; 1 << 20]).unwrap();
    fs::write(&scenario, SCENARIO).unwrap();
    fs::write(&trace, "time_ns,op,offset,length\n0,r,0,4096\n1000,r,8192,4096\n").unwrap();
    let _server = Server::new(&disk, &socket);
    let replay = |more: &'static str| format!("replay {trace} --memory 8M {more}");
    let cases = [
        ("sim", vec![format!("sim {scenario}"), format!("sim {scenario} --policy none linux-6")]),
        ("stats", vec![format!("stats {socket}")]),
        (
            "replay",
            vec![
                replay("--per file"),
                replay("--seeds 2"),
                replay("--cache lru"),
                format!("replay {trace} --real {disk} --scale 0"),
            ],
        ),
    ];
    for (command, calls) in cases {
        let mut keys = BTreeSet::new();
        for call in calls {
            let words: Vec<_> = call.split(' ').chain(["--json"]).collect();
            let output = foreread(&words);
            assert!(output.status.success(), "{call}: {output:?}");
            said::data(&output.stdout).iter().for_each(|row| keys_of(row, &mut keys));
        }
        if command == "stats" {
            // What this server has not, as it serves no object and has done nothing.
            keys_of(&serde_json::to_value(busy_stats()).unwrap(), &mut keys);
        }
        are_in_help(command, &keys);
    }
}

/// Statistics without a null where a value has keys.
fn busy_stats() -> ServerStats {
    let mut stats = ServerStats::default();
    stats.ahead.windows.push(WindowCount::default());
    stats.device.read.fit = Some(CostStats::default());
    stats.store = Some(StoreStats::default());
    stats
}
