//! `foreread-lab sim rivals`, as a user runs it. The scenarios here are those that take a moment.

use crate::said;

use std::path::Path;

use foreread_core::prefetch::AdaptivePart;
use serde_json::Value;

const QUICK: [&str; 3] = ["random-64k", "heads", "strided"];

fn rivals<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["sim", "rivals"], args].concat()
}

fn stdout(args: &[&str]) -> String {
    said::stdout(&rivals(args))
}

fn json(args: &[&str]) -> Vec<Value> {
    said::json(&rivals(args))
}

fn refused(args: &[&str]) -> String {
    said::refused(&rivals(args))
}

#[test]
fn a_row_for_each_scenario_policy_and_window_in_their_order() {
    let args = ["heads", "strided", "--policy", "none", "linux-6", "adaptive"];
    let rows = json(&[&args[..], &["--json"]].concat());
    let name = |row: &Value| {
        let (scenario, policy) =
            (row["scenario"].as_str().unwrap(), row["policy"].as_str().unwrap());
        format!("{scenario} {policy} {}", row["max_window"])
    };
    let names: Vec<_> = rows.iter().map(name).collect();
    let wanted = [
        "heads none 1048576",
        "heads linux-6 131072",
        "heads linux-6 1048576",
        "heads adaptive null",
        "strided none 131072",
        "strided linux-6 131072",
        "strided adaptive null",
    ];
    assert_eq!(names, wanted);
    for row in &rows {
        let keys = ["elapsed_s", "requests", "device_s", "amplification", "evicted_unread"];
        for key in keys.into_iter().chain(["waited_s", "mb_per_s"]) {
            assert!(row[key].is_number(), "{key}: {row}");
        }
        assert!(row["optimum_requests"].is_null(), "{row}");
    }
    // No row is below what nothing can better. One request of these devices may fill the memory.
    for row in &rows {
        assert!(row["device_bytes"].as_u64() >= row["fewest_bytes"].as_u64(), "{row}");
        assert!(row["fewest_requests"].is_null(), "{row}");
    }
    assert_eq!(
        (&rows[0]["fewest_bytes"], &rows[0]["eviction"]),
        (&(400 << 18).into(), &"two-lists".into())
    );
    // Without read-ahead, 400 clients ask for their 64 pages one by one, and for nothing else.
    assert_eq!((&rows[0]["requests"], &rows[0]["amplification"]), (&25_600.into(), &1.0.into()));
    assert_eq!((&rows[0]["streams"], &rows[0]["at_rate"]), (&400.into(), &400.into()));

    // The table says the same, in the same order.
    let text = stdout(&args);
    let lines: Vec<_> = text.lines().skip(1).take(rows.len()).collect();
    for (line, row) in lines.iter().zip(&rows) {
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            (cells[0], cells[1]),
            (row["scenario"].as_str().unwrap(), row["policy"].as_str().unwrap())
        );
        assert!(cells.contains(&row["requests"].to_string().as_str()), "{line}");
    }
    assert!(text.lines().next().unwrap().starts_with("scenario"), "{text}");
}

#[test]
fn streaming_scenarios_have_their_fewest_requests() {
    let args = ["streaming-server", "--policy", "linux-6", "adaptive", "--json"];
    let rows = json(&args);
    let optimum: Vec<_> =
        rows.iter().map(|row| row["optimum_requests"].as_f64().unwrap()).collect();
    assert!(optimum[0] > 100.0 && optimum.iter().all(|one| *one == optimum[0]), "{optimum:?}");
}

