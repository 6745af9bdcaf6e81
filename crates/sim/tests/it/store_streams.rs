//! Streams of an object store: how soon one has the link, and what many fetch in vain.
//!
//! Everything is virtual: a test that fails fails everywhere. Figures: docs/guide/objects.md.

use foreread_core::prefetch::{AdaptivePart, Policy};
use foreread_core::units::Nanos;
use foreread_sim::meter::RunTotals;
use foreread_sim::record::RecordMode;
use foreread_sim::rivals::PolicySetup;
use foreread_sim::scenario::Scenario;

const ONE: &str = include_str!("../../scenarios/object-store.toml");
const POSITIONS: &str = include_str!("../../scenarios/store-positions.toml");
const PACED: &str = include_str!("../../scenarios/store-paced.toml");
const THOUSAND: &str = include_str!("../../scenarios/store-thousand.toml");

/// What the crate for objects expects of a store.
const EXPECTED: &str =
    "expected = { window = \"32M\", request_ms = 40.0, mb_per_s = 66.0, parallel = 32 }";

/// A store: a round trip in ms, a connection and the link in MB/s.
#[derive(Clone, Copy, Debug)]
struct Link {
    ms: f64,
    connection: f64,
    link: f64,
    sigma: f64,
    seed: u32,
}

const LINK: Link = Link { ms: 20.0, connection: 80.0, link: 1050.0, sigma: 0.0, seed: 1 };

impl Link {
    fn of(self, text: &str) -> String {
        let Self { ms, connection, link, sigma, seed } = self;
        let model = format!(
            "model.store = {{ capacity = \"1T\", latency_ms = {ms:.1}, latency_sigma = {sigma:.1}, \
             connection_mb_per_s = {connection:.1}, link_mb_per_s = {link:.1}, connections = 64, \
             seed = {seed} }}"
        );
        let replaced = text.replace("model = \"object-store\"", &model);
        assert_ne!(replaced, text, "{text}");
        replaced
    }

    /// Seconds that plain requests take for so many bytes: a round trip, then the link.
    fn bare_s(self, bytes: u64) -> f64 {
        let part_s = (1 << 20) as f64 / self.connection / 1e6;
        self.ms / 1e3 + part_s + (bytes - (1 << 20)) as f64 / self.link / 1e6
    }
}

#[derive(Debug)]
struct Outcome {
    seconds: f64,
    /// Bytes that were fetched for each that was read.
    bytes: f64,
    evicted_unread: u64,
    /// How long after it was due the latest read ended, in ms.
    latest_ms: f64,
}

fn run(text: &str, without: &[AdaptivePart]) -> Outcome {
    let mut scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let without = without.iter().copied().collect();
    PolicySetup { policy: Policy::Adaptive, max_window: None, without }.set(&mut scenario);
    let mut run = scenario.build(RecordMode::Hash).unwrap().run;
    let from = if scenario.count_from() == Nanos(0) { None } else { Some(scenario.count_from()) };
    let from = from.map(|at| {
        run.go(at);
        run.totals()
    });
    run.go(scenario.until());
    let to = run.totals();
    let ran = run.end();
    let read =
        |totals: &RunTotals| -> u64 { totals.processes.iter().map(|process| process.bytes).sum() };
    let base = from
        .as_ref()
        .map_or((0, 0, 0), |from| (read(from), from.device_bytes, from.evicted_unread));
    let last = ran.processes.iter().filter_map(|process| process.ended).max().unwrap_or(ran.end);
    let latest = ran.processes.iter().filter_map(|process| process.other.get("latest_ms"));
    let wanted = read(&to) - base.0;
    Outcome {
        seconds: last.0 as f64 / 1e9,
        bytes: (to.device_bytes - base.1) as f64 / wanted as f64,
        evicted_unread: to.evicted_unread - base.2,
        latest_ms: latest.copied().fold(0.0, f64::max),
    }
}

/// The first 256 MiB of an object of 1 GiB, 128 KiB at a time.
fn first_256_mib(link: Link, without: &[AdaptivePart]) -> Outcome {
    first_256_mib_in(link, "128K", without)
}

/// The same in reads of another size.
fn first_256_mib_in(link: Link, read: &str, without: &[AdaptivePart]) -> Outcome {
    let reads = format!("read = {read:?}, amount = \"256M\"");
    let text = link.of(ONE).replace("read = \"64K\"", &reads);
    let expected = format!("{EXPECTED}\n\n[file.object]");
    run(&text.replace("[file.object]", &expected), without)
}

/// A lone reader fills the link after four round trips, because its windows grow fourfold.
#[test]
fn one_reader_has_the_link_after_four_round_trips() {
    for (link, least) in [
        (Link { ms: 5.0, ..LINK }, 0.95),
        (LINK, 0.87),
        (Link { link: 300.0, ..LINK }, 0.93),
        (Link { ms: 45.0, link: 300.0, ..LINK }, 0.90),
        (Link { ms: 100.0, link: 300.0, ..LINK }, 0.78),
    ] {
        let got = first_256_mib(link, &[]);
        let part = link.bare_s(256 << 20) / got.seconds;
        println!("{link:?}: {part:.2} of bare requests, {:.2} x bytes", got.bytes);
        assert!(part >= least, "{link:?}: {part}, {got:?}");
    }
}

