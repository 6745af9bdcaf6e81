//! Pages of the commands beside `replay`.

use std::fs;
use std::path::Path;

use super::said::{foreread, one_reader, refused, stdout};
use super::{check, folder, look_once};

/// Runs a command that writes a page; an exit code of 1 is an answer, too.
fn page_of(args: &[&str], page: &Path, parts: &[&str], test: &str) {
    let args = [args, &["--html", page.to_str().unwrap()]].concat();
    let output = foreread(&args);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {output:?}");
    let html = check(page);
    for part in parts {
        assert!(html.contains(part), "{args:?}: {part}");
    }
    look_once(page, test);
}

#[test]
fn a_simulated_run_has_a_page() {
    let (_keep, folder) = folder();
    let scenario = folder.join("one.toml");
    fs::write(&scenario, one_reader(300)).unwrap();
    let scenario = scenario.to_str().unwrap();
    let parts = ["Throughput", "How long operations take", "look-up", "With 8M, linux-6 gives"];
    page_of(&["sim", scenario], &folder.join("sim.html"), &parts, "a_simulated_run_has_a_page");
    assert!(refused(&["sim", scenario, "--html", scenario]).contains("would replace the scenario"));
    let all = ["sim", scenario, "--policy", "none", "linux-6", "--memory", "4M", "8M"];
    let all = [&all[..], &["--max-window", "64K", "128K", "--seeds", "3"]].concat();
    let parts = [
        "Throughput",
        "with 4M",
        "linux-6 128K",
        "6 combinations with each",
        "paired by seed",
        // All its reads are at random.
        "With 4M, no policy is faster than none beyond the intervals.",
    ];
    page_of(&all, &folder.join("all.html"), &parts, "combinations_have_a_page");
}

#[test]
fn rivals_have_a_page() {
    let (_keep, folder) = folder();
    let rivals = ["sim", "rivals", "strided", "heads", "--policy", "none", "adaptive"];
    let parts = ["Throughput", "Waits", "adaptive loses", "x MIN", "400 clients that each read"];
    page_of(&rivals, &folder.join("rivals.html"), &parts, "rivals_have_a_page");
}

#[test]
fn a_measured_device_has_a_page_with_its_confidence_and_its_mark() {
    let (_keep, folder) = folder();
    let test = "a_measured_device_has_a_page_with_its_confidence_and_its_mark";
    let parts = ["Throughput over window", "==&gt; ", "fill=\"#1B5FAA\" points", "recommended"];
    page_of(
        &["tune", "--device", "sd-card", "--seconds", "15"],
        &folder.join("tune.html"),
        &parts,
        test,
    );
}

#[test]
fn measured_patterns_have_a_page() {
    let (_keep, folder) = folder();
    let file = folder.join("target");
    fs::File::create(&file).unwrap().set_len(256 << 20).unwrap();
    let target = file.to_str().unwrap();
    let bench = ["bench", target, "--pattern", "seq4k,hot4k", "--runs", "1"];
    let parts = ["Throughput", "Time of a cached read", "Beside the kernel"];
    page_of(&bench, &folder.join("bench.html"), &parts, "measured_patterns_have_a_page");
    assert!(refused(&[&bench[..], &["--html", target]].concat()).contains("would replace TARGET"));
    let flood = ["bench", target, "--pattern", "flood", "--overwrite", "--html", "x.html"];
    assert!(refused(&flood).contains("--html"));
}

#[test]
fn published_tables_have_a_page() {
    let (_keep, folder) = folder();
    let page = folder.join("seeds.html");
    let parts = ["published tables are reproduced", "How far ours is"];
    page_of(&["seeds", "004"], &page, &parts, "published_tables_have_a_page");
}

#[test]
fn examined_systems_have_a_page_alone_and_together() {
    let (_keep, folder) = folder();
    let test = "examined_systems_have_a_page_alone_and_together";
    page_of(&["doctor"], &folder.join("doctor.html"), &["Devices", "read_ahead_kb"], test);
    let report = foreread(&["doctor", "--json"]);
    let files = ["one.json", "two.json"].map(|name| folder.join(name));
    files.iter().for_each(|file| fs::write(file, &report.stdout).unwrap());
    let [one, two] = files.each_ref().map(|file| file.to_str().unwrap());
    let merge = ["doctor", "merge", one, two];
    page_of(&merge, &folder.join("fleet.html"), &["of 2 machines", "Class A"], test);
    // Any page of foreread is an earlier page.
    let page = folder.join("fleet.html");
    stdout(&["seeds", "004", "--html", page.to_str().unwrap()]);
    assert!(check(&page).contains("foreread-lab seeds"));
}