/// The streaming scenarios had a bound of one request, for a device that takes 1 GiB in one.
#[test]
fn the_fewest_requests_are_those_of_the_largest_request_where_it_is_smaller_than_the_memory() {
    let args = ["scans-short", "heads", "--policy", "linux-6"];
    let rows = json(&[&args[..], &["--json"]].concat());
    assert_eq!(rows.len(), 4);
    for row in &rows[..2] {
        let (requests, fewest) = (row["requests"].as_u64(), row["fewest_requests"].as_u64());
        // 2000 scans at random places, of which hardly two lie within 1 MiB.
        assert!((Some(1900)..=requests).contains(&fewest), "{row}");
    }
    let text = stdout(&args);
    let at = text.lines().next().unwrap().split("  ").filter(|name| !name.trim().is_empty());
    let at = at.map(str::trim).position(|name| name == "x req").unwrap();
    for (line, row) in text.lines().skip(1).zip(&rows) {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let is_none = cells.collect::<Vec<_>>()[at] == "-";
        assert_eq!(is_none, row["fewest_requests"].is_null(), "{line}");
    }
}

#[test]
fn where_adaptive_loses_is_said_if_there_is_a_rival() {
    let said = |args: &[&str]| {
        let text = stdout(&[&["heads"], args].concat());
        let lines = text.lines().skip_while(|line| !line.contains("adaptive loses"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    // Adaptive reads ahead of clients that leave; the policy none does not.
    let lines = said(&["--policy", "none", "adaptive"]);
    let bytes = lines.iter().find(|line| line.contains("bytes per byte wanted"));
    assert!(bytes.is_some_and(|line| line.starts_with("  heads: ") && line.contains("none 1.000")));
    assert_eq!(said(&["--policy", "none", "linux-6"]), [""; 0]);
    assert_eq!(said(&["--policy", "ablation"]), [""; 0]);
}

#[test]
fn an_ablation_is_adaptive_whole_and_without_its_parts() {
    let rows = json(&["random-64k", "--policy", "ablation", "--json"]);
    let without: Vec<_> = rows.iter().map(|row| row["without"].to_string()).collect();
    let wanted = [
        "",
        "law",
        "clip",
        "lead",
        "runs",
        "order",
        "gaps",
        "far",
        "law,clip",
        "law,lead",
        "clip,lead",
        "law,runs",
        "clip,runs",
        "lead,runs",
        "law,clip,lead",
        "law,clip,runs",
        "law,lead,runs",
        "clip,lead,runs",
        "law,clip,lead,runs",
        "law,clip,lead,runs,order,gaps,far",
    ];
    let wanted = wanted.map(|parts| {
        let parts = parts.split(',').filter(|part| !part.is_empty());
        format!("[{}]", parts.map(|part| format!("{part:?}")).collect::<Vec<_>>().join(","))
    });
    assert_eq!(without, wanted);
    assert!(rows.iter().all(|row| row["policy"] == "adaptive"));

    // The help and the page about scenarios have the same names.
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/simulator.md");
    let page = std::fs::read_to_string(page).unwrap();
    let help = stdout(&["--help"]);
    for part in AdaptivePart::ALL {
        assert!(page.contains(&format!("`{}`", part.name())), "{part:?}");
        assert!(help.contains(part.name()), "{part:?}: {help}");
    }
}

#[test]
fn eviction_policies_run_below_each_policy() {
    let args = ["strided", "--policy", "linux-6", "--eviction", "lru", "two-lists"];
    let rows = json(&[&args[..], &["--json"]].concat());
    let named: Vec<_> = rows.iter().map(|row| row["eviction"].as_str().unwrap()).collect();
    assert_eq!(named, ["lru", "two-lists"]);
    let text = stdout(&args);
    assert!(text.contains("linux-6 128K, lru") && text.contains("linux-6 128K  "), "{text}");
}

#[test]
fn the_figures_of_the_literature_are_printed_as_a_document() {
    let text = stdout(&["random-64k", "--policy", "literature", "--markdown"]);
    for name in ["sarc 128K", "linux-6-folios 128K", "fsspec-adaptive 128K", "competitive "] {
        assert!(text.contains(&format!("\n| {name}")), "{name}: {text}");
    }
    assert!(text.starts_with("## Figures\n") && !text.contains("Where adaptive loses"), "{text}");
    assert!(text.contains("| x req |") && text.contains("| x MIN |"), "{text}");
}

#[test]
fn a_summary_has_a_line_for_each_scenario_with_the_best_of_the_others() {
    let args = ["heads", "strided", "--policy", "none", "fixed", "adaptive"];
    let rows = json(&[&args[..], &["--json"]].concat());
    let text = stdout(&[&args[..], &["--summary", "--markdown"]].concat());
    assert!(text.starts_with("## All scenarios\n"), "{text}");
    let (table, losses) = text.split_once("\n## Where a rival is ahead\n").unwrap();
    for scenario in ["heads", "strided"] {
        let line = table.lines().find(|line| line.starts_with(&format!("| {scenario} |")));
        let cells: Vec<_> = line.expect(scenario).split(" | ").collect();
        let of = |policy: &str, key: &str| {
            let row =
                rows.iter().find(|row| row["scenario"] == scenario && row["policy"] == policy);
            row.unwrap()[key].as_f64().unwrap()
        };
        let ours = ["mb_per_s", "waited_s"].map(|key| format!("{:.1}", of("adaptive", key)));
        assert_eq!([cells[1], cells[3]], [ours[0].as_str(), ours[1].as_str()]);
        let fastest: f64 = cells[2].rsplit(' ').next().unwrap().parse().unwrap();
        let most = of("none", "mb_per_s").max(of("fixed", "mb_per_s"));
        assert!(fastest >= most * 0.97, "{line:?}: {most} MB/s");
        let serving = ["none", "fixed"].into_iter();
        let serving = serving.filter(|p| of(p, "mb_per_s") >= of("adaptive", "mb_per_s") * 0.98);
        let least = serving.map(|policy| of(policy, "waited_s")).fold(f64::INFINITY, f64::min);
        let shown = cells[4].trim_end_matches(" |").rsplit(' ').next().unwrap();
        assert_eq!(shown, format!("{least:.1}"), "{line:?}");
    }
    assert!(losses.contains("\n- heads: ") && losses.contains("\nWhy:\n\n- `heads`: "), "{losses}");

    // On a terminal it is a table as well, with the same lines.
    let shown = stdout(&[&args[..], &["--summary"]].concat());
    assert!(shown.lines().nth(1).unwrap().starts_with("heads "), "{shown}");
    assert!(shown.contains("Where adaptive loses by more than 2 %"), "{shown}");
}

#[test]
fn the_literature_comes_beside_the_policies_that_are_named() {
    let args = ["strided", "--policy", "adaptive", "amp", "literature", "--json"];
    let rows = json(&args);
    let names: Vec<_> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["adaptive", "amp"], "the named ones first");
    assert_eq!(names.iter().filter(|name| **name == "amp").count(), 1, "{names:?}");
    assert!(names.contains(&"sarc") && !names.contains(&"linux-6"), "{names:?}");
}

#[test]
fn wrong_use_is_refused_with_the_choices() {
    assert!(refused(&["streaming-none"]).contains("streaming-fast"));
    assert!(refused(&["--policy", "best"]).contains("adaptive"));
    assert!(refused(&["--policy", "ablation", "none"]).contains("--policy ablation"));
    assert!(refused(&["--eviction", "best"]).contains("w-tinylfu"));
    assert!(refused(&["--markdown", "--json"]).contains("--json"));
    assert!(refused(&["--markdown", "--policy", "ablation"]).contains("--markdown"));
    assert!(refused(&["--summary", "--policy", "ablation"]).contains("--summary"));
    assert!(refused(&["--summary", "--json"]).contains("--json"));
    assert!(refused(&["--summary", "--policy", "none", "amp"]).contains("--policy"));
    assert!(refused(&["mine.toml"]).contains("'foreread-lab sim rivals --help'"));
}

#[test]
fn a_scenario_is_still_wanted_where_no_verb_is() {
    let output = said::foreread(&["sim"]);
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.contains("<SCENARIO>") && line.lines().count() == 1, "{line}");
}

#[test]
fn the_help_names_every_scenario() {
    let text = stdout(&["--help"]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scenarios/rivals");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(text.contains(name), "{name}");
        count += 1;
    }
    assert!(count >= 12, "{count} scenarios");
}

/// The page is written by a release build (it says how), since all of it takes minutes. What is
/// quick of it is compared here; if a change of its figures is meant, the page is to be written
/// again.
#[test]
fn the_page_is_what_the_command_prints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/rivals.md");
    let page = std::fs::read_to_string(page).unwrap();
    let text = stdout(&[&QUICK[..], &["--markdown"]].concat());
    let mut rows = 0;
    for section in text.split("\n### ").skip(1) {
        let table = section.split("\n## ").next().unwrap();
        assert!(page.contains(table.trim_end()), "docs/lab/rivals.md is not of today: {table}");
        rows += table.lines().filter(|line| line.starts_with("| ")).count();
    }
    assert!(rows > 3 * 8, "{rows} rows");
}

