//! Bench, as a user runs it: every figure is there, the counts are right, wrong use is refused.
//!
//! In:    files of holes: what is in them does not matter, how they are read does.
//! Out:   what bench says about them.
//! Never: a claim about speed.

use crate::common;
use crate::common::Command;
use crate::loop_device;

use crate::said;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use common::{Need, looks_until, needs};
use loop_device::Loop;
use serde_json::Value;
use tempfile::TempDir;

const COLD: [&str; 14] = [
    "seq4k",
    "seq64k",
    "seq1m",
    "inter2",
    "inter2-64k",
    "inter8",
    "inter200",
    "coop8",
    "rand4k",
    "rand16k",
    "rand64k",
    "scans",
    "stride",
    "back",
];

const HOT: [&str; 5] = ["hot4k", "hot64k", "hot1m", "hot-small", "hot-pin"];

/// A file of holes on the disk of the build, which has `O_DIRECT` where a tmpfs may not.
struct Target {
    _dir: TempDir,
    path: PathBuf,
}

impl Target {
    fn new(mib: u64) -> Self {
        let dir = TempDir::new_in(common::scratch()).unwrap();
        let path = dir.path().join("target");
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        Self { _dir: dir, path }
    }
}

fn bench(target: &Path, flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.arg("bench").arg(target).args(flags.split_whitespace()).output().unwrap()
}

fn rows(target: &Path, flags: &str) -> Vec<Value> {
    let output = bench(target, &format!("{flags} --json"));
    assert!(output.status.success(), "{flags}: {output:?}");
    said::data(&output.stdout)
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let line = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("foreread: "), "{line}");
    line
}

fn count(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("{field} of {row}"))
}

/// The patterns and arms of the rows, in their order.
fn pairs(rows: &[Value]) -> Vec<(&str, &str)> {
    rows.iter()
        .map(|row| (row["pattern"].as_str().unwrap(), row["method"].as_str().unwrap()))
        .collect()
}

#[test]
fn every_cold_pattern_asks_the_device_for_what_it_wants_and_random_ones_for_no_more() {
    const NAME: &str =
        "every_cold_pattern_asks_the_device_for_what_it_wants_and_random_ones_for_no_more";
    const AMOUNT: u64 = 1 << 20;
    if !needs(Need::ODirect, NAME) {
        return;
    }
    let target = Target::new(64);
    let patterns = COLD.join(",");
    let rows = rows(
        &target.path,
        &format!(
            "--pattern {patterns} --method direct,foreread --runs 2 --amount 1M --max-window 128K \
             --memory 16M --policy linux-6 --delay latency=100us,parallel=8"
        ),
    );
    let wanted: Vec<_> =
        COLD.iter().flat_map(|pattern| [(*pattern, "direct"), (*pattern, "foreread")]).collect();
    assert_eq!(pairs(&rows), wanted);
    for row in &rows {
        let (pattern, is_foreread) =
            (row["pattern"].as_str().unwrap(), row["method"] == "foreread");
        assert_eq!(count(row, "runs"), 2);
        assert_eq!(count(row, "threads"), if pattern == "coop8" { 8 } else { 1 });
        assert_eq!(count(row, "bytes_wanted"), AMOUNT, "{row}");
        let processor = &row["cpu_s_per_gb"];
        assert!(processor["min"].as_f64().unwrap() > 0.0, "reading takes some: {row}");
        let is_exact = !is_foreread || pattern.starts_with("rand");
        let asked = count(row, "device_bytes");
        assert!(asked >= AMOUNT, "{row}");
        assert!(!is_exact || asked == AMOUNT, "{row}");
        if is_foreread {
            assert_eq!(row["policy"], "linux-6");
            assert_eq!(count(row, "window_kib"), 128);
            assert_eq!(count(row, "evicted_before_use"), 0, "16M hold every window: {row}");
        } else {
            assert!(row["policy"].is_null() && row["window_kib"].is_null(), "{row}");
            assert!(row["evicted_before_use"].is_null(), "{row}");
        }
        // One stream comes in windows: far fewer requests than pages.
        if is_foreread && pattern.starts_with("seq") {
            assert!(count(row, "device_reads") < AMOUNT / 4096 / 8, "{row}");
        }
    }
}

