//! Advice against published tables.

use super::*;
use crate::kernel_default::Reason;
use crate::report::Refusal;
use crate::sweep::SweepEnd;

fn row(window_kib: u64, mb_per_s: f64) -> WindowResult {
    WindowResult { window_kib, mb_per_s, low: mb_per_s, high: mb_per_s, samples: 3 }
}

fn outcome(points: &[(u64, f64)], random: &[(u64, f64)], plateau_kib: u64) -> SweepOutcome {
    let window = ByteCount(plateau_kib << 10);
    let latency = |(size_kib, median_us): &(u64, f64)| Latency {
        size_kib: *size_kib,
        median_us: *median_us,
        p90_us: *median_us,
        reads: 9,
    };
    SweepOutcome {
        rows: points.iter().map(|(kib, speed)| row(*kib, *speed)).collect(),
        random: random.iter().map(latency).collect(),
        plateau: Some(Plateau { window, low: window, high: window, best: window }),
        ..SweepOutcome::default()
    }
}

fn facts() -> DeviceFacts {
    DeviceFacts {
        name: "sda".into(),
        size: ByteCount(64 << 30),
        method: Method::Kernel,
        now_kib: Some(128),
        kernel: Some(KernelDefault { window_kib: 8192, reason: Reason::Constant }),
        has_ext4: true,
        cached_below: None,
    }
}

/// Completion times of random reads, from the reads per second of 2008.
fn seek() -> Vec<(u64, f64)> {
    let table = include_str!("../../../sim/data/seed-tables/002_ted_tradeoff.csv");
    let line = |line: &str| {
        let mut fields = line.split(',');
        let kib = fields.next().expect("a size").parse().expect("a size");
        let ms: f64 = fields.nth(1).expect("a time").parse().expect("a time");
        (kib, ms * 1e3)
    };
    table.lines().skip(1).map(line).collect()
}

/// `find` by the size of its windows: seconds, as a throughput of 1000 / s.
fn find() -> Vec<(u64, f64)> {
    let table = include_str!("../../../sim/data/seed-tables/002_ted_find_size0.csv");
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let seconds: f64 = fields[3].parse().expect("a time");
        (fields[2].parse().expect("a size"), 1e3 / seconds)
    };
    table.lines().skip(1).map(line).collect()
}

#[test]
fn a_database_stops_where_the_published_increments_cross() {
    // 32K to 64K gains 5.9 % and costs 4.29 %; 64K to 128K gains 4.5 % and costs 7.67 %.
    let facts = DeviceFacts { now_kib: None, ..facts() };
    let advice = recommended(&facts, &outcome(&find(), &seek(), 2048), Profile::Database);
    let advice = advice.expect("advice");
    assert_eq!(advice.read_ahead_kb, 64);
    assert!(advice.why.contains("64 to 128 KiB"), "{}", advice.why);
    assert!(advice.why.contains("gains 4.5 %"), "{}", advice.why);
}

#[test]
fn the_published_increments_are_those_of_the_table() {
    let table = include_str!("../../../sim/data/seed-tables/002_dilger_increments.csv");
    let latency = tradeoff::LatencyLine::through(&outcome(&[], &seek(), 4).random).expect("a line");
    let found: Vec<(u64, f64)> = find();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let mut steps = fields[0].split('-').map(|size| size.trim_end_matches('k').parse::<u64>());
        let (from, to) = (steps.next().unwrap().unwrap(), steps.next().unwrap().unwrap());
        let at = |kib| found.iter().find(|(size, _)| *size == kib).expect("a row").1;
        let gain = 100.0 * at(4) * (1.0 / at(from) - 1.0 / at(to));
        let printed: f64 = fields[4].parse().expect("a number");
        assert!((gain - printed).abs() < 0.11, "{from}-{to}: {gain}, printed {printed}");
        // Printed from rates without fractions; the line is through all of them.
        let loss = latency.percent_between(from, to);
        let printed: f64 = fields[3].parse().expect("a number");
        assert!((loss - printed).abs() < 1.0, "{from}-{to}: {loss}, printed {printed}");
    }
}

