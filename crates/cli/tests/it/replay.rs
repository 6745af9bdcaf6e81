//! `foreread-lab replay`, as a user runs it.

use crate::said;

use std::fmt::Write as _;
use std::fs;

use said::{data, foreread, json, refused, stdout};
use serde_json::Value;
use tempfile::TempDir;

/// A file in order, 16 KiB each 2 ms, as a program's trace.
fn scan() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let mut text = String::from("time_us,thread,op,file,offset,length\n");
    for n in 0..256 {
        let _ = writeln!(text, "{},1,r,/data,{},16384", n * 2000, n * 16384);
    }
    let path = folder.path().join("scan.csv");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn each_policy_and_memory_is_a_row_and_the_table_says_what_is_saved() {
    let (_folder, trace) = scan();
    let rows = json(&["replay", &trace, "--memory", "8M", "16M", "--per", "file", "--json"]);
    let named: Vec<_> = rows
        .iter()
        .map(|row| (row["policy"].as_str().unwrap(), row["memory"].as_u64().unwrap() >> 20))
        .collect();
    let policies = ["none", "linux-6", "adaptive"];
    let expected: Vec<_> =
        [8, 16].iter().flat_map(|mib| policies.map(|name| (name, *mib))).collect();
    assert_eq!(named, expected);
    let waited = |row: usize| rows[row]["waited_s"].as_f64().unwrap();
    assert!(waited(1) < waited(0) / 2.0, "{} and {}", waited(1), waited(0));
    assert_eq!(rows[0]["reads"], 256);
    assert_eq!(rows[0]["loop"], "closed");
    assert_eq!(rows[0]["groups"][0]["name"], "/data");

    let text = stdout(&["replay", &trace, "--memory", "8M", "16M"]);
    assert!(
        text.contains("scan.csv: 256 reads, file level, closed loop x 1, on cloud-gp3\n"),
        "{text}"
    );
    assert!(text.contains("saves") && text.contains("16M would save"), "{text}");
}

#[test]
fn nothing_is_saved_where_no_read_waits() {
    let (_folder, trace) = scan();
    // All of it is in memory before it counts.
    let text = stdout(&["replay", &trace, "--memory", "16M", "--warm"]);
    assert!(text.contains("With 16M, no read waits, also without read-ahead."), "{text}");
    assert!(!text.contains("saves"), "{text}");
}

#[test]
fn what_a_block_trace_cannot_tell_is_said() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("disk");
    fs::write(&trace, "0,8,8,0,7\n1,16,8,0,7\n2,16,8,1,7\n").unwrap();
    let output = foreread(&["replay", trace.to_str().unwrap(), "--memory", "8M"]);
    assert!(output.status.success(), "{output:?}");
    let notes = String::from_utf8(output.stderr).unwrap();
    for part in ["below the page cache", "does not name threads", "1 writes", "times in seconds"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
}

#[test]
fn misses_are_counted_for_pages_and_objects() {
    let (_folder, trace) = scan();
    let rows = json(&["replay", &trace, "--cache", "lru", "sieve", "--memory", "1M", "--json"]);
    assert_eq!((rows.len(), &rows[0]["uses"], &rows[0]["misses"]), (2, &1024.into(), &1024.into()));
    let rows = json(&["replay", &trace, "--cache", "lru", "--objects", "10", "--json"]);
    assert_eq!((&rows[0]["unit"], &rows[0]["uses"]), (&"object".into(), &256.into()));
}