#[test]
fn json_has_the_fields_it_promises_and_no_others() {
    let target = Target::new(16);
    let rows = rows(&target.path, "--pattern seq64k --runs 3 --amount 4M --max-window 64K");
    let fields = [
        "pattern",
        "method",
        "policy",
        "threads",
        "window_kib",
        "runs",
        "mb_per_s",
        "ns_per_read",
        "cpu_s_per_gb",
        "device_reads",
        "device_bytes",
        "bytes_wanted",
        "evicted_before_use",
    ];
    let documented = include_str!("../../../../docs/guide/bench.md");
    for field in fields {
        assert!(
            documented.contains(&format!("| `{field}` |")),
            "{field} is not in docs/guide/bench.md"
        );
    }
    let arms: Vec<_> = pairs(&rows).into_iter().map(|(_, arm)| arm).collect();
    let has_direct = arms.contains(&"direct");
    assert_eq!(arms.len(), if has_direct { 3 } else { 2 }, "{arms:?}");
    for row in &rows {
        let has: BTreeSet<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(has, BTreeSet::from(fields), "{row}");
        for figure in ["mb_per_s", "ns_per_read"] {
            let part = |name: &str| row[figure][name].as_f64().unwrap();
            assert_eq!(row[figure].as_object().unwrap().len(), 3);
            assert!(part("min") > 0.0, "{row}");
            assert!(part("min") <= part("median"), "{row}");
            assert!(part("median") <= part("max"), "{row}");
        }
        // 4 MiB in reads of 64 KiB: the two figures are of the same time.
        let ns = row["ns_per_read"]["median"].as_f64().unwrap();
        let mb_per_s = row["mb_per_s"]["median"].as_f64().unwrap();
        assert!((ns * mb_per_s / (65536.0 * 1000.0) - 1.0).abs() < 1e-6, "{row}");
    }
}

#[test]
fn hot_reads_ask_the_device_for_nothing_and_are_not_for_direct() {
    let target = Target::new(257);
    let patterns = HOT.join(",");
    for threads in [1, 3] {
        let rows = rows(
            &target.path,
            &format!(
                "--pattern {patterns} --method direct,foreread,memory --runs 1 --amount 24M \
                 --max-window 128K --threads {threads} --start-page 100"
            ),
        );
        let wanted = HOT.map(|pattern| ["foreread", "memory"].map(|method| (pattern, method)));
        assert_eq!(pairs(&rows), wanted.as_flattened());
        for row in &rows {
            assert_eq!(count(row, "bytes_wanted"), 24 << 20);
        }
        for row in rows.iter().filter(|row| row["method"] == "foreread") {
            assert_eq!(count(row, "device_reads"), 0, "{row}");
            assert_eq!(count(row, "device_bytes"), 0, "{row}");
            assert_eq!(count(row, "threads"), threads);
            assert_eq!(count(row, "bytes_wanted"), 24 << 20);
        }
    }
}

#[test]
fn threads_share_the_amount_and_the_target() {
    let target = Target::new(64);
    let rows = rows(
        &target.path,
        "--pattern seq4k,inter2,rand16k --method foreread --threads 4 --runs 1 --amount 2M \
         --max-window 64K --delay latency=50us,parallel=8",
    );
    for row in &rows {
        assert_eq!(count(row, "threads"), 4);
        assert_eq!(count(row, "bytes_wanted"), 2 << 20);
        // Parts of their own: no thread reads what another has read.
        assert!(count(row, "device_bytes") >= 2 << 20, "{row}");
    }
}

#[test]
fn the_table_lines_up_and_the_saved_figures_are_those_of_json() {
    let target = Target::new(16);
    let saved = target.path.with_file_name("figures");
    let output = bench(
        &target.path,
        &format!(
            "--pattern seq64k,inter2-64k,hot-small --runs 2 --amount 2M --save {}",
            saved.display()
        ),
    );
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("pattern ")).collect();
    assert_eq!(lines.len(), 4, "a heading and a line for each pattern: {text}");
    for line in &lines {
        assert_eq!(line.len(), lines[0].len(), "{text}");
    }
    assert!(lines[3].starts_with("hot-small (ns) "), "{text}");
    let bare = lines[0].find("to bare").unwrap();
    assert!(lines[3][..bare + "to bare".len()].ends_with(" x"), "beside a copy: {text}");
    let rows = said::data(&fs::read(&saved).unwrap());
    let hot = ["buffered", "foreread", "memory"].map(|method| ("hot-small", method));
    assert!(pairs(&rows).ends_with(&hot));
}

#[test]
fn what_is_left_out_is_said_if_it_was_not_asked_for_by_name() {
    let target = Target::new(16);
    let output =
        bench(&target.path, "--method foreread --runs 1 --seconds 1 --max-window 64K --json");
    assert!(output.status.success(), "{output:?}");
    let notes = String::from_utf8(output.stderr).unwrap();
    for pattern in ["hot4k", "hot64k", "hot1m", "hot-pin"] {
        assert!(notes.contains(&format!("note: left out: {pattern}: ")), "{notes}");
    }
    let rows = said::data(&output.stdout);
    let wanted: Vec<_> = COLD.into_iter().chain(["hot-small"]).collect();
    let has: Vec<_> = pairs(&rows).into_iter().map(|(pattern, _)| pattern).collect();
    assert_eq!(has, wanted);
}