#[test]
fn inode_tables_by_the_latencies_of_a_disk_of_2008() {
    // The source of the measurement chose 128K.
    let (blocks, why) = inode_blocks(&outcome(&[], &seek(), 4).random).expect("latencies");
    assert_eq!(blocks, 32, "{why}");
    // A device whose latency does not depend on the size: windows cost nothing.
    let flat: Vec<(u64, f64)> = [4, 64, 256, 1024].map(|kib| (kib, 4200.0)).to_vec();
    let (blocks, _) = inode_blocks(&outcome(&[], &flat, 4).random).expect("latencies");
    assert_eq!(blocks, 256);
}

#[test]
fn mixed_stays_below_two_mebibytes_unless_the_plateau_gains_a_fifth() {
    let unset = DeviceFacts { now_kib: None, ..facts() };
    let advice = |at_plateau: f64, plateau_kib| {
        let points = [(1024, 70.0), (2048, 100.0), (4096, at_plateau), (8192, at_plateau)];
        let outcome = outcome(&points, &[], plateau_kib);
        recommended(&unset, &outcome, Profile::Mixed).expect("advice").read_ahead_kb
    };
    assert_eq!(advice(119.0, 4096), 2048);
    assert_eq!(advice(121.0, 4096), 4096);
    assert_eq!(advice(100.0, 1024), 1024);
    let points = [(1024, 70.0), (2048, 100.0), (4096, 110.0)];
    let streaming = recommended(&unset, &outcome(&points, &[], 4096), Profile::Streaming);
    assert_eq!(streaming.expect("advice").read_ahead_kb, 4096);
}

#[test]
fn others_would_set() {
    let found = outcome(&[(4, 1.0), (8, 1.0)], &[], 4);
    let compared = |size| report(&DeviceFacts { size, ..facts() }, &found, Profile::Mixed).compared;
    let all = compared(ByteCount(64 << 30));
    assert_eq!(
        (all.now_kib, all.kernel_kib, all.size_rule_kib),
        (Some(128), Some(8192), Some(2048))
    );
    assert_eq!(compared(ByteCount(1 << 40)).size_rule_kib, Some(8192));
    assert_eq!(compared(ByteCount(0)).size_rule_kib, None);
}

#[test]
fn an_interrupted_sweep_is_a_report_without_advice() {
    let found = SweepOutcome {
        rows: vec![row(4, 1.0)],
        stopped: Some(Stopped::Interrupted),
        ..SweepOutcome::default()
    };
    let report = report(&facts(), &found, Profile::Mixed);
    assert_eq!(report.recommended, None);
    assert_eq!(report.plateau_kib, None);
    assert!(report.notes.iter().any(|note| note.starts_with("interrupted")));
    let text = serde_json::to_string(&report).expect("it is printed");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("it is read"), report);
}

#[test]
fn a_row_says_what_it_costs_other_readers() {
    let found = outcome(&[(128, 50.0), (256, 75.0)], &[(128, 900.0)], 256);
    let rows = tradeoffs(&found.rows, &found.random);
    assert_eq!(rows[0].next_gains_percent, Some(50.0));
    assert_eq!(rows[0].read_us, Some(900.0));
    assert_eq!((rows[1].next_gains_percent, rows[1].read_us), (None, None));
    assert_eq!(rows[1].hundred_streams_kib, 50 << 10);
}

/// A curve without noise: what is faster is surely faster.
fn fell() -> SweepOutcome {
    let points = [(128, 4430.0), (512, 9800.0), (1024, 11914.0), (2560, 10535.0), (4096, 8100.0)];
    outcome(&points, &[], 1024)
}

