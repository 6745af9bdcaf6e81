//! `explain readahead`: the core's golden traces, through the command line.

use std::collections::BTreeMap;

use serde_json::json;

use crate::run::{json_of, lines, words};

const READAHEAD_CSV: &str = include_str!("../../../core/tests/golden/readahead.csv");
const NFSD_TRACE: &str = include_str!("../../../core/tests/golden/nfsd.trace");

#[test]
fn the_nfsd_trace_of_2009_comes_out_line_for_line() {
    let want: Vec<_> = NFSD_TRACE.lines().filter(|line| !line.starts_with('#')).collect();
    for policy in ["linux-2.6.28", "linux-2.6.31", "linux-6"] {
        let reads: Vec<_> = (2..48).map(|index| format!("{}+32", index * 32)).collect();
        let mut args = words("explain readahead --max-pages 256 --policy");
        args.extend([policy, "0+64"]);
        args.extend(reads.iter().map(String::as_str));
        assert_eq!(lines(&args), want, "{policy}");
    }
}

#[test]
fn twelve_pages_ahead_of_twenty_six_behind_bring_fourteen_new_ones() {
    let args = words("explain readahead --policy thrash-2009 --resident 0..39 --mark 26 26+1");
    assert_eq!(lines(&args), ["context(req=26+1, ra=39+14-14, async=1) = 14"]);
}

#[test]
fn a_random_read_prints_what_it_submits_clipped_at_the_end_of_the_file() {
    let want = ["random(req=10+37, ra=10+27-0, async=0) = 27"];
    for policy in ["none", "linux-2.6.28", "linux-2.6.31", "linux-6", "thrash-2009"] {
        let mut args = words("explain readahead --max-pages 64 --file-pages 37 10+37 --policy");
        args.push(policy);
        assert_eq!(lines(&args), want, "{policy}");
    }
    let args = words("explain readahead --max-pages 64 --file-bytes 147457 10+37");
    assert_eq!(lines(&args), want, "36 pages and one byte");
}

#[test]
fn streams_print_their_names_and_a_reader_without_one_prints_bare() {
    let args = words("explain readahead t0:0+16 t1:16+16 0+1 500+1");
    assert_eq!(
        lines(&args),
        [
            "initial0@t0(req=0+16, ra=0+32-16, async=0) = 32",
            "interleaved@t1(req=16+16, ra=32+32-32, async=1) = 32",
            "random(req=500+1, ra=500+1-0, async=0) = 1",
        ]
    );
}

#[test]
fn a_second_read_at_the_start_is_random_only_in_2_6_28() {
    let of = |policy| {
        let mut args = words("explain readahead 99990+1 0+1 --policy");
        args.push(policy);
        lines(&args)[1].clone()
    };
    assert_eq!(of("linux-2.6.28"), "random(req=0+1, ra=0+1-0, async=0) = 1");
    for policy in ["linux-2.6.31", "linux-6"] {
        assert_eq!(of(policy), "initial0(req=0+1, ra=0+4-3, async=0) = 4");
    }
}

#[test]
fn blkid_on_a_small_device_reads_112_kib_where_it_wants_17() {
    for policy in ["linux-2.6.28", "linux-2.6.31", "linux-6"] {
        let mut args = words("explain readahead @0:1024 @1536:16384 --policy");
        args.push(policy);
        assert_eq!(
            lines(&args),
            [
                "initial0(req=0+1, ra=0+4-3, async=0) = 4",
                "subsequent(req=1+4, ra=4+8-8, async=1) = 8",
                "subsequent(req=4+1, ra=12+16-16, async=1) = 16",
            ],
            "{policy}"
        );
    }
}

#[test]
fn a_read_of_nothing_or_past_the_end_asks_nothing() {
    for reads in ["0+0", "@5:0", "10+1", "@40960:1", "@36865:100", "99999+5"] {
        let mut args = words("explain readahead --file-bytes 36865");
        args.push(reads);
        assert_eq!(lines(&args), Vec::<String>::new(), "{reads}");
    }
    assert_eq!(lines(&words("explain readahead --file-pages 0 0+1")), Vec::<String>::new());
    // Nor does it move its stream: page 8 follows page 7, whatever was not read in between.
    let args =
        words("explain readahead --policy linux-2.6.28 --max-pages 1 7+1 @99999999999:0 8+1");
    assert_eq!(lines(&args)[1], "initial(req=8+1, ra=8+1-1, async=0) = 1");
}

#[test]
fn the_last_byte_of_the_longest_file_can_be_read() {
    assert_eq!(
        lines(&words("explain readahead @9223372036854775806:1")),
        ["random(req=2251799813685247+1, ra=2251799813685247+1-0, async=0) = 1"]
    );
    assert_eq!(
        lines(&words(
            "explain readahead --policy linux-2.6.31 2251799813685246+1 2251799813685247+1"
        )),
        [
            "random(req=2251799813685246+1, ra=2251799813685246+1-0, async=0) = 1",
            "initial(req=2251799813685247+1, ra=2251799813685247+4-3, async=0) = 1",
        ]
    );
}

