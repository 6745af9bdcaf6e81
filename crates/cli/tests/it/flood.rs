//! A flood, as a user runs it: it overwrites what was given up and nothing else, and sets back.
//!
//! In:    files of a known byte, and loop devices over them.
//! Out:   what bench says of a flood, and what is in the files afterwards.
//! Never: a claim about speed.

use crate::common;
use crate::common::Command;
use crate::loop_device;

use crate::said;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use common::{Need, looks_until, needs};
use loop_device::Loop;
use serde_json::Value;
use tempfile::TempDir;

const MIB: usize = 1 << 20;

struct Target {
    _dir: TempDir,
    path: PathBuf,
}

impl Target {
    /// All of it is this byte, and it does not end on a page.
    fn new() -> Self {
        let dir = TempDir::new_in(common::scratch()).unwrap();
        let path = dir.path().join("target");
        fs::write(&path, vec![BYTE; 64 * MIB + 512]).unwrap();
        Self { _dir: dir, path }
    }
}

const BYTE: u8 = 0x5a;

fn flood(target: &Path, flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.args(["bench", "--pattern", "flood"]).arg(target);
    command.args(flags.split_whitespace()).output().unwrap()
}

#[test]
fn it_overwrites_what_it_says_and_has_the_figures_that_the_document_names() {
    let target = Target::new();
    let name = "it_overwrites_what_it_says_and_has_the_figures_that_the_document_names";
    let arms = if needs(Need::ODirect, name) { "direct,foreread" } else { "foreread" };
    let flags = format!("--overwrite --method {arms} --runs 2 --seconds 1 --json");
    // With a slow device the chain does not end before the first write.
    let output = flood(&target.path, &format!("{flags} --delay latency=1ms,parallel=8"));
    assert!(output.status.success(), "{output:?}");
    let rows = said::data(&output.stdout);
    let has: Vec<_> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(has, arms.split(',').collect::<Vec<_>>());
    let figures = [
        "chain_alone_ms",
        "chain_ms",
        "chain_times",
        "writers_alone_mb_per_s",
        "writers_during_percent",
        "writers_after_percent",
        "longest_write_ms",
    ];
    let others = ["pattern", "method", "scheduler", "runs", "reads_per_chain"];
    let documented = include_str!("../../../../docs/guide/bench.md");
    for row in &rows {
        let has: BTreeSet<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(has, figures.into_iter().chain(others).collect(), "{row}");
        for figure in figures {
            let part = |name: &str| row[figure][name].as_f64().unwrap();
            assert!(part("min") <= part("median"), "{row}");
            assert!(part("median") <= part("max"), "{row}");
            assert!(documented.contains(&format!("`{figure}` |")), "{figure}");
        }
        // Twenty reads of a millisecond each, one after the other.
        assert!(row["chain_alone_ms"]["min"].as_f64().unwrap() >= 20.0, "{row}");
        assert!(row["writers_alone_mb_per_s"]["min"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!((&row["runs"], &row["reads_per_chain"]), (&Value::from(2), &Value::from(20)));
    }
    let bytes = fs::read(&target.path).unwrap();
    assert_eq!(bytes.len(), 64 * MIB + 512, "it is as long as it was");
    let (chain, writers) = bytes.split_at(16 * MIB);
    assert!(chain.iter().all(|byte| *byte == BYTE), "the chain's quarter was only read");
    assert!(writers[48 * MIB..].iter().all(|byte| *byte == BYTE), "no write is past the end");
    assert!(writers[..48 * MIB].iter().any(|byte| *byte != BYTE), "the writers have written");
}

/// Writes of a server's clients would be lost, or would come back over the flood.
#[test]
fn a_file_that_a_server_writes_is_refused() {
    let target = Target::new();
    // The lock of a server.
    let file = fs::File::open(&target.path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = flood(&target.path, "--overwrite --seconds 1");
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.contains("another server writes it; end that one, or give another"), "{line}");
    assert!(fs::read(&target.path).unwrap().iter().all(|byte| *byte == BYTE));
}

#[test]
fn without_the_word_that_allows_it_nothing_is_written() {
    let target = Target::new();
    let small = target.path.parent().unwrap().join("small");
    fs::write(&small, vec![BYTE; MIB]).unwrap();
    for (target, flags, says) in [
        (&target.path, "", "add --overwrite"),
        (&target.path, "--method buffered --overwrite", "give direct"),
        (&target.path, "--method direct:none --delay latency=1ms --overwrite", "--method direct"),
        (&target.path, "--pattern rand4k --overwrite", "a call of its own"),
        (&target.path, "--threads 2 --overwrite", "--threads: not for flood"),
        (&target.path, "--amount 1M --overwrite", "--amount: not for flood"),
        (&target.path, "--method foreread --set nothing=1 --overwrite", "nothing"),
        (&small, "--overwrite", "1 MiB are too few for a flood; give at least 64"),
        (&PathBuf::from("/dev/null"), "--overwrite", "neither a file nor a block device"),
        (&PathBuf::from("/nonexistent/file"), "--overwrite", "cannot be written"),
    ] {
        let output = flood(target, flags);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags}: {line}");
        assert!(output.stdout.is_empty(), "{flags}");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains(says), "{flags}: {line}");
    }
    assert!(fs::read(&target.path).unwrap().iter().all(|byte| *byte == BYTE));
    // What is for a flood is not for what only reads.
    for flags in ["--overwrite", "--set writes_in_flight=1", "--method direct:none"] {
        let output = Command::new(env!("CARGO_BIN_EXE_foreread"))
            .args(["bench", "--pattern", "seq4k"])
            .arg(&target.path)
            .args(flags.split_whitespace())
            .output()
            .unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(line.contains("--pattern flood"), "{line}");
    }
}