fn set_now(now_kib: u64) -> DeviceFacts {
    DeviceFacts { now_kib: Some(now_kib), has_ext4: false, ..facts() }
}

#[test]
fn what_is_in_force_stays_where_the_choice_gives_less() {
    // The defect: 128K was chosen, though 2560K were in force and gave more than twice as much.
    let chosen = |kib: u64, now_kib| {
        let window = ByteCount(kib << 10);
        let plateau = Some(Plateau { window, low: window, high: window, best: window });
        let found = SweepOutcome { plateau, ..fell() };
        let to = recommended(&set_now(now_kib), &found, Profile::Streaming).expect("advice");
        (to.read_ahead_kb, to.why)
    };
    let (kib, why) = chosen(128, 2560);
    assert_eq!(kib, 1024, "the next that keeps it");
    assert!(
        why.starts_with("128 KiB are 58 % slower than the current 2560 KiB; use 1024"),
        "{why}"
    );
    let (kib, why) = chosen(4096, 1024);
    assert_eq!(kib, 1024, "none larger is tried: what is in force stays");
    assert!(why.contains("32 % slower than the current 1024 KiB: keep them"), "{why}");
    assert_eq!(chosen(1024, 2560).0, 1024);
    assert_eq!(chosen(1024, 128).0, 1024);
}

/// A row whose throughput has this standard error, in logarithms.
fn noisy(window_kib: u64, mb_per_s: f64, error: f64) -> WindowResult {
    let bound = |side: f64| mb_per_s * (side * crate::plateau::Z * error).exp();
    WindowResult { window_kib, mb_per_s, low: bound(-1.0), high: bound(1.0), samples: 40 }
}

/// Memory-like devices: 128K in force was recommended above a table where 1M was faster, since
/// noise left open whether 1M keeps 98 % of it.
#[test]
fn noise_does_not_recommend_what_the_table_has_as_slower() {
    let rows = vec![noisy(128, 3761.0, 0.04), noisy(512, 3650.0, 0.04), noisy(1024, 4250.0, 0.04)];
    let window = ByteCount(1024 << 10);
    let plateau = Plateau { window, low: ByteCount(128 << 10), high: window, best: window };
    let found = SweepOutcome { rows, plateau: Some(plateau), ..SweepOutcome::default() };
    for profile in [Profile::Streaming, Profile::Mixed, Profile::Database] {
        let report = report(&set_now(128), &found, profile);
        assert_eq!(report.recommended.as_ref().expect("advice").read_ahead_kb, 1024);
        let open = Refusal::ChangeUncertain { to_kib: 1024, now_kib: 128 };
        assert!(report.refusals.contains(&open), "{:?}", report.refusals);
        assert!(open.is_of_apply());
        let text = serde_json::to_string(&open).expect("it is printed");
        assert!(text.contains("change-uncertain"), "{text}");
    }
}

/// The reason of a window in force that stays named no other one, though the table had a faster
/// one.
#[test]
fn a_faster_row_is_named_as_noise_or_as_a_price() {
    let why = |rows: Vec<WindowResult>, chosen_kib: u64| {
        let window = ByteCount(chosen_kib << 10);
        let plateau = Some(Plateau { window, low: window, high: window, best: window });
        let found = SweepOutcome { rows, plateau, ..SweepOutcome::default() };
        recommended(&set_now(128), &found, Profile::Mixed).expect("advice").why
    };
    let noise = vec![noisy(128, 100.0, 0.02), noisy(256, 101.0, 0.02), noisy(512, 104.0, 0.02)];
    let text = why(noise, 256);
    assert!(text.contains("; 512 KiB were measured 4 % faster than 128 KiB, and both"), "{text}");
    assert!(text.contains("it may be noise"), "{text}");
    let price = vec![noisy(128, 90.0, 0.001), noisy(2048, 100.0, 0.001), noisy(8192, 115.0, 0.001)];
    let text = why(price, 8192);
    assert!(text.contains("8192 KiB were measured 15 % faster than 2048 KiB"), "{text}");
    assert!(!text.contains("noise"), "{text}");
    let tie = why(vec![noisy(128, 99.0, 0.02), noisy(256, 100.0, 0.02)], 128);
    assert!(!tie.contains("were measured"), "{tie}");
}

