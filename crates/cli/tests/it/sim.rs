//! `foreread-lab sim` and `foreread-lab seeds`, as a user runs them.

use crate::said;

use std::fs;
use std::path::{Path, PathBuf};

use said::{foreread, json, refused, stdout};
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Two readers, one of them at random, on a small device.
fn small_scenario() -> String {
    let processes = r#"[[process]]
name = "scan"
run.sequential = { file = "data", read = "64K" }

[[process]]
name = "look-up"
run.random = { file = "data", read = "4K", reads = 500 }
"#;
    said::scenario("two readers", processes)
}

/// A scenario in a file of its own.
struct Scenario {
    dir: TempDir,
}

impl Scenario {
    fn new(text: &str) -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("small.toml"), text).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self) -> String {
        self.path("small.toml")
    }
}

#[test]
fn one_seed_is_one_run_and_another_is_another() {
    let small = Scenario::new(&small_scenario());
    let run = |args: &[&str]| {
        let file = small.file();
        let all = [&["sim", &file, "--json"], args].concat();
        json(&all).remove(0)
    };
    let first = run(&[]);
    assert_eq!(first, run(&[]));
    assert_eq!(first["seed"], 7);
    assert_eq!(first, run(&["--seeds", "7+1"]));
    assert_ne!(first["hash"], run(&["--seeds", "8+1"])["hash"]);
    let other = run(&["--policy", "none"]);
    assert_eq!(other["policy"], "none");
    assert_ne!(first["hash"], other["hash"]);
    assert!(other["cache"]["pages_ahead"] == 0 && first["cache"]["pages_ahead"] != 0);

    let processes = first["processes"].as_array().unwrap();
    assert_eq!(processes[0]["name"], "scan");
    assert_eq!(processes[0]["bytes"], 64 << 20);
    assert_eq!(processes[1]["ops"], 500);
    let latency = |key: &str| processes[1]["latency_ms"][key].as_f64().unwrap();
    assert!(["p50", "p99", "p999", "max"].map(latency).is_sorted(), "{}", processes[1]);
    assert!(first["devices"][0]["read_bytes"].as_u64().unwrap() >= 64 << 20);
}

#[test]
fn the_table_says_what_the_json_says() {
    let small = Scenario::new(&small_scenario());
    let (file, text) = (small.file(), stdout(&["sim", &small.file()]));
    let hash = json(&["sim", &file, "--json"])[0]["hash"].as_str().unwrap().to_owned();
    assert!(text.contains(&format!("hash {hash}")), "{text}");
    assert!(text.contains("two readers: policy linux-6, memory 8M, seed 7"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("look-up ")), "{text}");
}

#[test]
fn a_run_that_differs_from_a_trace_names_the_event() {
    let small = Scenario::new(&small_scenario());
    let (file, trace) = (small.file(), small.path("trace"));
    stdout(&["sim", &file, "--trace", &trace]);
    stdout(&["sim", &file, "--compare", &trace]);

    let text = fs::read_to_string(&trace).unwrap();
    let events = json(&["sim", &file, "--json"])[0]["events"].as_u64().unwrap();
    assert_eq!(text.lines().count() as u64, events);
    let mut lines: Vec<_> = text.lines().collect();
    lines.remove(99);
    fs::write(&trace, lines.join("\n")).unwrap();
    let output = foreread(&["sim", &file, "--compare", &trace]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.contains("event 100: there"), "{line}");
    assert!(line.contains(lines[99]), "{line}");
}

#[test]
fn what_is_wrong_with_a_scenario_is_said_with_its_line_and_the_choices() {
    let wrong = |from: &str, to: &str| {
        assert!(small_scenario().contains(from), "{from}");
        let scenario = Scenario::new(&small_scenario().replace(from, to));
        let line = refused(&["sim", &scenario.file()]);
        line.split_once("small.toml: ").unwrap_or_else(|| panic!("{line}")).1.to_owned()
    };
    let starts = |line: &str, with: &str| assert!(line.starts_with(with), "{line}");
    starts(&wrong("read = \"64K\"", "reed = \"64K\""), "line 18: unknown field `reed`");
    starts(&wrong("\"8M\"", "\"8Q\""), "line 6: \"8Q\": not a size");
    starts(&wrong("linux-6", "linux"), "line 7: no policy \"linux\"; choose one of none, ");
    starts(&wrong("model.flash", "model.floppy"), "line 10: unknown variant `floppy`");
    starts(&wrong("device = \"disk\"", "device = \"dusk\""), "line 13: no device \"dusk\"");
    starts(&wrong("mb_per_s = 100.0", "mb_per_s = -1.0"), "line 10: mb_per_s: must be");
    starts(&wrong("size = \"64M\"", "size = \"2G\""), "line 13: the file ends behind its device");
    starts(&wrong("\"8M\"", "\"8K\""), "line 6: memory: must be at least");
}

#[test]
fn files_that_are_not_there_and_flags_that_are_not_are_refused() {
    let small = Scenario::new(&small_scenario());
    let file = small.file();
    assert!(refused(&["sim", "/nowhere.toml"]).contains("/nowhere.toml"));
    assert!(refused(&["sim", &file, "--policy", "best"]).contains("adaptive"));
    assert!(refused(&["sim", &file, "--seeds=-1"]).contains("'-1'"));
    assert!(refused(&["sim", &file, "--trace", "/nowhere/trace"]).contains("/nowhere/trace"));
    assert!(refused(&["sim", &file, "--compare", "/nowhere"]).contains("/nowhere"));
    assert!(refused(&["sim", &file, "--trace", &file]).contains("would replace the scenario"));
    assert_eq!(fs::read_to_string(&file).unwrap(), small_scenario());
    assert!(refused(&["seeds", "005"]).contains("004"));
}

#[test]
fn every_scenario_of_ours_runs() {
    let folder = root().join("crates/sim/scenarios");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // Those take some minutes: `crates/sim/tests/it/scenario.rs` reads all of them.
            continue;
        }
        let ran = json(&["sim", path.to_str().unwrap(), "--json"]);
        assert!(ran[0]["events"].as_u64().unwrap() > 0, "{}", path.display());
        count += 1;
    }
    assert!(count >= 5, "{count} scenarios");
}

/// `./dev golden` (BLESS=1) writes the page; the diff is the review.
#[test]
fn the_page_of_the_seeds_is_what_the_command_prints() {
    let page = root().join("docs/lab/seeds.md");
    let output = foreread(&["seeds", "--markdown"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    if std::env::var_os("BLESS").is_some() {
        fs::write(page, printed).unwrap();
    } else {
        let text = fs::read_to_string(page).unwrap_or_default();
        assert!(text == printed, "docs/lab/seeds.md: if this change is meant, ./dev golden");
    }
}

#[test]
fn the_seeds_as_json_are_every_published_table() {
    let tables = json(&["seeds", "000", "--json"]);
    let sweep = tables.iter().find(|table| table["table"] == "000_readahead_throughput").unwrap();
    assert_eq!(sweep["seed"], "000");
    assert_eq!(sweep["verdict"]["holds"], true);
    let cells = sweep["cells"].as_array().unwrap();
    assert_eq!(cells.iter().filter(|cell| cell["is_marked"] == true).count(), 8);
    for cell in cells {
        let (seed, ours) = (cell["seed"].as_f64().unwrap(), cell["ours"].as_f64().unwrap());
        let error = cell["error_percent"].as_f64().unwrap();
        assert!((error - (ours / seed - 1.0) * 100.0).abs() < 1e-9, "{cell}");
    }
}
