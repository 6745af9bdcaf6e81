//! Scenarios that are wrong: each is refused with its line and what could stand there.

use foreread_sim::scenario::Scenario;

/// A scenario with one of each thing. A test replaces the line that begins like its own.
const GOOD: &str = r#"name = "one of each"
seed = 7
until_s = 100.0

[cache]
memory = "64M"
policy = "linux-6"
eviction = "s3-fifo"
max_window = "128K"
rules = ["lseek"]

[device.disk]
model.flash = { capacity = "1G", mb_per_s = 100.0 }
scheduler.deadline = { fifo_batch = 16 }

[file.data]
device = "disk"
at = "1M"
size = "64M"

[[process]]
name = "dd"
count = 2
start_ms = 1.5
run.sequential = { file = "data", read = "64K" }
"#;

/// The good one with the line of the same key replaced, and the number of that line.
fn with(line: &str) -> (String, usize) {
    let key = |line: &str| line.split(['=', '.']).next().unwrap_or_default().trim().to_owned();
    let index = GOOD.lines().position(|good| key(good) == key(line)).expect("such a line");
    let lines = GOOD.lines().enumerate();
    let text = lines.map(|(at, good)| format!("{}\n", if at == index { line } else { good }));
    (text.collect(), index + 1)
}

/// The good one with a line more behind the line that begins so, and the number of the new one.
fn with_more(behind: &str, line: &str) -> (String, usize) {
    let index = GOOD.lines().position(|good| good.starts_with(behind)).expect("such a line");
    let mut lines: Vec<_> = GOOD.lines().collect();
    lines.insert(index + 1, line);
    (lines.join("\n"), index + 2)
}

#[track_caller]
fn assert_refused((text, line): (String, usize), wants: &[&str]) {
    let error = Scenario::parse(&text).map(drop).expect_err(&text).to_string();
    println!("{error}");
    let begins = format!("line {line}: ");
    assert!(error.starts_with(&begins), "wanted {begins:?}: {error}");
    for want in wants {
        assert!(error.contains(want), "wanted {want:?}: {error}");
    }
}

#[test]
fn the_good_one_is_good() {
    let scenario = Scenario::parse(GOOD).expect("nothing is wrong");
    assert_eq!(scenario.seed, 7);
    assert_eq!(scenario.process[0].count, 2);
}

#[test]
fn an_unknown_key_names_the_keys() {
    let wants = ["`sed`", "`seed`", "`until_s`"];
    assert_refused(with_more("seed", "sed = 8"), &wants);
    let wants = ["`windows`", "`memory`", "`policy`", "`max_window`", "`rules`", "`without`"];
    assert_refused(with_more("memory", "windows = 3"), &wants);
    assert_refused(with_more("at", "sise = '1M'"), &["`sise`", "`device`", "`at`", "`size`"]);
    let wants = ["`start`", "`count`", "`start_ms`", "`run`"];
    assert_refused(with_more("count", "start = 3"), &wants);
    assert_refused(with_more("model", "queue = 3"), &["`queue`", "`model`", "`scheduler`"]);
}

#[test]
fn an_unknown_key_of_a_model_or_a_workload_names_the_keys() {
    let line = "model.flash = { capacity = '1G', mb_per_s = 100.0, chanels = 2 }";
    assert_refused(with(line), &["`chanels`", "`channels`", "`overhead_us`"]);
    let line = "run.sequential = { file = 'data', speed = 3 }";
    assert_refused(with(line), &["`speed`", "`kib_per_s`", "`cpu_us`"]);
}

#[test]
fn an_unknown_unit_names_the_units() {
    assert_refused(with("memory = '64X'"), &["64X", "K, M, G or T"]);
    assert_refused(with("memory = '64KB'"), &["64KB", "powers of 1024"]);
    assert_refused(with("size = '1.5M'"), &["1.5M", "not a size"]);
    assert_refused(with("size = -1"), &["-1", "a size is not negative"]);
    assert_refused(with("size = true"), &["a size such as 4096"]);
    let wants = ["5000", "must be a multiple of 4K: 4K or 8K; or \"auto\""];
    assert_refused(with("max_window = '5000'"), &wants);
    assert_refused(with("max_window = 0"), &["must be a multiple of 4K: at least 4K"]);
}

