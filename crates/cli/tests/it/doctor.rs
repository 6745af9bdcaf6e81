//! `foreread doctor`, as its users run it: on systems made of text, and on real loop devices.
//!
//! In:    the trees of crates/tune/tests/it/doctor; images of our own.
//! Out:   golden reports; devices that are mended by the commands that doctor names.
//! Never: a device that is not ours; a claim about speed.

use crate::common;
use crate::common::Command;
use crate::tree;

use crate::said;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Need, needs};
use serde_json::Value;
use tempfile::TempDir;
use tree::{TREES, golden, tree};

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreread")).arg("doctor").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_report_on_each_system_is_as_written() {
    for name in TREES {
        let root = tree(name);
        let output = doctor(&["--root", root.path().to_str().unwrap()]);
        golden(&format!("{name}.txt"), &text(&output.stdout));
        let output = doctor(&["--json", "--root", root.path().to_str().unwrap()]);
        let count = said::data(&output.stdout).len();
        let (code, line) = match count {
            0 => (0, String::new()),
            1 => (1, "foreread: 1 finding\n".to_owned()),
            count => (1, format!("foreread: {count} findings\n")),
        };
        assert_eq!(output.status.code(), Some(code), "{name}");
        assert_eq!(text(&output.stderr), line, "{name}");
    }
}

#[test]
fn no_line_but_a_command_is_wider_than_a_terminal() {
    for name in TREES {
        let root = tree(name);
        let report = text(&doctor(&["--root", root.path().to_str().unwrap()]).stdout);
        for line in report.lines().filter(|line| line.len() > 100) {
            let is_command = line.starts_with("  mend") || line.starts_with("      or");
            assert!(is_command, "{name}: {line}");
        }
    }
}

#[test]
fn the_document_shows_a_report_as_it_is() {
    let root = tree("nvme-io-opt");
    let report = text(&doctor(&["--root", root.path().to_str().unwrap()]).stdout);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/doctor.md");
    let page_text = fs::read_to_string(&page).unwrap();
    let start = page_text.find(SHOWN).expect("the document shows a report") + SHOWN.len();
    let end = start + page_text[start..].find("```").expect("a block ends");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&page, [&page_text[..start], &report, &page_text[end..]].concat()).unwrap();
    } else {
        assert_eq!(page_text[start..end], report, "if this change is meant, ./dev golden");
    }
}

const SHOWN: &str = "$ foreread doctor --root a-cloud-machine\n";