#[test]
fn a_mixed_load_keeps_a_large_window_that_gives_more() {
    let points = [(2048, 100.0), (4096, 108.0), (8192, 118.0)];
    let found = outcome(&points, &[], 8192);
    let to = |now| recommended(&set_now(now), &found, Profile::Mixed).expect("advice");
    assert_eq!(to(128).read_ahead_kb, 2048, "not measured: nothing to hold it against");
    assert_eq!(to(2048).read_ahead_kb, 2048);
    assert_eq!(to(8192).read_ahead_kb, 8192, "{}", to(8192).why);
}

#[test]
fn a_database_pays_for_streams_only_what_its_reads_gain() {
    let curve = [(4, 10.0), (64, 90.0), (128, 92.0), (1024, 96.0)];
    let found = outcome(&curve, &[(4, 1000.0), (64, 1100.0), (128, 1250.0), (1024, 3500.0)], 1024);
    let to = |now| recommended(&set_now(now), &found, Profile::Database).expect("advice");
    assert_eq!(to(1024).read_ahead_kb, 64, "{}", to(1024).why);
    // Latency that does not depend on the size: streams would lose, and no read gain.
    let flat = [(4, 1000.0), (64, 1001.0), (128, 1002.0), (1024, 1003.0)];
    let found = SweepOutcome { random: outcome(&[], &flat, 4).random, ..found };
    let to = recommended(&set_now(1024), &found, Profile::Database).expect("advice");
    assert_eq!(to.read_ahead_kb, 1024, "{}", to.why);
}

/// What stands against setting what this outcome recommends.
fn against(facts: &DeviceFacts, outcome: &SweepOutcome) -> Vec<Refusal> {
    report(facts, outcome, Profile::Streaming).refusals
}

#[test]
fn a_sweep_that_came_to_its_end_is_not_refused() {
    assert_eq!(against(&set_now(2560), &fell()), []);
}

#[test]
fn each_refusal_says_what_to_do_instead() {
    let stopped = Some(Stopped::Failed("reading /dev/sda at 0: no".into()));
    let wide = Plateau {
        low: ByteCount(128 << 10),
        high: ByteCount(1024 << 10),
        ..fell().plateau.unwrap()
    };
    let fast = WindowResult { mb_per_s: 30_000.0, ..row(1024, 1.0) };
    let cached =
        DeviceFacts { cached_below: Some("98 % of /srv/x are cached".into()), ..set_now(2560) };
    let cases: Vec<(DeviceFacts, SweepOutcome, &str)> = vec![
        (set_now(2560), SweepOutcome { stopped, ..fell() }, "run it again and let it finish"),
        (
            set_now(2560),
            SweepOutcome {
                seconds: 13.7,
                ended: SweepEnd::Unfinished { read: 5, of: 14 },
                ..fell()
            },
            "after 14 s, 5 of 14 windows had enough readings: run it again with --seconds 60",
        ),
        (
            set_now(2560),
            SweepOutcome { ended: SweepEnd::NothingFresh, ..fell() },
            "drop that cache first",
        ),
        (set_now(2560), SweepOutcome { may_be_cached: true, ..fell() }, "give a larger target"),
        (cached, fell(), "98 % of /srv/x are cached"),
        (
            set_now(1024),
            SweepOutcome { rows: vec![fast], ..fell() },
            "30000 MB/s is the speed of memory",
        ),
        (
            set_now(2560),
            SweepOutcome { plateau: Some(wide), ..fell() },
            "between 128 and 1024 KiB: run it again when the device is less busy",
        ),
        (set_now(65_536), fell(), "the current 65536 KiB could not be measured"),
        (DeviceFacts { now_kib: None, ..facts() }, fell(), "does not report its current window"),
    ];
    for (facts, outcome, says) in cases {
        let refusals = against(&facts, &outcome);
        assert_eq!(refusals.len(), 1, "{says}: {refusals:?}");
        assert!(refusals[0].is_of_apply(), "{refusals:?}");
        assert!(refusals[0].to_string().contains(says), "{says}: {}", refusals[0]);
    }
    let quick = against(&set_now(2560), &SweepOutcome { is_quick: true, ..fell() });
    assert_eq!(quick, [Refusal::Quick], "it may be applied, and is not remembered");
    assert!(!quick[0].is_of_apply());
}

