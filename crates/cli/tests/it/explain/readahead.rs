//! `explain readahead`: the core's golden traces, through the command line.

use std::collections::BTreeMap;

use serde_json::json;

use crate::explain::run::{json_of, lines, words};

const READAHEAD_CSV: &str = include_str!("../../../../sim/tests/golden/readahead.csv");
const NFSD_TRACE: &str = include_str!("../../../../sim/tests/golden/nfsd.trace");

#[test]
fn the_nfsd_trace_of_2009_comes_out_line_for_line() {
    let want: Vec<_> = NFSD_TRACE.lines().filter(|line| !line.starts_with('#')).collect();
    for policy in ["linux-2.6.28", "linux-2.6.31", "linux-6", "adaptive"] {
        let reads: Vec<_> = (2..48).map(|index| format!("{}+32", index * 32)).collect();
        let mut args = words("explain readahead --max-pages 256 --policy");
        args.extend([policy, "0+64"]);
        args.extend(reads.iter().map(String::as_str));
        assert_eq!(lines(&args), want, "{policy}");
    }
}

#[test]
fn twelve_pages_ahead_of_twenty_six_behind_bring_fourteen_new_ones() {
    let args = words("explain readahead --policy thrash-2009 --resident 0..39@26 26+1");
    assert_eq!(lines(&args), ["context(req=26+1, ra=39+14-14, async=1) = 14"]);
}

#[test]
fn a_random_read_prints_what_it_submits_clipped_at_the_end_of_the_file() {
    let want = ["random(req=10+37, ra=10+27-0, async=0) = 27"];
    let thrash = ["thrash-2009", "thrash-2010", "fixed", "distance"];
    for policy in
        ["none", "linux-2.6.28", "linux-2.6.31", "linux-6", "adaptive"].iter().chain(&thrash)
    {
        let mut args = words("explain readahead --max-pages 64 --file-bytes 148K 10+37 --policy");
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
            "subsequent@t1(req=16+16, ra=32+32-32, async=1) = 32",
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
    for policy in ["linux-2.6.31", "linux-6", "adaptive"] {
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
    assert_eq!(lines(&words("explain readahead --file-bytes 0 0+1")), Vec::<String>::new());
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

/// The flags and reads of a scenario, as crates/sim/tests/golden/README.md lists them.
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
        "S10" => ("--file-bytes 256K", [row(64, 1), row(64, 1)].concat()),
        "S11" => ("--file-bytes 40K", row(10, 1)),
        "S11b" => ("--file-bytes 12K", row(3, 1)),
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
        {"stream": "t1", "pattern": "subsequent", "req_page": 16, "req_pages": 16,
         "ra_start": 32, "ra_size": 32, "ra_async": 32, "async": true, "submitted": 32},
        {"stream": null, "pattern": "random", "req_page": 500, "req_pages": 1,
         "ra_start": 500, "ra_size": 1, "ra_async": 0, "async": false, "submitted": 1},
    ]);
    assert_eq!(got, want);
    assert_eq!(json_of(&words("explain readahead --json --file-bytes 4K 5+1")), json!([]));
}