#[test]
fn the_kernels_scheduler_is_the_one_that_was_asked_for_and_then_what_it_was() {
    const NAME: &str = "the_kernels_scheduler_is_the_one_that_was_asked_for_and_then_what_it_was";
    if !needs(Need::Loop, NAME) || !needs(Need::Tool("losetup"), NAME) {
        return;
    }
    let target = Target::new();
    let device = Loop::new(&target.path);
    let was = device.setting("scheduler");
    let other = if was.contains("[none]") { "mq-deadline" } else { "none" };
    if !was.contains(other) {
        println!("SKIP {NAME}: the kernel has no scheduler but {was}");
        return;
    }
    let flags = format!("--overwrite --method direct:{other},direct --runs 1 --seconds 1 --json");
    let output = flood(Path::new(&device.0), &flags);
    assert!(output.status.success(), "{output:?}");
    let rows = said::data(&output.stdout);
    assert_eq!(rows[0]["scheduler"], other);
    assert!(was.contains(&format!("[{}]", rows[1]["scheduler"].as_str().unwrap())), "{was}");
    assert_eq!(device.setting("scheduler"), was);

    let refused = flood(Path::new(&device.0), "--overwrite --method direct:nothing-like-it");
    let line = String::from_utf8(refused.stderr).unwrap();
    assert!(line.contains("direct:nothing-like-it cannot be had"), "{line}");

    // Killed, it cannot set it back itself.
    let mut killed = Command::new(env!("CARGO_BIN_EXE_foreread"))
        .args(["bench", &device.0, "--pattern", "flood", "--overwrite", "--seconds", "60"])
        .args(["--method", &format!("direct:{other}")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(looks_until(|| device.setting("scheduler") != was), "it has set it");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(looks_until(|| device.setting("scheduler") == was), "it was left behind");
}

#[test]
fn what_is_mounted_is_refused() {
    const NAME: &str = "what_is_mounted_is_refused";
    let tools = ["losetup", "mkfs.ext4", "mount", "umount"];
    if !needs(Need::Loop, NAME) || !tools.iter().all(|tool| needs(Need::Tool(tool), NAME)) {
        return;
    }
    let target = Target::new();
    let device = Loop::new(&target.path);
    let done = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
    };
    done("mkfs.ext4", &["-q", "-F", &device.0]);
    let at = TempDir::new_in(common::scratch()).unwrap();
    let point = at.path().to_str().unwrap();
    done("mount", &[&device.0, point]);
    let refused = flood(Path::new(&device.0), "--overwrite --runs 1");
    common::unmount(at.path()).unwrap();
    let line = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{line}");
    assert!(line.contains("is mounted"), "{line}");
}
