//! Golden traces: the reads of a scenario are replayed, and the decisions compared line by line.
//!
//! tests/golden/readahead.csv contains the decisions of three kernels on fourteen inputs, made by
//! state machines written independently of this code; its inputs are in the table below.
//! tests/golden/rivals.csv contains decisions of policies that no released kernel has, from their
//! publications and from their rules on one stream. tests/golden/nfsd.trace was printed by a real
//! kernel in 2009 while it served a file over NFS.

use crate::plain_cache;

use std::collections::BTreeMap;

use foreread_core::prefetch::{Decided, Decision, Pattern, Policy, Rules};
use foreread_core::units::{ByteCount, Pages};
use foreread_sim::policy;
use foreread_sim::rival_policy::find;
use plain_cache::{PlainPages, PlainStream};

/// One read: its stream, position and length in bytes.
type Read = (usize, u64, u64);

struct Scenario {
    max: u64,
    io_pages: u64,
    file: Option<u64>,
    streams: usize,
    reads: Vec<Read>,
}

impl Scenario {
    fn of(max: u64, reads: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let reads = reads.into_iter().map(|(page, count)| (0, page * 4096, count * 4096)).collect();
        Self { max, io_pages: 0, file: None, streams: 1, reads }
    }

    fn run(&self, policy: Policy) -> Vec<(usize, Decided, Vec<String>)> {
        let mut pages = PlainPages::default();
        let mut streams = vec![PlainStream::new(policy, self.max); self.streams];
        let mut trace = Vec::new();
        for (stream, pos, len) in &self.reads {
            let reader = &mut streams[*stream];
            reader.limits.io_pages = Pages(self.io_pages);
            if let Some(file_pages) = self.file {
                reader.file = ByteCount(file_pages * 4096);
            }
            for (decided, runs) in reader.read_bytes(&mut pages, *pos, *len) {
                trace.push((*stream, decided, runs));
            }
        }
        trace
    }
}

/// Returns the input of readahead.csv for the first word of a scenario's name.
fn scenario(name: &str) -> Scenario {
    let singles = |pages: &[u64]| pages.iter().map(|page| (*page, 1)).collect::<Vec<_>>();
    let row = |count: u64, size: u64| (0..count).map(move |i| (i * size, size));
    let key = name.split(' ').next().unwrap();
    match key {
        "S1" => Scenario::of(32, row(200, 1)),
        "S2" => Scenario::of(256, row(1200, 1)),
        "S3" => Scenario::of(32, (1..=24).flat_map(|i| [(i, 1), (1000 + i, 1)])),
        "S3b" => Scenario::of(32, singles(&[1, 1001, 2, 1002, 3, 4, 1003, 5, 1004, 1005, 6])),
        "S4" | "S4b" => {
            let (max, size) = if key == "S4" { (32, 16) } else { (256, 64) };
            let mut scenario = Scenario { streams: 4, ..Scenario::of(max, row(20, size)) };
            for (i, read) in scenario.reads.iter_mut().enumerate() {
                read.0 = i % 4;
            }
            scenario
        }
        "S5" => Scenario::of(32, (93..=100).rev().map(|page| (page, 1))),
        "S7" => Scenario::of(32, singles(&[5000, 70, 9000, 71, 333, 12345, 334, 335])),
        "S8" => Scenario::of(32, [(0, 256)]),
        "S8c" => Scenario { io_pages: 320, ..Scenario::of(32, [(1000, 256)]) },
        "S10" => Scenario { file: Some(64), ..Scenario::of(32, row(64, 1).chain(row(64, 1))) },
        "S11" => Scenario { file: Some(10), ..Scenario::of(32, row(10, 1)) },
        "S11b" => Scenario { file: Some(3), ..Scenario::of(32, row(3, 1)) },
        "S13" => {
            let reads = (0..60).map(|i| (0, i * 1000, 1000)).collect();
            Scenario { reads, ..Scenario::of(32, []) }
        }
        "T0" => Scenario::of(256, [(0, 64)].into_iter().chain((2..60).map(|i| (i * 32, 32)))),
        "blkid" => {
            let (max, io_pages) = match name {
                "blkid max1 io_pages0" => (1, 0),
                "blkid max1 io_pages30" => (1, 30),
                "blkid max2 io_pages0" => (2, 0),
                "blkid max32 io_pages0" => (32, 0),
                _ => panic!("no input for {name}"),
            };
            let reads = vec![(0, 0, 1024), (0, 1536, 16384)];
            Scenario { io_pages, reads, ..Scenario::of(max, []) }
        }
        _ => panic!("no input for {name}"),
    }
}