/// 4 MiB round and round in 2 MiB: the least of it is known, and what it depends on is left out on
/// request.
#[test]
fn each_row_is_held_against_what_knows_the_future() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("round.csv");
    let mut text = String::from("time_us,thread,op,file,offset,length\n");
    for n in 0..1024 {
        let _ = writeln!(text, "{},1,r,/data,{},16384", n * 2000, n % 256 * 16384);
    }
    fs::write(&path, text).unwrap();
    let trace = path.to_str().unwrap();
    let memory = ["--memory", "2M", "8M", "--policy", "none", "adaptive"];
    let args = |more: &[&'static str]| [&["replay", trace], &memory[..], more].concat();
    let rows = json(&args(&["--json"]));
    let number = |row: usize, key: &str| rows[row][key].as_f64().unwrap();
    for (row, all) in rows.iter().enumerate() {
        assert!(number(row, "device_bytes") >= number(row, "fewest_bytes"), "{all}");
        assert!(number(row, "requests") >= number(row, "fewest_requests"), "{all}");
        assert!(number(row, "waited_s") >= number(row, "least_waited_s"), "{all}");
    }
    // Of 1024 pages MIN hits 512 in each further round.
    assert_eq!(number(0, "fewest_bytes") / 4096.0, 1024.0 + 3.0 * 512.0);
    assert_eq!((number(2, "fewest_bytes"), number(2, "device_bytes")), (4_194_304.0, 4_194_304.0));

    let over = json(&args(&["--eviction", "lru", "two-lists", "--no-bounds", "--json"]));
    let names: Vec<_> = over.iter().take(2).map(|row| row["eviction"].as_str().unwrap()).collect();
    assert_eq!((over.len(), names), (8, vec!["lru", "two-lists"]));
    assert!(over[0]["fewest_bytes"].is_null() && over[0]["least_waited_s"].is_null());
    let text = stdout(&args(&["--eviction", "sieve"]));
    assert!(text.contains("adaptive, sieve") && text.contains("x MIN"), "{text}");

    let counts = ["replay", trace, "--cache", "lru", "two-lists", "--memory", "2M", "--json"];
    let counts = json(&counts);
    assert_eq!(counts[0]["misses"], 4096, "a round that is too large has no hit in an LRU");
    assert_eq!(counts[0]["fewest_misses"], 1024 + 3 * 512);
    assert!(counts[1]["misses"].as_u64() >= counts[1]["fewest_misses"].as_u64());
    assert!(refused(&args(&["--eviction", "best"])).contains("s3-fifo"));
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let (folder, trace) = scan();
    assert!(refused(&["replay", "-"]).contains("is not a regular file"));
    let missing = refused(&["replay", "/nowhere/trace"]);
    assert!(missing.contains("/nowhere/trace: No such file"), "{missing}");
    let twice = refused(&["replay", "-", "--cache", "lru"]);
    assert!(twice.contains("is not a regular file") && twice.contains("--no-bounds"), "{twice}");
    assert!(refused(&["replay", &trace, "--memory", "4K"]).contains("--memory: must be"));
    for policy in ["lru", "two-lists"] {
        let line = refused(&["replay", &trace, "--cache", policy, "--objects", "2147483648"]);
        assert!(line.contains("a cache of 2147483648: must have 1 to"), "{line}");
    }
    let many = refused(&["replay", &trace, "--cache", "two-lists", "--objects", "2147483647"]);
    assert!(many.contains("a cache of 2147483647: must have 1 to"), "{many}");
    for window in ["0", "1", "4095"] {
        let line = refused(&["replay", &trace, "--max-window", window]);
        assert!(line.contains("must be at least 4K, a page"), "{line}");
    }
    let window = refused(&["replay", &trace, "--max-window", "127K"]);
    assert!(window.contains("must be a multiple of 4K: 124K or 128K"), "{window}");
    assert!(refused(&["replay", &trace, "--scale=-1"]).contains("--scale"));
    let writes = folder.path().join("writes");
    fs::write(&writes, "0,8,8,1,7\n").unwrap();
    assert!(refused(&["replay", writes.to_str().unwrap()]).contains("has no reads"));
}