#[test]
fn an_unknown_policy_names_the_policies() {
    let wants = ["linux-7", "none", "linux-2.6.28", "linux-6", "adaptive"];
    assert_refused(with("policy = 'linux-7'"), &wants);
    assert_refused(with("eviction = 'mru'"), &["mru", "lru", "s3-fifo", "two-lists"]);
    assert_refused(with("rules = ['seek']"), &["seek", "lseek", "snap-eof", "backwards"]);
}

#[test]
fn an_unknown_device_names_the_devices() {
    assert_refused(with("model = 'floppy'"), &["floppy", "sd-card", "intel-x25m-80g"]);
    assert_refused(with("model.tape = { capacity = '1G' }"), &["tape", "hdd", "flash", "mapped"]);
    assert_refused(with("model = 3"), &["the name of a device"]);
    assert_refused(with("device = 'dusk'"), &["no device \"dusk\"", "choose one of disk"]);
}

#[test]
fn an_unknown_scheduler_or_setting_names_the_choices() {
    assert_refused(with("scheduler = 'bfq'"), &["bfq", "noop", "deadline"]);
    let wants = ["fifo_bach", "fifo_batch", "read_expire"];
    assert_refused(with("scheduler.deadline = { fifo_bach = 16 }"), &wants);
    assert_refused(
        with("scheduler.deadline = { fifo_batch = 'many' }"),
        &["many", "must be a number"],
    );
    assert_refused(with("scheduler.noop = { fifo_batch = 16 }"), &["this scheduler has none"]);
    let both = "scheduler = { noop = {}, deadline = {} }";
    assert_refused(with(both), &["a device has one scheduler"]);
}

#[test]
fn an_unknown_workload_or_file_names_the_choices() {
    let wants = ["tar", "sequential", "random", "blkid", "interleaved"];
    assert_refused(with("run.tar = { file = 'data' }"), &wants);
    let wants = ["no file \"date\"", "choose one of data"];
    for workload in ["sequential", "blkid", "interleaved"] {
        assert_refused(with(&format!("run.{workload} = {{ file = 'date' }}")), &wants);
    }
    assert_refused(with("run.random = { file = 'date', read = '4K' }"), &wants);
}

#[test]
fn a_time_that_cannot_be_is_refused() {
    let wants = ["start_ms: must be a time from 0"];
    assert_refused(with_at("start_ms = -1.0", "run"), &wants);
    assert_refused(with_at("start_ms = nan", "run"), &wants);
    let line = "run.sequential = { file = 'data', cpu_us = -1.0 }";
    assert_refused(with(line), &["cpu_us: must be a time"]);
    let line = "run.random = { file = 'data', read = '4K', cpu_ns_per_byte = inf }";
    assert_refused(with(line), &["cpu_ns_per_byte: must be a time"]);
    assert_refused(with("until_s = -1.0"), &["until_s: must be a time"]);
}

/// As [`with`]; but what is wrong with a process is told at what it runs.
fn with_at(line: &str, told_at: &str) -> (String, usize) {
    let (text, _) = with(line);
    let at = text.lines().position(|line| line.starts_with(told_at)).expect("such a line");
    (text, at + 1)
}

#[test]
fn what_cannot_be_expected_of_a_device_names_the_key() {
    let all = ["window = '1M'", "request_ms = 40.0", "mb_per_s = 66.0", "parallel = 32"];
    let with_expected = |place: usize, wrong: &str| {
        let mut keys = all;
        keys[place] = wrong;
        with_more("model.flash", &format!("expected = {{ {} }}", keys.join(", ")))
    };
    Scenario::parse(&with_expected(0, all[0]).0).expect("a device may be like this");
    for window in ["'1'", "4095", "'1s'", "'2G'", "'12K'", "0"] {
        let wants = ["expected: window: must be a power of two from 4K to 1G"];
        assert_refused(with_expected(0, &format!("window = {window}")), &wants);
    }
    for (place, key, values) in [
        (1, "request_ms", &["0.0", "-1.0", "nan", "inf", "1e9"][..]),
        (2, "mb_per_s", &["0.0", "inf", "nan", "-3.0"]),
        (3, "parallel", &["0", "100000"]),
    ] {
        for value in values {
            let wants = format!("expected: {key}: must be ");
            assert_refused(with_expected(place, &format!("{key} = {value}")), &[&wants]);
        }
    }
}

