//! Words of scenarios that policies are compared in: what each of them makes a run do.

use foreread_core::prefetch::AdaptivePart;
use foreread_core::sched::Op;
use foreread_sim::record::RecordMode;
use foreread_sim::rivals::{self, MeasuredRun};
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::Scenario;

fn parsed(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn go(text: &str, keep: RecordMode) -> RunOutcome {
    let scenario = parsed(text);
    let mut building = scenario.build(keep).expect("it was checked");
    building.run.go(scenario.until());
    building.run.end()
}

fn measure(text: &str) -> MeasuredRun {
    rivals::measure(&parsed(text), &mut |_| {})
}

fn refused(text: &str) -> String {
    Scenario::parse(text).map(drop).expect_err(text).to_string()
}

/// One reader without read-ahead, of a device with a page in 100 us.
fn reader(run: &str) -> String {
    format!(
        "name = 'a reader'\ncache.policy = 'none'\n[device.disk]\n\
         model.flash = {{ capacity = '1G', mb_per_s = 40.96 }}\n\
         [file.data]\ndevice = 'disk'\nsize = '1M'\n[[process]]\nname = 'reader'\n{run}\n"
    )
}

/// The pages that the device was asked for, in their order.
fn pages(run: &str) -> Vec<u64> {
    let ran = go(&reader(run), RecordMode::Lines);
    let starts = ran.lines.iter().filter_map(|line| line.split_once(" R")?.1.split_once('+'));
    starts.map(|(start, _)| start.parse::<u64>().unwrap() / 8).collect()
}

#[test]
fn readers_stride_and_go_backwards() {
    let run = "run.sequential = { file = 'data', stride = '16K', amount = '64K' }";
    assert_eq!(pages(run), [0, 4, 8, 12]);
    let run = "run.sequential = { file = 'data', backwards = true, amount = '16K' }";
    assert_eq!(pages(run), [3, 2, 1, 0]);
    let run = "run.sequential = { file = 'data', backwards = true, read = '8K', amount = '20K' }";
    assert_eq!(pages(run), [4, 2, 0]);
    let run = "run.sequential = { file = 'data', read = '8K', stride = '4K' }";
    assert_eq!(refused(&reader(run)), "line 10: stride: must be at least read");
}

#[test]
fn what_was_dropped_behind_is_read_again() {
    let twice = |drops: bool| {
        let one = format!("run.sequential = {{ file = 'data', drops_behind = {drops} }}");
        let two = format!("{one}\n[[process]]\nname = 'again'\nstart_ms = 60000\n{one}");
        go(&reader(&two), RecordMode::Hash).devices[0].requests(Op::Read)
    };
    assert_eq!((twice(false), twice(true)), (256, 512));
}

#[test]
fn the_wait_for_a_start_is_no_time_of_a_process() {
    let run = "run.sequential = { file = 'data' }";
    let ended = |start: &str| {
        let ran = go(&reader(&format!("{start}{run}")), RecordMode::Hash);
        let reader = &ran.processes[0];
        (reader.seconds(ran.end), reader.mb_per_s(ran.end), ran.end.0)
    };
    let (at_once, later) = (ended(""), ended("start_ms = 60000\n"));
    assert_eq!((at_once.0, at_once.1), (later.0, later.1));
    assert_eq!(at_once.2 + 60_000_000_000, later.2);
    let text = reader(&format!("start_ms = 60000\n{run}"));
    let ran = go(&text.replacen("name", "until_s = 1\nname", 1), RecordMode::Hash);
    let reader = &ran.processes[0];
    assert_eq!((reader.seconds(ran.end), reader.mb_per_s(ran.end)), (0.0, 0.0), "it did not begin");
}

#[test]
fn streams_in_turns_may_have_handles_of_their_own() {
    // By their handles alone: a handle of its own makes each stream sequential.
    let requests = |own: bool| {
        let run = format!("run.interleaved = {{ file = 'data', own_handles = {own} }}");
        let text = reader(&run).replace("'none'", "'linux-2.6.28'");
        go(&text, RecordMode::Hash).devices[0].requests(Op::Read)
    };
    let (shared, own) = (requests(false), requests(true));
    assert!(shared > 3 * own, "{shared} {own}");
    let run = "run.interleaved = { file = 'data', own_handles = true, pages = [1] }";
    assert_eq!(refused(&reader(run)), "line 10: own_handles: must be false when pages is given");
}

#[test]
fn likely_places_are_read_again_from_the_cache() {
    let requests = |more: &str| {
        let run = format!("run.random = {{ file = 'data', read = '4K', reads = 100 {more} }}");
        go(&reader(&run), RecordMode::Hash).devices[0].requests(Op::Read)
    };
    assert!(requests(", zipf = 0.99") + 15 < requests(""), "{}", requests(", zipf = 0.99"));
    let run = "run.random = { file = 'data', read = '4K', reads = 1, zipf = 1 }";
    assert_eq!(refused(&reader(run)), "line 10: zipf: must be 0.01 to 0.99");
}

#[test]
fn a_device_changes_when_it_is_said() {
    let with = |change: &str| {
        let run = "run.sequential = { file = 'data', kib_per_s = 400 }";
        reader(run).replace("[file.data]", &format!("{change}\n[file.data]"))
    };
    let change = "[[device.disk.change]]\nat_s = 1\n\
                  model.flash = { capacity = '1G', mb_per_s = 40.96, overhead_us = 900 }";
    let busy = |text: &str| measure(text).to.device_s;
    // 100 pages a second of 100 us each; from 1 s on, 1 ms.
    assert!((busy(&with("")) - 0.0256).abs() < 1e-6, "{}", busy(&with("")));
    assert!((busy(&with(change)) - 0.1660).abs() < 0.0011, "{}", busy(&with(change)));
    let other = change.replace("'1G'", "'2G'");
    assert!(
        refused(&with(&other))
            .ends_with("a device of the same capacity, max_command, depth and channels")
    );
    let other = "[[device.disk.change]]\nat_s = 1\nmodel = 'sata-500g'";
    assert_eq!(refused(&with(other)), "line 7: change: a flash device can change to flash only");
    let twice = format!("{change}\n{change}");
    assert_eq!(refused(&with(&twice)), "line 10: change: must be later than the change before it");
}

/// A server on a device without overhead, where windows of a page would be learnt.
fn server(more: &str) -> String {
    format!(
        "name = 'a server'\nuntil_s = 100\ncount_from_s = 20\ncache.max_window = '128K'\n\
         [device.disk]\n\
         model.flash = {{ capacity = '8G', mb_per_s = 1 }}\n[[process]]\nname = 'client'\n\
         [process.run.streaming]\ndevice = 'disk'\nfile_size = '64M'\nread = '4K'\n{more}\n"
    )
}

#[test]
fn clients_have_the_rates_that_are_said_and_those_change() {
    let bytes = |more: &str| -> Vec<u64> {
        measure(&server(more)).processes().iter().map(|done| done.bytes >> 10).collect()
    };
    assert_eq!(bytes("kib_per_s = [4, 8]"), [320, 640]);
    assert_eq!(bytes("kib_per_s = { clients = 3, median = 4 }"), [320; 3]);
    assert_eq!(bytes("kib_per_s = [4]\nchanges = [{ at_s = 60, times = 2 }]"), [480]);
    // A page at 0 s, 1 s, .. 20 s is 84K.
    assert_eq!(bytes("kib_per_s = [4]\namount = '100K'"), [16]);
    let drawn = bytes("kib_per_s = { clients = 50, median = 4, sigma = 1 }");
    let below = drawn.iter().filter(|kib| **kib < 320).count();
    assert!((15..=35).contains(&below), "{below} of 50 below the median");
    let other = bytes("kib_per_s = { clients = 50, median = 4, sigma = 1, seed = 2 }");
    assert_ne!(drawn, other);
    let said = refused(&server("kib_per_s = { clients = 0, median = 4 }"));
    assert!(said.ends_with("clients: must be 1 to 100000"), "{said}");
    let said = refused(&server(
        "kib_per_s = [1]\nchanges = [{ at_s = 5, times = 2 }, { at_s = 5, times = 1 }]",
    ));
    assert!(said.ends_with("changes: must be in order of at_s"), "{said}");
}

#[test]
fn a_client_that_does_not_catch_up_stays_behind() {
    // From 30 s to 50 s it wants 1.23 MB/s of a device that has 1.
    let more = "kib_per_s = [400]\nchanges = [{ at_s = 30, times = 3 }, { at_s = 50, times = 1 }]";
    let bytes = |catches_up: bool| {
        let scenario = parsed(&server(&format!("{more}\ncatches_up = {catches_up}")));
        let measured = rivals::measure(&scenario, &mut |_| {});
        (measured.processes()[0].bytes as f64 / 1e6, measured.at_rate(&scenario)[0])
    };
    let ((late, late_at_rate), (caught_up, has_caught_up)) = (bytes(false), bytes(true));
    // 10 s and 50 s of 0.41 MB/s, between them 20 s of 1 MB/s; or 1.23 MB/s, some of it later.
    assert!((late - 44.6).abs() < 0.3 && !late_at_rate, "{late}");
    assert!((caught_up - 49.2).abs() < 0.3 && has_caught_up, "{caught_up}");
}

#[test]
fn a_weight_needs_a_submitter() {
    let weighed = |more: &str| reader(&format!("{more}\nrun.sequential = {{ file = 'data' }}"));
    assert!(Scenario::parse(&weighed("submitter = 3\nweight = 2")).is_ok());
    let said = refused(&weighed("weight = 2"));
    assert_eq!(said, "line 11: weight: must be 1 to 1000, and requires a submitter");
    assert!(refused(&weighed("submitter = 1\nweight = 0")).contains("weight: must be 1 to 1000"));
}

#[test]
fn windows_are_of_any_size_or_learnt_and_parts_are_left_out_by_name() {
    let cache = |line: &str| {
        reader("run.sequential = { file = 'data' }").replace("cache.policy = 'none'", line)
    };
    let config = |line: &str| parsed(&cache(line)).cache.config([]);
    let auto = config("cache.max_window = 'auto'").max_window;
    assert_eq!(auto, foreread_core::path::Config::AUTO_WINDOW);
    assert_eq!(config("cache.max_window = '1M'").max_window.0, 256);
    let without = config("cache.without = ['law', 'lead']").rules.without;
    assert!(without.parts().eq([AdaptivePart::Shares, AdaptivePart::Distance]));
    let said = refused(&cache("cache.max_window = 'large'"));
    assert!(said.starts_with("line 2: \"large\": ") && said.ends_with("or \"auto\""), "{said}");
    assert!(refused(&cache("cache.without = ['tail']")).contains("choose one of law, "));
}

#[test]
fn a_scan_reads_its_length_from_its_place_and_ends() {
    let scans = |more: &str| pages(&format!("run.scans = {{ file = 'data', {more} }}"));
    let one = scans("read = '8K', length = '24K', align = '64K', scans = 3");
    assert_eq!(one.len(), 9);
    for scan in one.chunks(3) {
        assert_eq!(scan[0] % 16, 0, "{one:?}");
        assert_eq!(scan, [scan[0], scan[0] + 2, scan[0] + 4]);
    }
    let back = scans("read = '8K', length = '20K', align = '64K', scans = 1, backwards = true");
    assert_eq!(back, [one[0] + 3, one[0] + 1, one[0]], "the rest of a read comes last");
    // A place near the end of the file is moved, so that the scan has its length.
    let all = scans("length = '1M', scans = 1");
    assert!(all.into_iter().eq(0..256));
}

#[test]
fn scans_have_the_lengths_that_are_said() {
    let lengths = |length: &str| -> Vec<u64> {
        let run = format!(
            "run.scans = {{ file = 'data', align = '1024K', length = {length}, scans = 400 }}"
        );
        let text = reader(&run).replace("'1M'", "'64G'").replace("'1G'", "'64G'");
        let ran = go(&text, RecordMode::Lines);
        let starts = ran.lines.iter().filter_map(|line| line.split_once(" R")?.1.split_once('+'));
        let pages = starts.map(|(start, _)| start.parse::<u64>().unwrap() / 8);
        let mut lengths: Vec<(u64, u64)> = Vec::new();
        for page in pages {
            match lengths.last_mut() {
                Some((end, length)) if *end == page => (*end, *length) = (page + 1, *length + 1),
                _ => lengths.push((page + 1, 1)),
            }
        }
        assert!((396..=400).contains(&lengths.len()), "{length}: {}", lengths.len());
        lengths.into_iter().map(|(_, length)| length).collect()
    };
    let near = |share: usize, want: usize| share.abs_diff(want) <= 40;
    assert!(lengths("'40K'").iter().all(|pages| *pages == 10));
    let uniform = lengths("{ from = '8193', to = '40960' }");
    assert!(uniform.iter().all(|pages| (3..=10).contains(pages)));
    assert!(near(uniform.iter().filter(|pages| **pages <= 6).count(), 200), "{uniform:?}");
    let drawn = lengths("{ median = '80K', sigma = 1 }");
    assert!(near(drawn.iter().filter(|pages| **pages <= 20).count(), 200), "{drawn:?}");
    let beyond = drawn.iter().filter(|pages| **pages > 54).count();
    assert!(near(beyond, 63), "a deviation beyond: {beyond}");
    let both = lengths("{ short = '4K', long = '400K', part = 0.25 }");
    // A long one at the place of a short one finds its first page resident.
    assert!(both.iter().all(|pages| [1, 99, 100].contains(pages)), "{both:?}");
    assert!(near(both.iter().filter(|pages| **pages >= 99).count(), 100));
}

#[test]
fn scans_that_cannot_be_are_refused() {
    let scans = |more: &str| refused(&reader(&format!("run.scans = {{ file = 'data', {more} }}")));
    assert!(scans("length = '2M', scans = 1").contains("length: must be at least a byte"));
    assert!(scans("length = { from = '8K', to = '4K' }, scans = 1").contains("from <= to"));
    assert!(scans("length = { mean = '8K' }, scans = 1").contains("{ median, sigma }"));
    assert!(scans("length = '8K'").contains("scans: must be set, unless"));
    assert!(scans("length = '8K', scans = 1, zipf = 2").contains("zipf: must be 0.01 to 0.99"));
}