#[test]
fn the_ends_of_an_interval_are_those_of_the_load() {
    // From 4M to 16M the plateau is open, and a mixed load takes 2M whatever it is.
    let points = [(1024, 80.0), (2048, 100.0), (4096, 104.0), (16384, 106.0)];
    let plateau = Plateau {
        window: ByteCount(4 << 20),
        low: ByteCount(4 << 20),
        high: ByteCount(16 << 20),
        best: ByteCount(16 << 20),
    };
    let found = SweepOutcome { plateau: Some(plateau), ..outcome(&points, &[], 4096) };
    let between = |profile| recommended(&set_now(2048), &found, profile).expect("it").between_kib;
    assert_eq!(between(Profile::Mixed), Some([2048, 2048]));
    assert_eq!(between(Profile::Streaming), Some([4096, 16384]));
}

#[test]
fn no_share_is_faster_by_less_than_nothing() {
    assert_eq!(beside(96.0, 100.0), "4 % slower than");
    assert_eq!(beside(100.0, 100.3), "as fast as");
    assert_eq!(beside(238.0, 100.0), "138 % faster than");
    let points = [(1024, 104.0), (2048, 100.0), (4096, 103.0)];
    let why = recommended(&set_now(2048), &outcome(&points, &[], 4096), Profile::Mixed);
    let why = why.expect("advice").why;
    assert!(!why.contains("-1 %"), "{why}");
}

#[test]
fn a_cache_below_that_decides_between_two_windows_is_refused() {
    // Everything is held at 80 MB/s: 4 KiB read from the cache below as well, and fresh not.
    let capped = outcome(&[(4, 80.2), (128, 80.0), (1024, 80.0)], &[], 4);
    assert_eq!(against(&set_now(128), &capped), []);
    let fresh = |points: &[(u64, f64)]| SweepOutcome {
        fresh_rows: Some(outcome(points, &[], 4).rows),
        ..capped.clone()
    };
    let refused = |points: &[(u64, f64)]| against(&set_now(128), &fresh(points));
    let refusals = refused(&[(4, 63.0), (128, 80.0), (1024, 80.0)]);
    assert!(matches!(refusals[..], [Refusal::Cached { .. }]), "{refusals:?}");
    assert!(refusals[0].to_string().contains("on unread data"), "{}", refusals[0]);
    assert_eq!(refused(&[(128, 80.0)]).len(), 1, "4 KiB were never fresh");
    assert_eq!(refused(&[(4, 79.0), (128, 80.0)]), [], "the fresh ones say the same");
}

#[test]
fn direct_io_is_advised_only_against_the_page_cache() {
    let refused =
        |facts: &DeviceFacts, outcome: &SweepOutcome| against(facts, outcome)[0].to_string();
    let again = refused(&set_now(2560), &SweepOutcome { may_be_cached: true, ..fell() });
    assert!(!again.contains("losetup"), "{again}");
    let why = Some("98 % of /srv/x are in the page cache".into());
    let cached = refused(&DeviceFacts { cached_below: why, ..set_now(2560) }, &fell());
    assert!(cached.contains("losetup --direct-io=on"), "{cached}");
}