/// A store whose latencies vary: each row is a mean over the replays with other seeds, which are
/// those that each seed gives alone.
#[test]
fn seeds_vary_what_varies_and_each_figure_has_its_interval() {
    let (folder, trace) = scan();
    let device = folder.path().join("store.toml");
    let text = "[device.far.model.store]\ncapacity = '1G'\nlatency_ms = 20\nlatency_sigma = 0.4\n\
                connection_mb_per_s = 80\nlink_mb_per_s = 800\nconnections = 64\n";
    fs::write(&device, text).unwrap();
    let device = device.to_str().unwrap();
    let replay = |more: &[&'static str]| {
        let policies = ["--policy", "none", "adaptive", "--memory", "8M"];
        [&["replay", &trace, "--device", device][..], &policies, more].concat()
    };
    let rows = json(&replay(&["--seeds", "5+4", "--json"]));
    assert_eq!(rows.len(), 2);
    let number = |value: &Value| value.as_f64().unwrap();
    for row in &rows {
        let runs = row["runs"].as_array().unwrap();
        let seeds: Vec<u64> = runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect();
        assert_eq!((row["seeds"].as_u64(), seeds), (Some(4), vec![5, 6, 7, 8]));
        for key in ["waited_s", "waits", "requests", "elapsed_s"] {
            let mean = runs.iter().map(|run| number(&run[key])).sum::<f64>() / 4.0;
            assert!((number(&row[key]["mean"]) - mean).abs() <= mean * 1e-9, "{key}: {row}");
        }
        assert!(number(&row["waited_s"]["half_width"]) > 0.0, "{row}");
        assert_eq!(row["least_waited_s"], runs[0]["least_waited_s"]);
    }
    let alone = json(&replay(&["--seeds", "7+1", "--json"]));
    assert_eq!((&alone[0], &alone[1]), (&rows[0]["runs"][2], &rows[1]["runs"][2]));
    assert!(rows[0]["waited_s"]["over_first"].is_null());
    let over = &rows[1]["waited_s"]["over_first"];
    assert!(number(&over["low"]) < number(&over["ratio"]) && number(&over["high"]) < 1.0, "{over}");

    let table = stdout(&replay(&["--seeds", "5+4"]));
    let cell = format!(
        " {:.3} +-{:.3} ",
        number(&rows[1]["waited_s"]["mean"]),
        number(&rows[1]["waited_s"]["half_width"])
    );
    assert!(table.contains(&cell) && table.contains("x waited"), "{cell}: {table}");
    assert!(table.contains("n = 4: means over the seeds"), "{table}");
    for row in &rows {
        let waits = &row["waits"];
        let percent = |key: &str| number(&waits[key]) / number(&row["reads"]) * 100.0;
        let cell = format!(" {:.1} +-{:.1} % ", percent("mean"), percent("half_width"));
        assert!(table.contains(&cell), "{cell}: {table}");
    }
    // One policy is compared with nothing; a device without chance gives the same each time.
    let args = ["replay", &trace, "--policy", "none", "--memory", "8M", "--seeds", "2"];
    let output = foreread(&args);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("x waited"));
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(note.contains("each seed gave the same run"), "{note}");
    let in_json = foreread(&[&args[..], &["--json"]].concat());
    assert_eq!(String::from_utf8(in_json.stderr).unwrap(), note);
    let seeds = refused(&replay(&["--seeds", "2", "--html", "-"]));
    assert!(seeds.contains("--html: cannot show 2 seeds"), "{seeds}");
    assert!(refused(&replay(&["--seeds", "0"])).contains("1 to 10000"));
    let most = ["--seeds", "18446744073709551615+2"];
    assert!(refused(&replay(&most)).contains("--seeds 2: the last seed is 2^64 - 1"));
    assert!(refused(&["replay", &trace, "--cache", "lru", "--seeds", "2"]).contains("--seeds"));
}

/// Two policies with two windows each, two eviction policies, two memories; read as fast as the
/// thread can, so that windows matter.
const COMBINED: [&str; 16] = [
    "--device",
    "sata-500g",
    "--scale",
    "0",
    "--policy",
    "linux-6",
    "fixed",
    "--max-window",
    "64K",
    "512K",
    "--eviction",
    "two-lists",
    "sieve",
    "--memory",
    "4M",
    "8M",
];

/// The rows of both traces, with JSON's figures: each trace has another name and other reads.
fn combined(folder: &TempDir, trace: &str, more: &[&str]) -> Vec<Value> {
    let other = folder.path().join("other \"one\", scan.csv");
    let text = fs::read_to_string(trace).unwrap();
    let half: Vec<&str> = text.lines().take(129).collect();
    fs::write(&other, half.join("\n") + "\n").unwrap();
    let traces = ["replay", trace, other.to_str().unwrap()];
    let output = foreread(&[&traces[..], &COMBINED, &["--json"], more].concat());
    assert!(output.status.success(), "{output:?}");
    data(&output.stdout)
}

#[test]
fn each_row_is_compared_with_the_first_policy_in_its_place() {
    let (folder, trace) = scan();
    let rows = combined(&folder, &trace, &["--seeds", "2"]);
    assert_eq!(rows.len(), 32);
    let words = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let mut ratios = Vec::new();
    for row in &rows {
        let over = &row["waited_s"]["over_first"];
        if row["policy"] == "linux-6" {
            assert!(over.is_null(), "{row}");
            continue;
        }
        let is_base = |other: &&Value| {
            let same = ["trace", "eviction", "memory", "max_window"];
            other["policy"] == "linux-6" && same.iter().all(|key| other[key] == row[key])
        };
        let bases: Vec<_> = rows.iter().filter(is_base).collect();
        assert_eq!(bases.len(), 1, "{}: {row}", words(row, "trace"));
        let mean = |row: &Value| row["waited_s"]["mean"].as_f64().unwrap();
        let expected = mean(row) / mean(bases[0]);
        let ratio = over["ratio"].as_f64().unwrap();
        assert!((ratio / expected - 1.0).abs() < 1e-9, "{ratio} and {expected}: {row}");
        ratios.push(ratio);
    }
    assert_eq!(ratios.len(), 16);
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    assert!(ratios.len() >= 4, "windows and traces have ratios of their own: {ratios:?}");
}