/// These list only the first decisions of a longer run.
const CUT_SHORT: [&str; 3] = ["S1", "S2", "T0"];

#[test]
fn every_decision_of_three_kernels_is_reproduced() {
    let rows = golden_rows();
    assert_eq!(rows.values().map(Vec::len).sum::<usize>(), 404, "rows are missing");
    for ((name, version), want) in &rows {
        let policy = match version.as_str() {
            "A" => policy::LINUX_2_6_28,
            "B" => policy::LINUX_2_6_31,
            "D" => Policy::Linux6,
            _ => panic!("no policy for version {version}"),
        };
        let scenario = scenario(name);
        let mut got: Vec<String> = scenario
            .run(policy)
            .iter()
            .enumerate()
            .map(|(seq, (stream, decided, runs))| {
                csv_row(seq, (scenario.streams > 1).then_some(*stream), decided, runs)
            })
            .collect();
        if CUT_SHORT.iter().any(|cut| name.starts_with(&format!("{cut} "))) {
            got.truncate(want.len());
        }
        assert_eq!(got, *want, "{name}, {}", policy.name());
    }
}

#[test]
fn the_nfsd_trace_of_2009_is_reproduced_line_for_line() {
    let want: Vec<&str> = include_str!("../golden/nfsd.trace")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    for policy in [policy::LINUX_2_6_28, policy::LINUX_2_6_31, Policy::Linux6, Policy::Adaptive] {
        let trace = scenario("T0").run(policy);
        let got: Vec<String> = trace.iter().map(|(_, line, _)| line.to_string()).collect();
        assert_eq!(got[..want.len()], want, "{}", policy.name());
    }
}

#[test]
fn the_policies_of_no_kernel_decide_as_published() {
    let mut rows = 0;
    for line in include_str!("../golden/rivals.csv").lines().skip(1) {
        let (line, want) = line.strip_suffix('"').unwrap().split_once(",\"").unwrap();
        let [name, policy, max, resident, mark, reads] =
            line.split(',').collect::<Vec<_>>().try_into().unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let range = |text: &str| {
            let (start, end) = text.split_once("..").unwrap();
            number(start)..number(end)
        };
        let mut pages = PlainPages::default();
        pages.resident.extend(Some(resident).filter(|text| !text.is_empty()).map_or(0..0, range));
        pages.markers.extend(Some(mark).filter(|text| !text.is_empty()).map(number));
        let mut stream = PlainStream::new(find(policy).unwrap(), number(max));
        let (first, count) = reads.split_once('+').unwrap();
        let firsts =
            if first.contains("..") { range(first) } else { number(first)..number(first) + 1 };
        let mut got = Vec::new();
        for page in firsts {
            got.extend(stream.read(&mut pages, page, number(count)));
        }
        let got: Vec<String> = got.iter().map(|(line, _)| line.to_string()).collect();
        assert_eq!(got.join("; "), want, "{name}, {policy}");
        rows += 1;
    }
    assert_eq!(rows, 7, "rows are missing");
}

#[test]
fn twenty_six_pages_of_history_and_twelve_ahead_bring_fourteen_new_ones() {
    let mut pages = PlainPages::default();
    pages.resident.extend(0..39);
    pages.markers.insert(26);
    let mut stream = PlainStream::new(policy::THRASH_2009, 32);
    let trace: Vec<String> =
        stream.read(&mut pages, 26, 1).iter().map(|(line, _)| line.to_string()).collect();
    assert_eq!(trace, ["context(req=26+1, ra=39+14-14, async=1) = 14"]);
}