#[test]
fn a_file_lies_on_its_device() {
    let at_device = |line| with_at(line, "device = ");
    assert_refused(at_device("size = '2G'"), &["the file ends behind its device", "1073741824"]);
    assert_refused(at_device("at = '1000M'"), &["the file ends behind its device"]);
    assert_refused(at_device("at = '3s'"), &["at: must be a multiple of 4K"]);
}

#[test]
fn a_workload_that_makes_no_sense_says_what_would() {
    let cases = [
        ("run.sequential = { file = 'data', read = 0 }", "read: must be at least a byte"),
        ("run.sequential = { file = 'data', kib_per_s = 0.0 }", "kib_per_s: must be 0.001 to 10^9"),
        (
            "run.random = { file = 'data', read = 100 }",
            "read: must be a positive multiple of 512 bytes",
        ),
        (
            "run.random = { file = 'data', read = '128M' }",
            "read: must be at most the size of the file",
        ),
        (
            "run.random = { file = 'data', read = '4K', write = true }",
            "write: must be false without direct = true",
        ),
        ("run.interleaved = { file = 'data', streams = 0 }", "streams: must be 1 to 65536"),
        ("run.interleaved = { file = 'data', read = '33M' }", "read: must be at most a stream"),
        ("run.interleaved = { file = 'data', pages = [16384] }", "pages: must be within the file"),
        ("run.interleaved = { file = 'data', pages = ['3+0'] }", "must be PAGE or PAGE+COUNT"),
        ("run.interleaved = { file = 'data', pages = [-3] }", "must be PAGE or PAGE+COUNT"),
        (
            "run.interleaved = { file = 'data', pages = [1], reads = 3 }",
            "reads: must be absent when pages is given",
        ),
    ];
    for (line, want) in cases {
        assert_refused(with(line), &[want]);
    }
    assert_refused(with_at("count = 0", "run"), &["count: must be 1 to 100000"]);
}

#[test]
fn what_never_ends_is_refused() {
    let (text, line) = with("run.random = { file = 'data', read = '4K', cpu_us = 1.0 }");
    assert!(Scenario::parse(&text).is_ok(), "the scenario ends it");
    let text = text.replace("until_s = 100.0", "");
    assert_refused((text, line), &["reads: must be set, unless the scenario has until_s"]);
}

/// The whole file comes to lie in the cache: then each read is a hit, and takes no time.
#[test]
fn reads_in_no_time_without_a_number_are_refused() {
    let line = "run.random = { file = 'data', read = '4K' }";
    assert_refused(with(line), &["cpu_us: must be more than 0, or reads be given"]);
    let (text, _) = with(line);
    let smaller = text.replace("memory = \"64M\"", "memory = \"63M\"");
    for good in [
        smaller,
        with("run.random = { file = 'data', read = '4K', direct = true }").0,
        with("run.random = { file = 'data', read = '4K', reads = 9 }").0,
    ] {
        assert!(Scenario::parse(&good).is_ok(), "{:?}", Scenario::parse(&good).map(drop));
    }
}

/// Each draws from numbers of its name, so two of one name would read the same places.
#[test]
fn two_processes_of_one_name_are_refused() {
    let more = |name: &str| {
        let process = format!("\n[[process]]\nname = '{name}'\nrun.blkid = {{ file = 'data' }}\n");
        (format!("{GOOD}{process}"), GOOD.lines().count() + 4)
    };
    assert_refused(more("dd-1"), &["name: \"dd-1\" is already the name of a process"]);
    for name in ["dd", "dd-2"] {
        assert!(Scenario::parse(&more(name).0).is_ok(), "two dd are dd-0 and dd-1");
    }
}