#[test]
fn a_key_of_a_finding_stays_as_documented() {
    let root = tree("nvme-io-opt");
    let output = doctor(&["--json", "nvme0n1", "--root", root.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let findings = said::data(&output.stdout);
    let keys: Vec<_> = findings[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["check", "confidence", "device", "evidence", "mend", "what", "why"]);
    assert_eq!(findings[0]["confidence"], "cited");
}

#[test]
fn wrong_use_is_refused_in_one_line() {
    let root = tree("laptop");
    let root = root.path().to_str().unwrap();
    for (args, part) in [
        (vec!["sdz", "--root", root], "sdz: not a block device"),
        (vec!["/dev/null"], "/dev/null: not a block device"),
        (vec!["/proc"], "/proc: not a block device"),
        (vec!["--root", "/nonexistent"], "no sys/block below it"),
        (vec!["--measure", "--root", root], "cannot be used with"),
        (vec![""], "a value is required"),
        (vec!["--measure=/nonexistent"], "/nonexistent: cannot create"),
        (vec!["--measure=/proc"], "/proc: cannot create"),
    ] {
        let output = doctor(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let line = text(&output.stderr);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.starts_with("foreread: ") && line.contains(part), "{args:?}: {line}");
    }
}

/// A loop device of ours, until it is dropped.
struct Loop {
    node: String,
    _folder: TempDir,
}

/// One test at a time has loop devices: a command that detaches one and attaches it again could
/// lose it to a process that looks for a free one in between.
static LOOPS: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    LOOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loop {
    fn new(sectors: u64, flags: &[&str]) -> Self {
        let folder = TempDir::new_in(common::scratch()).unwrap();
        let image = folder.path().join("an image");
        File::create(&image).unwrap().set_len(sectors * 512).unwrap();
        let mut losetup = Command::new("losetup");
        let node = common::output(losetup.args(["--find", "--show"]).args(flags).arg(&image));
        Self { node: node.unwrap().trim().to_owned(), _folder: folder }
    }

    fn findings_of(&self, node: &str) -> Vec<Value> {
        let output = doctor(&[node, "--json"]);
        let findings = said::data(&output.stdout);
        let name = node.trim_start_matches("/dev/");
        findings.into_iter().filter(|finding| finding["device"] == name).collect()
    }

    fn finding(&self, node: &str, check: &str) -> Option<Value> {
        self.findings_of(node).into_iter().find(|finding| finding["check"] == check)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Partitions outlive the bound file: the next user of the loop device would inherit them.
        let _ = Command::new("partx").args(["--delete", &self.node]).output();
        let _ = Command::new("losetup").args(["--detach", &self.node]).output();
    }
}

fn shell(command: &str) {
    let done = common::output(Command::new("sh").args(["-c", command]));
    done.unwrap_or_else(|error| panic!("{command}: {error}"));
}

/// Runs a command of `doctor` for a loop device. A device that another process has open when it is
/// detached (udev, a test that looks at all devices) is detached when that process closes it; until
/// then it is busy, and what follows `--detach` is run again.
fn mend(command: &str) {
    let (detach, attach) = match command.split_once(" && losetup ") {
        Some((detach, rest)) if detach.contains("--detach") => (detach, format!("losetup {rest}")),
        _ => return shell(command),
    };
    shell(detach);
    let mut last = String::new();
    for _ in 0..1000 {
        match common::output(Command::new("sh").args(["-c", &attach])) {
            Ok(_) => return,
            Err(error) if error.contains("busy") => last = error,
            Err(error) => panic!("{command}: {error}"),
        }
    }
    panic!("{command}: {last}");
}

fn block_size_of(node: &str) -> String {
    let block = common::output(Command::new("blockdev").args(["--getbsz", node]));
    block.unwrap().trim().to_owned()
}

#[test]
fn an_odd_loop_device_is_found_and_each_command_mends_it() {
    let name = "an_odd_loop_device_is_found_and_each_command_mends_it";
    if !needs(Need::Loop, name) || !needs(Need::Tool("blockdev"), name) {
        return;
    }
    let _alone = alone();
    for (sectors, block) in [(20_001, "512"), (20_002, "1024"), (20_004, "2048")] {
        for command in 0..2 {
            let device = Loop::new(sectors, &[]);
            let finding = device.finding(&device.node, ODD).expect("it is odd");
            // As of its first opening: as long as another has it open it stays what it was.
            let is_so = (0..1000).any(|_| block_size_of(&device.node) == block);
            assert!(is_so, "{} is not {block}", block_size_of(&device.node));
            let evidence = format!("block size: {block} (blockdev --getbsz)");
            assert!(finding["evidence"].as_array().unwrap().contains(&Value::from(evidence)));
            mend(finding["mend"][command].as_str().unwrap());
            assert_eq!(device.finding(&device.node, ODD), None, "{finding}");
            assert_eq!(block_size_of(&device.node), "4096", "{finding}");
        }
    }
    let whole = Loop::new(20_000, &[]);
    assert_eq!(whole.finding(&whole.node, ODD), None);
    assert_eq!(block_size_of(&whole.node), "4096");
}

#[test]
fn partitions_are_resized_and_moved_by_the_commands() {
    let name = "partitions_are_resized_and_moved_by_the_commands";
    if !needs(Need::Loop, name)
        || !needs(Need::Tool("sfdisk"), name)
        || !needs(Need::Tool("partx"), name)
    {
        return;
    }
    let _alone = alone();
    let disk = Loop::new(65_536, &[]);
    let node = &disk.node;
    let table = "label: gpt\\nfirst-lba: 34\\nstart=63,size=8193\\nstart=20480,size=8001\\nstart=28481,size=8000\\n";
    shell(&format!("printf '{table}' | sfdisk --no-reread {node} && partx --update {node}"));
    let first = format!("{node}p1");
    let second = format!("{node}p2");

    let growing = disk.finding(&first, ODD).expect("8193 sectors are odd");
    shell(growing["mend"][0].as_str().unwrap());
    assert_eq!(disk.finding(&first, ODD), None);
    assert_eq!(sectors_of(&first), 8200);

    // The third begins where the second ends.
    let cutting = disk.finding(&second, ODD).expect("8001 sectors are odd");
    assert_eq!(cutting["mend"].as_array().unwrap().len(), 1, "{cutting}");
    shell(cutting["mend"][0].as_str().unwrap());
    assert_eq!(sectors_of(&second), 8000);

    if let Some(moving) = disk.finding(&first, "partition-misaligned") {
        shell(&format!("printf foreread | dd of={first} bs=512 conv=notrunc,fsync status=none"));
        shell(moving["mend"][0].as_str().unwrap());
        assert_eq!(disk.finding(&first, "partition-misaligned"), None);
        let mut read = Command::new("dd");
        let read = read.args([&format!("if={first}"), "bs=8", "count=1", "status=none"]);
        assert_eq!(common::output(read).unwrap(), "foreread", "what was in it is still in it");
    } else {
        common::skip(name, "loop devices rotate here: a start of 63 costs nothing");
    }
}

fn sectors_of(node: &str) -> u64 {
    let sectors = common::output(Command::new("blockdev").args(["--getsz", node]));
    sectors.unwrap().trim().parse().unwrap()
}

#[test]
fn what_an_odd_size_costs_is_counted_by_the_kernel_as_predicted() {
    let name = "what_an_odd_size_costs_is_counted_by_the_kernel_as_predicted";
    if !needs(Need::Loop, name) {
        return;
    }
    let _alone = alone();
    let scratch = TempDir::new_in(common::scratch()).unwrap();
    let odd = Loop::new(20_001, &[]);
    let folder = scratch.path().to_str().unwrap();
    let output = doctor(&[&odd.node, &format!("--measure={folder}")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = text(&output.stdout);

    let row = |block: &str| {
        let cells = report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = cells.into_iter().find(|cells| cells.len() == 5 && cells[1] == block);
        let row = row.unwrap_or_else(|| panic!("blocks of {block}: {report}"));
        (row[2].parse::<f64>().unwrap(), row[3].parse::<f64>().unwrap())
    };
    let ((whole, whole_expected), (odd_counted, odd_expected)) = (row("4096"), row("512"));
    for (counted, expected) in [(whole, whole_expected), (odd_counted, odd_expected)] {
        assert!((counted / expected - 1.0).abs() <= 0.2, "{counted} {expected}: {report}");
    }
    let times = odd_counted / whole;
    assert!((6.4..=9.6).contains(&times), "eight times as many pieces: {times}\n{report}");
    assert!(report.contains("how sure  measured here"), "{report}");

    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing stays");
    let devices = common::output(Command::new("losetup").arg("--all")).unwrap();
    assert!(!devices.contains(folder), "{devices}");
}

/// Whatever this machine's devices are like: a report, and nothing written.
#[test]
fn this_machine_is_examined() {
    let settings = || {
        let mut settings = Vec::new();
        for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let name = device.file_name().into_string().unwrap();
            // Others may tune loop devices of their own meanwhile.
            if !name.starts_with("loop") {
                let file = device.path().join("queue/read_ahead_kb");
                settings.push((name, fs::read_to_string(file).ok()));
            }
        }
        settings.sort();
        settings
    };
    let before = settings();
    let output = doctor(&[]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    assert!(text(&output.stdout).starts_with("device"), "{output:?}");
    assert_eq!(settings(), before);
    let here = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let output = doctor(&[here.to_str().unwrap(), "--json"]);
    let line = text(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 1)) || line.contains("nor a path on one"),
        "{output:?}"
    );
}

const ODD: &str = "size-not-whole-pages";