#[test]
fn a_window_of_no_pages_reads_each_miss_and_nothing_ahead() {
    for policy in policy::ALL {
        let mut pages = PlainPages::default();
        let mut stream = PlainStream::new(policy, 0);
        stream.read(&mut pages, 0, 3);
        stream.read(&mut pages, 7, 2);
        let resident: Vec<u64> = pages.resident.into_iter().collect();
        assert_eq!(resident, [0, 1, 2, 7, 8], "{}", policy.name());
        assert!(pages.markers.is_empty());
    }
}

#[test]
fn random_reads_bring_what_they_ask_for_and_nothing_more() {
    for policy in policy::ALL {
        let mut pages = PlainPages::default();
        let mut stream = PlainStream::new(policy, 32);
        for page in [500, 9, 77, 1000, 250] {
            stream.read(&mut pages, page, 3);
        }
        assert_eq!(pages.resident.len(), 15, "{}", policy.name());
    }
}

/// Runs reads, each as (page, pages), through one handle that seeks before each.
fn with_rules(policy: Policy, max: u64, file: u64, rules: Rules, reads: &[(u64, u64)]) -> String {
    let mut pages = PlainPages::default();
    let mut stream = PlainStream::new(policy, max);
    stream.rules = rules;
    stream.file = ByteCount(file * 4096);
    let mut windows = Vec::new();
    for (page, count) in reads {
        stream.state.seeked = true;
        for (line, _) in stream.read(&mut pages, *page, *count) {
            let Decision { pattern, window } = line.decision;
            windows.push(format!("{}+{}", window.start, window.size));
            let is_backwards = window.start < line.ask.page;
            assert_eq!(pattern == Pattern::Backwards, is_backwards);
        }
    }
    windows.join(" ")
}

#[test]
fn a_reader_that_goes_backwards_has_windows_that_grow_as_published() {
    let rules = Rules { backwards: true, ..Rules::default() };
    // To thrash-2010, a missing page just before the last read is a lost one.
    let has_rule = |policy: &Policy| ![Policy::None, policy::THRASH_2010].contains(policy);
    for policy in policy::ALL.into_iter().filter(has_rule) {
        let of = |reads: &[(u64, u64)]| with_rules(policy, 1920, 1 << 20, rules, reads);
        let eights: Vec<_> = (0..=1250).rev().map(|i| (8 * i, 8)).collect();
        assert_eq!(
            of(&eights),
            "10000+8 9968+32 9840+128 9584+256 9072+512 8048+1024 6128+1920 4208+1920 2288+1920 \
             368+1920 0+368",
            "{}",
            policy.name()
        );
        let singles: Vec<_> = (0..=10_000).rev().map(|page| (page, 1)).collect();
        assert_eq!(
            of(&singles),
            "10000+1 9996+4 9980+16 9916+64 9660+256 9148+512 8124+1024 6204+1920 4284+1920 \
             2364+1920 444+1920 0+444",
            "{}",
            policy.name()
        );
        if policy == Policy::Adaptive {
            continue;
        }
        // Without the rule each of them waits for the device; `adaptive` detects the pattern
        // itself.
        let off = with_rules(policy, 1920, 1 << 20, Rules::default(), &eights[..3]);
        assert_eq!(off, "10000+8 9992+8 9984+8", "{}", policy.name());
    }
    let none = with_rules(Policy::None, 1920, 1 << 20, rules, &[(16, 8), (8, 8)]);
    assert_eq!(none, "16+8 8+8", "no policy, no window");
}

