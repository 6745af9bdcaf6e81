//! `foreread-lab sim` with several policies, windows, memory sizes and seeds, as a user runs it.

use crate::said;

use std::fs;

use said::{foreread, json, refused, stdout};
use serde_json::Value;
use tempfile::TempDir;

const PROCESSES: &str = r#"[[process]]
name = "scan"
run.sequential = { file = "data", read = "64K", amount = "16M" }

[[process]]
name = "look-up"
run.random = { file = "data", read = "4K", reads = 200 }
"#;

/// A scenario in a folder of its own.
struct Folder(TempDir);

impl Folder {
    fn new(processes: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let text = said::scenario("small", processes).replace("\"small\"", NAME);
        fs::write(folder.path().join("small.toml"), text).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn args<'a>(file: &'a str, more: &'a str) -> Vec<&'a str> {
        ["sim", file].into_iter().chain(more.split(' ').filter(|word| !word.is_empty())).collect()
    }

    fn rows(&self, more: &str) -> Vec<Value> {
        json(&Self::args(&self.path("small.toml"), &format!("{more} --json")))
    }

    fn printed(&self, more: &str) -> String {
        stdout(&Self::args(&self.path("small.toml"), more))
    }

    fn refused(&self, more: &str) -> String {
        refused(&Self::args(&self.path("small.toml"), more))
    }
}

/// A name that CSV has to quote.
const NAME: &str = r#"'two "readers", one disk'"#;

const ALL: &str = "--policy linux-6 adaptive --max-window 64K auto --memory 2M 8M --seeds 11+3";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A figure of JSON, whose reader may miss the last bit.
#[track_caller]
fn is_same(printed: &Value, wanted: f64) {
    let printed = number(printed);
    assert!((printed - wanted).abs() <= wanted * 2.0 * f64::EPSILON, "{printed}, not {wanted}");
}

fn sum(list: &Value, keys: &[&str]) -> u64 {
    let of = |one: &Value| keys.iter().map(|key| one[*key].as_u64().unwrap()).sum::<u64>();
    list.as_array().unwrap().iter().map(of).sum()
}

/// 2 x 2 x 2 combinations with 3 seeds: every figure of every run is that of the run alone.
#[test]
fn each_run_of_a_comparison_is_that_run_alone_digit_for_digit() {
    let folder = Folder::new(PROCESSES);
    let rows = folder.rows(ALL);
    assert_eq!(rows.len(), 8);
    for row in &rows {
        let window =
            row["max_window"].as_u64().map_or("auto".to_owned(), |bytes| bytes.to_string());
        assert_eq!((row["seeds"].as_u64(), row["runs"].as_array().unwrap().len()), (Some(3), 3));
        for run in row["runs"].as_array().unwrap() {
            let how = format!(
                "--policy {} --max-window {window} --memory {} --seeds {}+1",
                row["policy"].as_str().unwrap(),
                row["memory"],
                run["seed"]
            );
            let alone = folder.rows(&how).remove(0);
            let keys = [("hash", "hash"), ("events", "events"), ("elapsed_s", "seconds")];
            for (key, of_alone) in keys {
                assert_eq!(run[key], alone[of_alone], "{how}: {key}");
            }
            assert_eq!(row["max_window"], alone["max_window"], "{how}");
            assert_eq!(run["evicted_unread"], alone["cache"]["evicted_before_use"], "{how}");
            let requests = sum(&alone["devices"], &["reads", "writes"]);
            assert_eq!(run["requests"].as_u64(), Some(requests), "{how}");
            let bytes = sum(&alone["processes"], &["bytes"]) as f64;
            let mb_per_s = bytes / number(&alone["seconds"]) / 1e6;
            is_same(&run["mb_per_s"], mb_per_s);
            let device_bytes = sum(&alone["devices"], &["read_bytes", "write_bytes"]) as f64;
            is_same(&run["amplification"], device_bytes / bytes);
        }
    }
}

/// Student's t of two degrees of freedom, 95 %: 4.302653.
#[test]
fn means_and_intervals_are_those_of_the_runs() {
    let rows = Folder::new(PROCESSES).rows(ALL);
    let values = |row: &Value, key: &str| -> Vec<f64> {
        row["runs"].as_array().unwrap().iter().map(|run| number(&run[key])).collect()
    };
    let keys = ["mb_per_s", "waited_s", "requests", "amplification", "wait_p50_ms", "wait_p99_ms"];
    for (row, key) in rows.iter().flat_map(|row| keys.map(|key| (row, key))) {
        let values = values(row, key);
        let mean = values.iter().sum::<f64>() / 3.0;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0;
        let half_width = 4.302_653 * (variance / 3.0).sqrt();
        let (ours, error) = (&row[key], 1e-6 * mean);
        assert!((number(&ours["mean"]) - mean).abs() < error, "{key}: {row}");
        assert!((number(&ours["half_width"]) - half_width).abs() < error, "{key}: {row}");
    }
    // Each of adaptive is compared with linux-6 of the same window and memory.
    for (base, row) in [(0, 2), (1, 3), (4, 6), (5, 7)] {
        assert_eq!(
            (&rows[base]["policy"], &rows[row]["policy"]),
            (&"linux-6".into(), &"adaptive".into())
        );
        assert_eq!(rows[base]["max_window"], rows[row]["max_window"]);
        assert_eq!(rows[base]["memory"], rows[row]["memory"]);
        assert!(rows[base]["mb_per_s"]["over_first"].is_null());
        let pairs = values(&rows[row], "mb_per_s").into_iter().zip(values(&rows[base], "mb_per_s"));
        let product: f64 = pairs.map(|(one, other)| one / other).product();
        let ours = &rows[row]["mb_per_s"]["over_first"];
        assert!((number(&ours["ratio"]) - product.cbrt()).abs() < 1e-9, "{ours}");
        assert!(number(&ours["low"]) <= number(&ours["ratio"]), "{ours}");
        assert!(number(&ours["high"]) >= number(&ours["ratio"]), "{ours}");
    }
}

#[test]
fn one_combination_with_one_seed_prints_what_it_prints_alone() {
    let folder = Folder::new(PROCESSES);
    let alone = folder.printed("");
    let as_it_is = "--policy linux-6 --memory 8M --max-window 128K --seeds 7+1";
    assert_eq!(folder.printed(as_it_is), alone);
    assert!(alone.contains("policy linux-6, memory 8M, seed 7, max window 128K\n"), "{alone}");
    let learnt = folder.printed("--policy adaptive");
    assert!(learnt.contains("policy adaptive, memory 8M, seed 7, max window auto\n"), "{learnt}");
    assert!(folder.rows("--policy adaptive")[0]["max_window"].is_null());
}

#[test]
fn the_table_has_a_row_for_each_combination_and_says_what_it_shows() {
    let folder = Folder::new(PROCESSES);
    let (text, rows) = (folder.printed(ALL), folder.rows(ALL));
    assert!(text.contains("8 combinations with each of the seeds 11 to 13"), "{text}");
    assert!(text.contains("n = 3: means over the seeds;"), "{text}");
    assert!(text.contains("x waited are times those of linux-6, paired by seed"), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("+-")).collect();
    assert_eq!(lines.len(), rows.len() + 1, "and the legend: {text}");
    for (line, row) in lines.iter().zip(&rows) {
        assert!(line.starts_with(row["policy"].as_str().unwrap()), "{line}");
        let figure = &row["mb_per_s"];
        let cell =
            format!(" {:.2} +-{:.2} ", number(&figure["mean"]), number(&figure["half_width"]));
        assert!(line.contains(&cell), "{cell}: {line}");
    }
    // One policy is compared with nothing, one seed has no interval.
    let text = folder.printed("--policy none --memory 2M 8M");
    assert!(!text.contains("+-") && !text.contains("x MB/s") && !text.contains("n = "), "{text}");
    assert_eq!(text.lines().count(), 5, "{text}");
    let text = folder.printed("--policy none linux-6");
    assert!(text.ends_with("x MB/s and x waited are times those of none, paired by seed.\n"));
    assert!(
        text.lines().any(|line| line.starts_with("none, 8M ") && line.ends_with(" -")),
        "{text}"
    );
}

#[test]
fn where_nothing_is_random_a_note_says_so() {
    let scan = PROCESSES.split_inclusive("\n\n").next().unwrap();
    let file = Folder::new(scan);
    let output = foreread(&Folder::args(&file.path("small.toml"), "--seeds 3"));
    assert!(output.status.success());
    let note = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        note,
        "note: each seed gave the same run: nothing that follows from the seed varies\n"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" +-0.00"), "{text}");
}