#[test]
fn every_golden_decision_of_three_kernels_comes_out_of_the_command_line() {
    let mut golden: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for line in READAHEAD_CSV.lines().skip(1) {
        let (scenario, version, want) = golden_line(line);
        golden.entry((scenario, version)).or_default().push(want);
    }
    assert_eq!(golden.values().map(Vec::len).sum::<usize>(), 404, "rows are missing");

    for ((scenario, version), want) in &golden {
        let policy = match version.as_str() {
            "A" => "linux-2.6.28",
            "B" => "linux-2.6.31",
            "D" => "linux-6",
            other => panic!("{scenario}: no policy for version {other}"),
        };
        let (flags, reads) = golden_input(scenario);
        let mut args = words("explain readahead --policy");
        args.push(policy);
        args.extend(words(flags));
        args.extend(reads.iter().map(String::as_str));
        let mut got = lines(&args);
        // Of these the file lists the first decisions of a longer run.
        if ["S1 ", "S2 ", "T0 "].iter().any(|cut| scenario.starts_with(cut)) {
            got.truncate(want.len());
        }
        assert_eq!(got, *want, "{scenario}, {policy}");
    }
}

/// A row as the command prints it, with its scenario and version.
fn golden_line(row: &str) -> (String, String, String) {
    let (scenario, rest) = match row.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\",").unwrap(),
        None => row.split_once(',').unwrap(),
    };
    let cells: Vec<_> = rest.split(',').collect();
    let [version, _, pattern, page, count, start, size, tail, is_async, submitted, _] = cells[..]
    else {
        panic!("{row}");
    };
    let window = match pattern.split('@').next() {
        Some("random") => format!("{page}+{submitted}-0"),
        Some(_) | None => format!("{start}+{size}-{tail}"),
    };
    let line =
        format!("{pattern}(req={page}+{count}, ra={window}, async={is_async}) = {submitted}");
    (scenario.to_owned(), version.to_owned(), line)
}

/// The flags and reads of a scenario, as crates/core/tests/golden/README.md lists them.
fn golden_input(scenario: &str) -> (&'static str, Vec<String>) {
    let pages = |pages: &[u64]| pages.iter().map(|page| format!("{page}+1")).collect::<Vec<_>>();
    let row = |count: u64, size: u64| {
        (0..count).map(|index| format!("{}+{size}", index * size)).collect::<Vec<_>>()
    };
    let in_turns = |reads: Vec<String>| {
        reads.iter().enumerate().map(|(i, read)| format!("t{}:{read}", i % 4)).collect::<Vec<_>>()
    };
    let blkid = || words("@0:1024 @1536:16384").into_iter().map(str::to_owned).collect();
    match scenario.split(' ').next().unwrap() {
        "S1" => ("", row(200, 1)),
        "S2" => ("--max-pages 256", row(1200, 1)),
        "S3" => ("", (1..=24).flat_map(|i| pages(&[i, 1000 + i])).collect()),
        "S3b" => ("", pages(&[1, 1001, 2, 1002, 3, 4, 1003, 5, 1004, 1005, 6])),
        "S4" => ("", in_turns(row(20, 16))),
        "S4b" => ("--max-pages 256", in_turns(row(20, 64))),
        "S5" => ("", pages(&[100, 99, 98, 97, 96, 95, 94, 93])),
        "S7" => ("", pages(&[5000, 70, 9000, 71, 333, 12345, 334, 335])),
        "S8" => ("", vec!["0+256".to_owned()]),
        "S8c" => ("--io-pages 320", vec!["1000+256".to_owned()]),
        "S10" => ("--file-pages 64", [row(64, 1), row(64, 1)].concat()),
        "S11" => ("--file-pages 10", row(10, 1)),
        "S11b" => ("--file-pages 3", row(3, 1)),
        "S13" => ("", (0..60).map(|index| format!("@{}:1000", index * 1000)).collect()),
        "T0" => {
            let rest = row(60, 32).into_iter().skip(2);
            ("--max-pages 256", ["0+64".to_owned()].into_iter().chain(rest).collect())
        }
        "blkid" => match scenario {
            "blkid max1 io_pages0" => ("--max-pages 1", blkid()),
            "blkid max1 io_pages30" => ("--max-pages 1 --io-pages 30", blkid()),
            "blkid max2 io_pages0" => ("--max-pages 2", blkid()),
            "blkid max32 io_pages0" => ("--max-pages 32", blkid()),
            _ => panic!("no input for {scenario}"),
        },
        _ => panic!("no input for {scenario}"),
    }
}

#[test]
fn decisions_as_json_say_what_the_lines_say() {
    let flags = "explain readahead t0:0+16 t1:16+16 500+1";
    let mut args = words(flags);
    args.push("--json");
    let got = json_of(&args);
    let want = json!([
        {"stream": "t0", "pattern": "initial0", "req_page": 0, "req_pages": 16,
         "ra_start": 0, "ra_size": 32, "ra_async": 16, "async": false, "submitted": 32},
        {"stream": "t1", "pattern": "interleaved", "req_page": 16, "req_pages": 16,
         "ra_start": 32, "ra_size": 32, "ra_async": 32, "async": true, "submitted": 32},
        {"stream": null, "pattern": "random", "req_page": 500, "req_pages": 1,
         "ra_start": 500, "ra_size": 1, "ra_async": 0, "async": false, "submitted": 1},
    ]);
    assert_eq!(got, want);
    assert_eq!(json_of(&words("explain readahead --json --file-pages 1 5+1")), json!([]));
}

#[test]
fn a_picture_stands_under_the_lines_and_only_when_asked_for() {
    let flags = "explain readahead --policy thrash-2009 --resident 0..39 --mark 26 26+1";
    let mut args = words(flags);
    args.push("--picture");
    assert_eq!(
        lines(&args),
        [
            "context(req=26+1, ra=39+14-14, async=1) = 14",
            "",
            "  0",
            "  ==========================#============M+++++++++++++  context",
            "  # asked for  + read  M read and marked  = resident; a column is a page",
        ]
    );
    assert_eq!(lines(&words(flags)).len(), 1);
}