#[test]
fn a_window_takes_a_small_rest_of_the_file_along() {
    let rules = Rules { snap_eof: true, ..Rules::default() };
    for policy in [policy::LINUX_2_6_28, policy::LINUX_2_6_31, Policy::Linux6, Policy::Adaptive] {
        let of = |max, file, reads: &[_]| with_rules(policy, max, file, rules, reads);
        let name = policy.name();
        assert_eq!(of(32, 5, &[(0, 1)]), "0+5", "{name}: one read of 20 KiB");
        assert_eq!(of(4, 4, &[(0, 2)]), "0+4", "{name}");
        let of_five = of(4, 5, &[(0, 2)]);
        assert!(of_five.starts_with("0+4"), "{name}: a quarter of max is one page: {of_five}");
        // A random read remains one.
        assert_eq!(of(32, 12, &[(8, 2)]), "8+2", "{name}");
        // The last window reaches the end, and has no marker, which would request nothing.
        let all: Vec<_> = (0..40).map(|page| (page, 1)).collect();
        assert_eq!(of(32, 35, &all[..35]), "0+4 4+8 12+23", "{name}");
        assert_eq!(of(32, 36, &all[..36]), "0+4 4+8 12+16 28+8", "{name}");
    }
}

#[test]
fn a_look_at_the_start_after_a_seek_is_no_stream() {
    let rules = Rules { lseek: true, ..Rules::default() };
    let blkid = |policy, rules, seeks: bool| {
        let mut pages = PlainPages::default();
        let mut stream = PlainStream::new(policy, 32);
        stream.rules = rules;
        let mut lines = Vec::new();
        for (pos, len) in [(0, 1024), (1536, 16384)] {
            stream.state.seeked |= seeks;
            lines.extend(stream.read_bytes(&mut pages, pos, len));
        }
        lines.into_iter().map(|(line, _)| line.to_string()).collect::<Vec<_>>()
    };
    for policy in [policy::LINUX_2_6_28, policy::LINUX_2_6_31, Policy::Linux6, Policy::Adaptive] {
        let mut usual = vec![
            "initial0(req=0+1, ra=0+4-3, async=0) = 4",
            "subsequent(req=1+4, ra=4+8-8, async=1) = 8",
            "subsequent(req=4+1, ra=12+16-16, async=1) = 16",
        ];
        if policy == Policy::Adaptive {
            // The missing pages of the read itself are no window: the next marker is behind the
            // read.
            usual.truncate(1);
            usual.push("subsequent(req=1+4, ra=4+9-8, async=1) = 9");
        }
        assert_eq!(blkid(policy, Rules::default(), true), usual, "{}", policy.name());
        assert_eq!(blkid(policy, rules, false), usual, "{}: no seek", policy.name());
        let looked =
            ["random(req=0+1, ra=0+1-0, async=0) = 1", "initial(req=1+4, ra=1+8-4, async=0) = 8"];
        assert_eq!(blkid(policy, rules, true), looked, "{}", policy.name());
        // A read that fills a window is a stream, seek or not.
        let of = |count| with_rules(policy, 32, 1 << 20, rules, &[(0, count)]);
        assert_eq!(of(31), "0+31", "{}", policy.name());
        assert_ne!(of(32), "0+32", "{}", policy.name());
    }
}

fn csv_row(seq: usize, stream: Option<usize>, decided: &Decided, runs: &[String]) -> String {
    let Decided { ask, decision, submitted } = decided;
    let window = decision.window;
    let mut pattern = decision.pattern.name().to_string();
    if let Some(stream) = stream {
        pattern += &format!("@t{stream}");
    }
    let window = if decision.pattern == Pattern::Random {
        ",,".to_string()
    } else {
        format!("{},{},{}", window.start, window.size, window.async_size)
    };
    let is_async = u8::from(ask.trigger == foreread_core::prefetch::Trigger::Marker);
    let runs = runs.join(" ");
    format!("{seq},{pattern},{},{},{window},{is_async},{submitted},{runs}", ask.page, ask.count)
}

/// Returns the rows of readahead.csv by scenario and version.
fn golden_rows() -> BTreeMap<(String, String), Vec<String>> {
    let mut rows: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for line in include_str!("../golden/readahead.csv").lines().skip(1) {
        let (name, rest) = match line.strip_prefix('"') {
            Some(quoted) => quoted.split_once("\",").unwrap(),
            None => line.split_once(',').unwrap(),
        };
        let (version, rest) = rest.split_once(',').unwrap();
        rows.entry((name.to_string(), version.to_string())).or_default().push(rest.to_string());
    }
    rows
}
