//! `--series` of `foreread-lab sim` and `foreread-lab replay`, as a user runs them.

use crate::said;

use std::fmt::Write as _;
use std::fs;

use said::{json, refused, stdout};
use serde_json::Value;
use tempfile::TempDir;

const PROCESSES: &str = r#"[[process]]
name = "scan"
run.sequential = { file = "data", read = "64K", amount = "16M" }

[[process]]
name = "look-up"
run.random = { file = "data", read = "4K", reads = 200 }
"#;

/// A name that CSV has to quote.
const NAME: &str = r#"'two "readers", one disk'"#;

/// A folder with a scenario and a trace.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap());
        let scenario = said::scenario("small", PROCESSES).replace("\"small\"", NAME);
        fs::write(folder.path("small.toml"), scenario).unwrap();
        // A file in order, 16 KiB each 2 ms.
        let mut text = String::from("time_us,thread,op,file,offset,length\n");
        for n in 0..256 {
            let _ = writeln!(text, "{},1,r,/data,{},16384", n * 2000, n * 16384);
        }
        fs::write(folder.path("scan.csv"), text).unwrap();
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// The words of a command, whose second is a file of the folder.
    fn words(&self, command: &str) -> Vec<String> {
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        words[1] = self.path(&words[1]);
        words
    }

    fn of<R>(&self, command: &str, what: fn(&[&str]) -> R) -> R {
        let words = self.words(command);
        what(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn rows(&self, command: &str) -> Vec<Value> {
        self.of(&format!("{command} --json"), json)
    }

    fn printed(&self, command: &str) -> String {
        self.of(command, stdout)
    }

    fn refused(&self, command: &str) -> String {
        self.of(command, refused)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A cell of a line by the name of its column, where no cell behind it has a comma.
fn cell<'l>(heading: &str, line: &'l str, name: &str) -> &'l str {
    let column = heading.split(',').rev().position(|other| other == name).unwrap();
    line.rsplit(',').nth(column).unwrap()
}

/// Takes the rows that begin so, which follow each other without a gap, and returns when the last
/// one ends, and the sum of each of these columns.
fn take_run<const COLUMNS: usize>(
    heading: &str,
    lines: &mut std::iter::Peekable<std::str::Lines<'_>>,
    begins: &str,
    columns: [&str; COLUMNS],
) -> (f64, [f64; COLUMNS]) {
    let (mut ends_at, mut sums) = (0.0, [0.0; COLUMNS]);
    while let Some(line) = lines.next_if(|line| line.starts_with(begins)) {
        let number = |name: &str| cell(heading, line, name).parse::<f64>().unwrap();
        assert!((number("start_s") - ends_at).abs() < 1e-12, "{line}");
        ends_at = number("start_s") + number("length_s");
        for (sum, name) in sums.iter_mut().zip(columns) {
            *sum += number(name);
        }
        assert_eq!(number("ops"), number("hits") + number("waits"), "{line}");
        assert!(number("cached_bytes") <= number("memory_bytes"), "{line}");
    }
    (ends_at, sums)
}

const ALL: &str = "sim small.toml --policy linux-6 adaptive --max-window 64K auto --memory 2M 8M \
                   --seeds 11+3";

/// Every run has its intervals, which sum up to its figures; the same alone and beside others.
#[test]
fn a_series_of_sim_has_rows_for_each_interval_of_each_run() {
    let folder = Folder::new();
    let series = folder.path("series.csv");
    let rows = folder.rows(&format!("{ALL} --series {series}"));
    let text = folder.read("series.csv");
    let (heading, lines) = text.split_once('\n').unwrap();
    assert!(heading.starts_with("version,scenario,policy,eviction,max_window_bytes,"), "{heading}");
    let mut lines = lines.lines().peekable();
    let runs = rows.iter().flat_map(|row| {
        let runs = row["runs"].as_array().unwrap();
        runs.iter().map(move |run| (row, run))
    });
    let keys = ["waits", "waited_s", "requests", "device_bytes"];
    for (row, run) in runs {
        let window = row["max_window"].as_u64().map_or(String::new(), |bytes| bytes.to_string());
        let of_run = format!(
            "1,\"two \"\"readers\"\", one disk\",{},two-lists,{window},{},{},",
            row["policy"].as_str().unwrap(),
            row["memory"],
            run["seed"]
        );
        let (ends_at, sums) = take_run(heading, &mut lines, &of_run, keys);
        for (sum, key) in sums.iter().zip(keys) {
            assert!((sum - number(&run[key])).abs() < 1e-9, "{of_run}: {key} {sum}: {run}");
        }
        assert!((ends_at - number(&run["elapsed_s"])).abs() < 1e-9, "{of_run} ends at {ends_at}");
    }
    assert_eq!(lines.next(), None);
    // One run alone has the same rows; on stdout they are alone, too.
    let alone = "sim small.toml --policy adaptive --max-window auto --memory 2M --seeds 12+1";
    let printed = folder.printed(&format!("{alone} --series -"));
    assert!(printed.starts_with(heading) && printed.lines().count() > 3, "{printed}");
    assert!(printed.lines().skip(1).all(|line| text.contains(line)), "{printed}");
    // An earlier series is replaced, anything else is refused.
    folder.printed(&format!("{alone} --series {series}"));
    assert_eq!(folder.read("series.csv"), printed);
    folder.printed(&format!("sim small.toml --seeds 2 --csv {}", folder.path("table.csv")));
    for other in ["table.csv", "small.toml"] {
        let line = folder.refused(&format!("sim small.toml --series {}", folder.path(other)));
        assert!(line.contains("--series"), "{line}");
    }
    assert!(folder.refused(&format!("sim small.toml --csv {series}")).contains("--csv"));
}

#[test]
fn a_series_of_replay_has_rows_for_each_interval_of_each_replay() {
    let folder = Folder::new();
    let series = folder.path("series.csv");
    let replay = "replay scan.csv --memory 4M 8M --policy none adaptive --eviction two-lists sieve";
    let rows = folder.rows(&format!("{replay} --series {series}"));
    let text = folder.read("series.csv");
    let (heading, lines) = text.split_once('\n').unwrap();
    let first = "version,trace,device,policy,eviction,max_window_bytes,memory_bytes,seed,start_s,";
    assert!(heading.starts_with(first), "{heading}");
    let mut lines = lines.lines().peekable();
    assert_eq!(rows.len(), 8);
    let columns = ["ops", "bytes", "waits", "waited_s", "requests", "device_bytes"];
    let keys = ["reads", "bytes", "waits", "waited_s", "requests", "device_bytes"];
    for row in &rows {
        let text = |key: &str| row[key].as_str().unwrap();
        let window = row["max_window"].as_u64().map_or(String::new(), |bytes| bytes.to_string());
        let of_run = format!(
            "1,\"{}\",\"cloud-gp3\",{},{},{window},{},1,",
            text("trace"),
            text("policy"),
            text("eviction"),
            row["memory"]
        );
        let (ends_at, sums) = take_run(heading, &mut lines, &of_run, columns);
        for (sum, key) in sums.iter().zip(keys) {
            assert!((sum - number(&row[key])).abs() < 1e-9, "{of_run}: {key} {sum}: {row}");
        }
        assert!((ends_at - number(&row["elapsed_s"])).abs() < 1e-9, "{of_run} ends at {ends_at}");
    }
    assert_eq!(lines.next(), None);
    let printed = folder.printed(&format!("{replay} --series -"));
    assert_eq!(printed, text, "on stdout it is alone");
    let trace = folder.path("scan.csv");
    assert!(folder.refused(&format!("{replay} --series {trace}")).contains("the trace"));
    for (more, says) in [
        ("--series - --json", "--series -: --json is written there; give the series a file"),
        ("--series - --html -", "is written there"),
        ("--series - --csv -", "--csv is written there"),
        ("--cache lru --series x", "cannot be used with"),
        ("--real /dev/null --series x", "cannot be used with"),
    ] {
        let line = folder.refused(&format!("replay scan.csv {more}"));
        assert!(line.contains(says), "{more}: {line}");
    }
}

#[test]
fn a_run_with_too_many_intervals_has_longer_ones() {
    let folder = Folder::new();
    // Ten seconds of reads.
    let replay = "replay scan.csv --memory 8M --policy none --loop open --scale 20 --series -";
    let text = folder.printed(replay);
    let (heading, rows) = text.split_once('\n').unwrap();
    assert!((2048..=4096).contains(&rows.lines().count()), "{text}");
    let is_longer = |line: &str| cell(heading, line, "length_s").parse::<f64>().unwrap() > 0.001;
    assert!(is_longer(rows.lines().next().unwrap()), "{text}");
}