#[test]
fn csv_has_the_figures_of_the_json() {
    let folder = Folder::new(PROCESSES);
    let csv = folder.path("out.csv");
    let more = format!("{ALL} --csv {csv}");
    let rows = folder.rows(&more);
    let text = fs::read_to_string(&csv).unwrap();
    let mut lines = text.lines();
    let heading: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(heading[..4], ["version", "scenario", "policy", "max_window_bytes"]);
    let name = "1,\"two \"\"readers\"\", one disk\"";
    for (line, row) in lines.zip(&rows) {
        let cells: Vec<&str> = line.strip_prefix(name).unwrap().split(',').collect();
        assert_eq!(cells.len() + 1, heading.len(), "{line}");
        // The first two are the name's.
        let cell = |name: &str| cells[heading.iter().position(|other| *other == name).unwrap() - 1];
        // By the same reader: the same digits are the same number.
        let is = |cell: &str, value: &Value| match value.as_f64() {
            Some(_) => assert_eq!(serde_json::from_str::<f64>(cell).ok(), value.as_f64()),
            None => assert_eq!(cell, ""),
        };
        is(cell("max_window_bytes"), &row["max_window"]);
        is(cell("memory_bytes"), &row["memory"]);
        for figure in ["mb_per_s", "requests", "bytes_over_fewest", "wait_p999_ms"] {
            let of = &row[figure];
            is(cell(&format!("{figure}_mean")), &of["mean"]);
            is(cell(&format!("{figure}_half_width")), &of["half_width"]);
            is(cell(&format!("{figure}_ratio")), &of["over_first"]["ratio"]);
            is(cell(&format!("{figure}_ratio_high")), &of["over_first"]["high"]);
        }
    }
    // An earlier table is replaced, anything else is refused; on stdout it is alone.
    folder.printed(&more);
    assert_eq!(fs::read_to_string(&csv).unwrap(), text);
    assert_eq!(folder.printed(&format!("{ALL} --csv -")), text);
    assert!(folder.refused(&format!("--csv {}", folder.path("small.toml"))).contains("--csv"));
    assert!(folder.refused("--csv - --json").contains("--json is written there"));
    // One run is a table of one row.
    assert_eq!(folder.printed("--csv -").lines().count(), 2);
}