/// Each position had the windows of a lone reader, and at its end they were read in vain.
#[test]
fn eight_positions_of_a_handle_fetch_what_they_read() {
    for (ms, sigma, seed) in [(20.0, 0.0, 1), (20.0, 0.5, 1), (20.0, 0.5, 2), (45.0, 0.0, 1)] {
        let link = Link { ms, sigma, seed, ..LINK };
        let got = run(&link.of(POSITIONS), &[]);
        let alike = run(&link.of(POSITIONS), &[AdaptivePart::Far]);
        println!("{link:?}: {:.3} s, {:.3} x bytes; {alike:?} without", got.seconds, got.bytes);
        assert!(got.bytes <= 1.05, "{link:?}: {got:?}");
        assert!(alike.bytes > 1.2 && got.seconds < 1.03 * alike.seconds, "{got:?}, {alike:?}");
    }
}

/// The object of an object store, read by one handle at several positions in turns.
fn positions(link: Link, streams: u32, read: &str) -> Outcome {
    let text = link.of(POSITIONS).replace("streams = 8", &format!("streams = {streams}"));
    run(&text.replace("\"128K\"", &format!("{read:?}")), &[])
}

/// Their first reads wait one after another, because nothing says where the next will be. Then all
/// go on at once: the second reads waited one after another, too, and of large reads the third.
#[test]
fn positions_wait_once_each_and_then_go_on_together() {
    for (streams, read, round_trips, least) in [
        (2, "128K", 5.6, 0.87),
        (8, "128K", 12.0, 0.64),
        (2, "4M", 5.3, 0.82),
        (8, "4M", 15.7, 0.52),
    ] {
        let got = positions(LINK, streams, read);
        let alone = first_256_mib_in(LINK, read, &[]);
        let part = alone.seconds / got.seconds;
        let trips = (got.seconds - (256 << 20) as f64 / LINK.link / 1e6) / (LINK.ms / 1e3);
        println!("{streams} x {read}: {got:?}, {part:.2} of one position, {trips:.1} round trips");
        assert!(got.bytes <= 1.05 && got.evicted_unread == 0, "{streams} x {read}: {got:?}");
        assert!(trips < round_trips && part > least, "{streams} x {read}: {trips}, {part}");
    }
}

/// Windows of 1 MiB, two of them ahead, are 2 s of such a reader.
#[test]
fn readers_at_their_own_pace_fetch_what_they_take_and_are_never_late() {
    for (ms, most) in [(20.0, 1.05), (45.0, 1.05), (100.0, 1.10)] {
        let link = Link { ms, ..LINK };
        let got = run(&link.of(PACED), &[]);
        println!("{link:?}: {:.3} x bytes, latest {:.1} ms", got.bytes, got.latest_ms);
        assert!(got.bytes <= most, "{link:?}: {got:?}");
        // The first read of each waits for one request, and none waits again.
        assert!(got.latest_ms <= ms + 10.0, "{link:?}: {got:?}");
        let alike = run(&link.of(PACED), &[AdaptivePart::Far]);
        assert!(alike.bytes > 1.3, "{alike:?}");
    }
}

#[test]
fn a_thousand_readers_of_a_store_keep_their_pace_in_256_mib() {
    let got = run(THOUSAND, &[]);
    println!("{got:?}");
    assert_eq!(got.evicted_unread, 0, "{got:?}");
    assert!(got.bytes <= 1.05 && got.latest_ms <= 60.0, "{got:?}");
}

/// Scans of 4 MiB at random places, and later a reader of all of the object.
const SCANS_THEN_ALL: &str = r#"
name = "scans-then-all"
[cache]
memory = "64M"
max_window = "auto"
[device.store]
model = "object-store"
EXPECTED
[file.object]
device = "store"
size = "1G"
[[process]]
name = "scans"
run.scans = { file = "object", read = "64K", length = "4M", scans = 50 }
[[process]]
name = "reader"
start_ms = 60000
run.sequential = { file = "object", read = "64K" }
"#;

#[test]
fn readers_that_have_left_take_nothing_from_one_that_reads_all() {
    let text = SCANS_THEN_ALL.replace("EXPECTED", EXPECTED);
    let reader_s = |text: &str| run(text, &[]).seconds - 60.0;
    // The same reader, and next to none before it.
    let alone = text.replace("scans = 50", "scans = 1");
    let (with, alone) = (reader_s(&LINK.of(&text)), reader_s(&LINK.of(&alone)));
    assert!(with < 1.3 * alone, "{with} s after scans, {alone} s alone");
    assert!(alone < 4.0, "{alone} s");
}