#[test]
fn an_impossible_model_is_refused_where_it_stands() {
    let line = "model.flash = { capacity = '1G', mb_per_s = -1.0 }";
    assert_refused(with(line), &["mb_per_s: must be 0.001 to 1000000"]);
    let line = "model.flash = { capacity = '1G' }";
    assert_refused(with(line), &["missing field `mb_per_s`"]);
}

#[test]
fn too_little_memory_is_refused() {
    assert_refused(with("memory = '64K'"), &["memory: must be at least"]);
    let head = "name = 'x'\ncache = { policy = 'none', memory = '64K' }\n";
    let rest = &GOOD[GOOD.find("[device").expect("it is there")..];
    assert_refused((format!("{head}{rest}"), 2), &["memory: must be at least"]);
}

#[test]
fn too_much_memory_is_refused() {
    for memory in ["8T", "1000000T"] {
        assert_refused(with(&format!("memory = '{memory}'")), &["memory: must be at most"]);
    }
}

#[test]
fn what_is_no_toml_is_refused_at_its_line() {
    assert_refused(with("policy = linux-6"), &[]);
}

#[test]
fn the_example_of_the_document_is_good() {
    let document = include_str!("../../../../docs/lab/simulator.md");
    let mut examples = 0;
    for example in document.split("```toml\n").skip(1) {
        let text = example.split("```").next().expect("it ends");
        assert!(Scenario::parse(text).is_ok(), "{:?}", Scenario::parse(text).map(drop));
        examples += 1;
    }
    assert_eq!(examples, 1);
}

/// The document has each key of the messages that name all keys.
#[test]
fn the_document_has_every_key() {
    let document = include_str!("../../../../docs/lab/simulator.md");
    let keys_of = |(text, _): (String, usize)| {
        let error = Scenario::parse(&text).map(drop).expect_err(&text).to_string();
        let names = error.split_once("expected").expect("it names the choices").1.to_owned();
        let keys = names.split('`').skip(1).step_by(2).map(str::to_owned);
        keys.collect::<Vec<_>>()
    };
    let cases = [
        with_more("seed", "x = 1"),
        with_more("memory", "x = 1"),
        with_more("model", "x = 1"),
        with_more("at", "x = 1"),
        with_more("count", "x = 1"),
        with("model.flash = { x = 1 }"),
        with("model.hdd = { x = 1 }"),
        with("model.mapped = { x = 1 }"),
        with("run.sequential = { x = 1 }"),
        with("run.random = { x = 1 }"),
        with("run.interleaved = { x = 1 }"),
        with("run.blkid = { x = 1 }"),
        with("run.find = { x = 1 }"),
        with("run.git-status = { x = 1 }"),
        with("run.flood = { x = 1 }"),
        with("run.cat-dir = { x = 1 }"),
        with("run.capture = { x = 1 }"),
        with("run.nfsd = { x = 1 }"),
        with("run.streaming = { x = 1 }"),
        with("run.streaming = { changes = [{ x = 1 }] }"),
        with("run.streaming = { kib_per_s = { x = 1 } }"),
        with_more("model", "change = [{ x = 1 }]"),
    ];
    let mut count = 0;
    for key in cases.into_iter().flat_map(keys_of) {
        let is_there = document.contains(&format!("`{key}`"));
        let is_a_table = ["cache", "device", "file", "process"].contains(&key.as_str());
        assert!(is_there || is_a_table, "docs/lab/simulator.md says nothing of `{key}`");
        count += 1;
    }
    assert!(count > 60, "{count} keys");
}

/// Every scenario that comes with the program can be read, and ends.
#[test]
fn those_that_come_with_the_program_are_good() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let files = |folder: &str| std::fs::read_dir(folder).expect("a folder");
    let mut count = 0;
    for entry in files(folder).chain(files(&format!("{folder}/rivals"))) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let scenario = Scenario::parse(&text);
        assert!(scenario.is_ok(), "{}: {}", path.display(), scenario.expect_err("it is wrong"));
        count += 1;
    }
    assert!(count >= 30, "{count} scenarios");
}