#[test]
fn a_picture_stands_under_the_lines_and_only_when_asked_for() {
    let flags = "explain readahead --policy thrash-2009 --resident 0..39@26 26+1";
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

#[test]
fn the_default_policy_finds_streams_by_where_they_read() {
    let reads = "1+1 1001+1 2+1 1002+1 3+1 1003+1";
    let want = [
        "random(req=1+1, ra=1+1-0, async=0) = 1",
        "random(req=1001+1, ra=1001+1-0, async=0) = 1",
        "initial(req=2+1, ra=2+4-3, async=0) = 4",
        "initial(req=1002+1, ra=1002+4-3, async=0) = 4",
        "subsequent(req=3+1, ra=6+8-8, async=1) = 8",
        "subsequent(req=1003+1, ra=1006+8-8, async=1) = 8",
    ];
    for policy in ["", "--policy adaptive"] {
        assert_eq!(lines(&words(&format!("explain readahead {policy} {reads}"))), want);
    }
    // And through any handle.
    let names = reads.split(' ').enumerate().map(|(i, read)| format!("t{i}:{read}"));
    let line = format!("explain readahead {}", names.collect::<Vec<_>>().join(" "));
    let bare: Vec<_> = lines(&words(&line)).iter().map(|line| without_name(line)).collect();
    assert_eq!(bare, want);
}

/// `initial@t2(..)` as `initial(..)`.
fn without_name(line: &str) -> String {
    let (pattern, rest) = line.split_once('@').unwrap();
    format!("{pattern}{}", &rest[rest.find('(').unwrap()..])
}

#[test]
fn a_seek_to_the_start_is_no_stream_by_the_rule_lseek_and_only_after_a_seek() {
    let looked =
        ["random(req=0+1, ra=0+1-0, async=0) = 1", "initial(req=1+4, ra=1+8-4, async=0) = 8"];
    let rule = "explain readahead --rule lseek";
    assert_eq!(lines(&words(&format!("{rule} seek:@0:1024 seek:@1536:16384"))), looked);
    let start = "initial0(req=0+1, ra=0+4-3, async=0) = 4";
    assert_eq!(lines(&words(&format!("{rule} @0:1024")))[0], start);
    assert_eq!(lines(&words("explain readahead seek:@0:1024"))[0], start);
    // Of another stream, or before another read, a seek says nothing.
    assert_eq!(
        lines(&words(&format!("{rule} a:seek:50+1 b:0+1 a:1000+1 a:2000+1"))),
        [
            "random@a(req=50+1, ra=50+1-0, async=0) = 1",
            "initial0@b(req=0+1, ra=0+4-3, async=0) = 4",
            "random@a(req=1000+1, ra=1000+1-0, async=0) = 1",
            "random@a(req=2000+1, ra=2000+1-0, async=0) = 1",
        ]
    );
    assert_eq!(
        lines(&words(&format!("{rule} a:seek:50+1 a:0+1")))[1],
        "initial0@a(req=0+1, ra=0+4-3, async=0) = 4"
    );
}

#[test]
fn a_file_that_is_read_from_its_end_has_windows_by_the_rule_backwards() {
    let reads = "100+8 92+8 84+8 76+8 68+8 60+8 52+8";
    let args = format!("explain readahead --rule snap-eof,backwards {reads}");
    assert_eq!(
        lines(&words(&args)),
        [
            "random(req=100+8, ra=100+8-0, async=0) = 8",
            "backwards(req=92+8, ra=84+16-0, async=0) = 16",
            "backwards(req=76+8, ra=52+32-0, async=0) = 32",
        ]
    );
    // `adaptive` sees such a stream by itself; `linux-6` does not.
    let off = args.replace("snap-eof,backwards", "snap-eof --policy linux-6");
    assert_eq!(lines(&words(&off)).len(), 7);
    let args = args.replace("snap-eof,backwards", "snap-eof --rule backwards");
    assert_eq!(lines(&words(&args)).len(), 3);
}

#[test]
fn a_small_rest_of_the_file_is_taken_along_by_the_rule_snap_eof() {
    let of =
        |flags: &str| lines(&words(&format!("explain readahead --file-bytes 20K {flags} 0+1")));
    assert_eq!(of("--rule snap-eof"), ["initial0(req=0+1, ra=0+5-0, async=0) = 5"]);
    assert_eq!(of(""), ["initial0(req=0+1, ra=0+4-3, async=0) = 4"]);
    assert_eq!(of("--rule snap-eof --max-pages 4"), ["initial0(req=0+1, ra=0+2-1, async=0) = 2"]);
}

#[test]
fn advice_holds_for_its_stream_from_where_it_stands() {
    let line = "explain readahead 0+1 1+1 advise:random 4+2 12+1 b:4+1 \
                advise:normal 20+1 100+1 101+1";
    assert_eq!(
        lines(&words(line)),
        [
            "initial0(req=0+1, ra=0+4-3, async=0) = 4",
            "subsequent(req=1+1, ra=4+8-8, async=1) = 8",
            // The marker on page 4 was left for another.
            "random(req=12+1, ra=12+1-0, async=0) = 1",
            "subsequent@b(req=4+1, ra=13+16-16, async=1) = 16",
            "random(req=100+1, ra=100+1-0, async=0) = 1",
            "initial(req=101+1, ra=101+4-3, async=0) = 4",
        ]
    );
    let sequential = lines(&words("explain readahead advise:sequential 0+64"));
    assert_eq!(sequential, lines(&words("explain readahead --max-pages 64 0+64")));
    let blkid = lines(&words("explain readahead advise:random @0:1024 @1536:16384"));
    assert_eq!(
        blkid,
        ["random(req=0+1, ra=0+1-0, async=0) = 1", "random(req=1+4, ra=1+4-0, async=0) = 4"]
    );
}

#[test]
fn a_hint_brings_pages_and_prints_nothing() {
    assert_eq!(lines(&words("explain readahead hint:100+8 100+4 104+4")), Vec::<String>::new());
    let args = words("explain readahead --picture --file-bytes 420K hint:100+3 hint:104+9 99+6");
    assert_eq!(
        lines(&args),
        [
            "random(req=99+6, ra=99+6-0, async=0) = 2",
            "",
            "  99",
            "  #===+=  random",
            "  # asked for  + read  M read and marked  = resident; a column is a page",
        ]
    );
}