#[test]
fn a_window_of_less_than_a_page_is_said_to_be_none() {
    let target = Target::new(16);
    let flags = "--pattern seq4k --method foreread --runs 1 --amount 1M --max-window 1";
    let output = bench(&target.path, flags);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("; read-ahead is off; one thread"), "{text}");
}

#[test]
fn wrong_use_is_refused_in_one_line_that_says_what_to_do() {
    let target = Target::new(16);
    for (flags, says) in [
        (
            "--pattern seq5k",
            "choose from seq4k, seq64k, seq1m, inter2, inter2-64k, inter8, inter200",
        ),
        ("--pattern", "a value is required"),
        ("--method mmap", "choose from buffered, direct, foreread"),
        ("--policy clairvoyant", "linux-6"),
        ("--amount 0", "--amount 0: give at least one read"),
        ("--amount 32M --pattern seq4k", "give a target of 32M or --amount 16M"),
        ("--amount 4M --pattern rand4k", "give a target of 32M or --amount 2M"),
        ("--start-page 4096", "--start-page 4096: "),
        ("--start-page 4095 --pattern seq64k", "is too small with 16M"),
        ("--start-page 4095 --pattern seq64k", " or a smaller --start-page"),
        ("--start-page 4095", "no pattern fits: seq4k: "),
        ("--pattern hot4k", "give a target of 256M"),
        ("--pattern hot4k --memory 100M --max-window 128K", "give at least 301M"),
        ("--pattern hot-small --method direct", "add --method buffered or foreread"),
        ("--pattern hot-pin --method buffered", "add --method foreread"),
        ("--memory 100K", "1 MiB"),
        ("--threads 0", "1..=256"),
        ("--runs 0", "1..=99"),
        ("--seconds 0", "1..=3600"),
        ("--delay latency=4", "latency=4ms"),
        ("--save /nonexistent/file", "cannot open its directory"),
    ] {
        let line = refused(&bench(&target.path, flags));
        assert!(line.contains(says), "{flags}: {line}");
    }
    let dir = target.path.parent().unwrap();
    fs::write(dir.join("empty"), "").unwrap();
    fs::write(dir.join("short"), [1; 100]).unwrap();
    fs::write(dir.join("few"), [1; 5000]).unwrap();
    for (path, says) in [
        (dir.to_path_buf(), "is a directory; give a file or a block device"),
        (dir.join("none"), "no such file"),
        (dir.join("empty"), "is empty"),
        (dir.join("short"), "100 bytes are less than a page; give a larger file"),
        (dir.join("few"), "is too small with 5000 bytes; give a target of 1M"),
        (PathBuf::from("/dev/null"), "is a character device"),
    ] {
        let line = refused(&bench(&path, ""));
        assert!(line.contains(says), "{line}");
    }
}

/// The largest window of a device, as the kernel has it.
fn window_kib(device: &Loop) -> u64 {
    device.setting("read_ahead_kb").trim().parse().unwrap()
}

#[test]
fn the_kernels_window_is_what_was_asked_for_and_then_what_it_was() {
    const NAME: &str = "the_kernels_window_is_what_was_asked_for_and_then_what_it_was";
    if !needs(Need::Loop, NAME) || !needs(Need::Tool("losetup"), NAME) {
        return;
    }
    let target = Target::new(32);
    let device = Loop::new(&target.path);
    let was = window_kib(&device);
    assert_ne!(was, 52);

    let flags = "--pattern seq4k --method buffered,foreread --runs 1 --amount 8M --max-window 52K";
    for row in rows(Path::new(&device.0), flags) {
        assert_eq!(count(&row, "window_kib"), 52);
        // The kernel's requests are counted by the device: none is larger than a window.
        assert!(count(&row, "device_bytes") >= 8 << 20, "{row}");
        let most = count(&row, "device_bytes") / count(&row, "device_reads");
        assert!(most <= 52 << 10, "{row}");
    }
    assert_eq!(window_kib(&device), was);

    // Killed, it cannot set it back itself.
    let mut killed = Command::new(env!("CARGO_BIN_EXE_foreread"))
        .args(["bench", &device.0, "--pattern", "rand4k", "--method", "buffered", "--runs", "99"])
        .args(["--max-window", "52K", "--seconds", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(looks_until(|| window_kib(&device) == 52), "it has set it");
    let pid = killed.id().to_string();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(looks_until(|| window_kib(&device) == was), "{pid} left a setting behind");
    let mut said = String::new();
    killed.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.is_empty(), "no half of an answer: {said}");
}