/// The list of losses comes from the same run as the tables above it.
#[test]
fn the_losses_on_the_page_are_figures_of_its_tables() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/rivals.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (tables, losses) = page.split_once("\n## Where adaptive loses\n").unwrap();
    let mut compared = 0;
    for loss in losses.lines().filter_map(|line| line.strip_prefix("- ")) {
        let Some((scenario, (figure, what))) =
            loss.split_once(": ").and_then(|(scenario, rest)| {
                Some((scenario, rest.split(',').next()?.split_once(' ')?))
            })
        else {
            continue;
        };
        let column = match what {
            "MB/s" => 3,
            "requests" => 4,
            "s of device time" => 7,
            "bytes per byte wanted" => 8,
            "unread pages evicted" => 10,
            "s waited" => 11,
            _ => continue,
        };
        let table = tables.split(&format!("\n### {scenario}\n")).nth(1).expect(scenario);
        let row = table.lines().find(|line| line.starts_with("| adaptive |")).expect(scenario);
        let cell = row.split('|').nth(column).unwrap().trim();
        // Half of the last digit that the table has.
        let decimals = cell.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let rounding = 0.51 / 10_f64.powi(decimals.try_into().unwrap());
        let (value, figure): (f64, f64) = (cell.parse().unwrap(), figure.parse().unwrap());
        assert!((value - figure).abs() <= rounding, "{loss}: the table has {cell}");
        compared += 1;
    }
    assert!(compared >= 8, "{compared} losses");
}