#[test]
fn bounds_stand_beside_the_figures_unless_they_are_left_out() {
    let folder = Folder::new(PROCESSES);
    let rows = folder.rows(ALL);
    for row in &rows {
        assert!(number(&row["bytes_over_fewest"]["mean"]) >= 1.0, "{row}");
        for run in row["runs"].as_array().unwrap() {
            // The scan has 16 MiB.
            assert!(number(&run["fewest_bytes"]) >= f64::from(16 << 20), "{run}");
            assert!(number(&run["fewest_bytes"]) <= number(&run["device_bytes"]), "{run}");
        }
    }
    let plain = folder.rows(&format!("{ALL} --no-bounds"));
    for (row, plain) in rows.iter().zip(&plain) {
        assert_eq!(row["waited_s"], plain["waited_s"]);
        assert!(plain["bytes_over_fewest"].is_null() && plain["runs"][0]["fewest_bytes"].is_null());
    }
    let heading = folder.printed("--policy none linux-6");
    assert!(heading.contains(" x req ") && heading.contains(" x MIN "), "{heading}");
}

#[test]
fn hits_are_no_part_of_the_waits_of_one_run() {
    let row = Folder::new(PROCESSES).rows("--policy linux-6").remove(0);
    let mut sum = 0;
    for process in row["processes"].as_array().unwrap() {
        let (waits, ops) = (process["waits"].as_u64().unwrap(), process["ops"].as_u64().unwrap());
        assert!(0 < waits && waits < ops, "{process}");
        let ms = |of: &str, key: &str| number(&process[of][key]);
        assert!(ms("wait_ms", "p50") >= ms("latency_ms", "p50"), "{process}");
        assert_eq!(ms("wait_ms", "max"), ms("latency_ms", "max"));
        // The sum of all is that of those that took time.
        let (of_all, of_waits) =
            (ms("latency_ms", "mean") * ops as f64, ms("wait_ms", "mean") * waits as f64);
        assert!((of_all - of_waits).abs() <= of_all * 0.002, "{of_all} and {of_waits}");
        sum += waits;
    }
    assert_eq!(row["waits"].as_u64(), Some(sum));
}

#[test]
fn wrong_use_says_what_is_wrong() {
    let folder = Folder::new(PROCESSES);
    let trace = folder.path("trace");
    folder.printed(&format!("--trace {trace}"));
    for (more, says) in [
        ("--policy linux-6 none linux-6", "--policy: linux-6 is given twice"),
        ("--max-window 1M auto 1024K", "--max-window: 1M is given twice"),
        ("--memory 8M 8192K", "--memory: 8M is given twice"),
        ("--seeds 0", "1 to 10000"),
        ("--seeds 18446744073709551615+2", "--seeds 2: the last seed is 2^64 - 1"),
        ("--policy linux-6 best", "adaptive"),
        ("--max-window 1K", "--policy none"),
        ("--max-window 4K 5000", "must be a multiple of 4K: 4K or 8K"),
        ("--memory 8M 64K", "with --memory 64K: line 6: memory: must be at least"),
        ("--memory 8Q", "powers of 1024"),
        ("--policy none linux-6 --trace TRACE", "--trace: cannot record 2 runs"),
        ("--seeds 3 --compare TRACE", "--compare: cannot record 3 runs"),
        ("--csv - --trace TRACE", "cannot be used with"),
        ("--seeds 2 --html - --json", "--json is written there"),
        ("--series - --json", "--series -: --json is written there; give the series a file"),
        ("--seeds 2 --series - --csv -", "--csv is written there"),
        (
            "--memory 2M 4M 8M 16M --seeds 5000 --series -",
            "--series: cannot record 20000 runs, at most 16384",
        ),
    ] {
        let line = folder.refused(&more.replace("TRACE", &trace));
        assert!(line.contains(says), "{more}: {line}");
    }
}