#[test]
fn csv_has_the_figures_of_the_json() {
    let (folder, trace) = scan();
    let csv = folder.path().join("table.csv");
    let csv = csv.to_str().unwrap();
    // By the same reader: the same digits are the same number.
    let is = |cell: &str, value: &Value| match value.as_f64() {
        Some(_) => assert_eq!(serde_json::from_str::<f64>(cell).ok(), value.as_f64()),
        None => assert_eq!(cell, "", "{value}"),
    };
    let mut earlier = String::new();
    for seeds in ["2", "1"] {
        let rows = combined(&folder, &trace, &["--seeds", seeds, "--csv", csv]);
        let text = fs::read_to_string(csv).unwrap();
        let (heading, lines) = text.split_once('\n').unwrap();
        assert!(heading.starts_with("version,trace,level,device,policy,eviction,"), "{heading}");
        assert_eq!((lines.lines().count(), rows.len()), (32, 32));
        for (line, row) in lines.lines().zip(&rows) {
            let name = row["trace"].as_str().unwrap().replace('"', "\"\"");
            assert!(line.starts_with(&format!("1,\"{name}\",file,\"sata-500g\",")), "{line}");
            // From behind, as the name has commas.
            let cell = |name: &str| {
                let column = heading.split(',').rev().position(|other| other == name).unwrap();
                line.rsplit(',').nth(column).unwrap()
            };
            assert_eq!(
                (cell("policy"), cell("eviction")),
                (row["policy"].as_str().unwrap(), row["eviction"].as_str().unwrap(),)
            );
            assert_eq!((cell("loop"), cell("warm"), cell("seeds")), ("closed", "false", seeds));
            is(cell("max_window_bytes"), &row["max_window"]);
            is(cell("memory_bytes"), &row["memory"]);
            for key in ["reads", "bytes", "least_waited_s", "fewest_requests", "fewest_bytes"] {
                is(cell(key), &row[key]);
            }
            for key in ["waits", "waited_s", "requests", "device_bytes", "device_s", "elapsed_s"] {
                let of = &row[key];
                is(cell(&format!("{key}_mean")), if seeds == "1" { of } else { &of["mean"] });
                is(cell(&format!("{key}_half_width")), &of["half_width"]);
                if seeds == "2" {
                    is(cell(&format!("{key}_ratio")), &of["over_first"]["ratio"]);
                    is(cell(&format!("{key}_ratio_low")), &of["over_first"]["low"]);
                }
            }
            let p99 = cell("wait_p99_ms_mean");
            is(
                p99,
                if seeds == "1" { &row["wait_ms"]["p99"] } else { &row["wait_p99_ms"]["mean"] },
            );
        }
        assert_ne!(text, earlier, "an earlier table is replaced");
        earlier = text;
    }
    // On stdout it is alone; other files are kept.
    let one = ["replay", &trace, "--memory", "8M", "--csv"];
    let with = |more: &[&'static str]| [&one[..], more].concat();
    let printed = stdout(&with(&["-"]));
    assert!(printed.starts_with("version,trace,") && printed.lines().count() == 4, "{printed}");
    assert!(refused(&with(&["-", "--json"])).contains("--csv -: --json is written there"));
    assert!(refused(&with(&["x", "--cache", "lru"])).contains("cannot be used with"));
    assert!(refused(&with(&["x", "--real", "/dev/null"])).contains("cannot be used with"));
    let over_trace = refused(&[&one[..], &[&trace]].concat());
    assert!(over_trace.contains("--csv") && over_trace.contains("the trace"), "{over_trace}");
    let series = folder.path().join("series.csv");
    let series = series.to_str().unwrap();
    stdout(&["replay", &trace, "--memory", "8M", "--series", series]);
    assert!(refused(&[&one[..], &[series]].concat()).contains("was not written by this command"));
}