/// The same of the page of the literature: of the scenarios of its two commands, some are quick.
#[test]
fn the_page_of_the_literature_is_what_its_commands_print() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/rivals-literature.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut commands = page.split("\nforeread-lab sim rivals ").skip(1).map(|rest| {
        let command = rest.split("```").next().unwrap().split_whitespace();
        command.filter(|word| *word != "\\").collect::<Vec<&str>>()
    });
    let (summary, figures) = (commands.next().unwrap(), commands.next().unwrap());

    let at = figures.iter().position(|word| word.starts_with('-')).unwrap();
    assert!(figures[..at].contains(&"heads"), "{figures:?}");
    let text = stdout(&[&["heads"], &figures[at..]].concat());
    let table = text.split("\n### ").nth(1).unwrap();
    assert!(
        page.contains(table.trim_end()),
        "docs/lab/rivals-literature.md is not of today: {table}"
    );
    assert!(table.lines().count() > 20, "{table}");

    assert!(summary.contains(&"--summary") && summary[0].starts_with('-'), "{summary:?}");
    let text = stdout(&[&QUICK[..], &summary[..]].concat());
    let lines = text.lines().filter(|line| QUICK.iter().any(|name| line.contains(name)));
    let lines: Vec<_> = lines.filter(|line| !line.contains(": open")).collect();
    assert!(lines.len() > QUICK.len(), "{text}");
    for line in lines {
        assert!(
            page.contains(&format!("\n{line}\n")),
            "docs/lab/rivals-literature.md lacks: {line}"
        );
    }
}
