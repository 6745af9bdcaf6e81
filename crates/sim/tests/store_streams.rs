//! Streams of an object store: how soon one has the link, and what many fetch that nobody wants.
//!
//! Everything is virtual: a test that fails fails everywhere. Figures: docs/objects.md.

use foreread_core::prefetch::Policy;
use foreread_core::units::Nanos;
use foreread_sim::record::RecordMode;
use foreread_sim::rivals::PolicySetup;
use foreread_sim::scenario::{PartName, Scenario};

const ONE: &str = include_str!("../scenarios/object-store.toml");
const POSITIONS: &str = include_str!("../scenarios/store-positions.toml");
const PACED: &str = include_str!("../scenarios/store-paced.toml");
const THOUSAND: &str = include_str!("../scenarios/store-thousand.toml");

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
    requests: u64,
    evicted_unread: u64,
    /// How long after it was due the latest read ended, in ms.
    latest_ms: f64,
    /// The same without the first read of each, which waits for a request.
    wanted: u64,
}

fn run(text: &str, without: &[PartName]) -> Outcome {
    let mut scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let without = without.to_vec();
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
    let read = |totals: &foreread_sim::meter::RunTotals| -> u64 {
        totals.processes.iter().map(|process| process.bytes).sum()
    };
    let base = from.as_ref().map_or((0, 0, 0, 0), |from| {
        (read(from), from.device_bytes, from.requests, from.evicted_unread)
    });
    let last = ran.processes.iter().filter_map(|process| process.ended).max().unwrap_or(ran.end);
    let latest = ran.processes.iter().filter_map(|process| process.other.get("latest_ms"));
    let wanted = read(&to) - base.0;
    Outcome {
        seconds: last.0 as f64 / 1e9,
        bytes: (to.device_bytes - base.1) as f64 / wanted as f64,
        requests: to.requests - base.2,
        evicted_unread: to.evicted_unread - base.3,
        latest_ms: latest.copied().fold(0.0, f64::max),
        wanted,
    }
}

fn first_256_mib(link: Link, expected: bool) -> Outcome {
    let text = link.of(ONE).replace("read = \"64K\"", "read = \"128K\", amount = \"256M\"");
    let file = if expected { format!("{EXPECTED}\n\n[file.object]") } else { "[file.object]".into() };
    run(&text.replace("[file.object]", &file), &[])
}

#[test]
fn lines() {
    let link = Link { ms: 100.0, ..LINK };
    let text = link.of(ONE).replace("read = \"64K\"", "read = \"128K\", amount = \"256M\"");
    let text = text.replace("[file.object]", &format!("{EXPECTED}\n\n[file.object]"));
    for text in [text, link.of(POSITIONS)] {
        let mut scenario = Scenario::parse(&text).unwrap();
        PolicySetup { policy: Policy::Adaptive, max_window: None, without: Vec::new() }
            .set(&mut scenario);
        let mut run = scenario.build(RecordMode::Lines).unwrap().run;
        run.go(scenario.until());
        for line in run.end().lines.iter().filter(|line| line.contains(" s")).take(120) {
            println!("{line}");
        }
    }
}

#[test]
fn show() {
    for ms in [5.0, 20.0, 45.0, 100.0] {
        for sigma in [0.0, 0.5] {
            let link = Link { ms, sigma, ..LINK };
            for expected in [false, true] {
                let got = first_256_mib(link, expected);
                println!("one {ms} ms {sigma} {expected}: {:.2} of bare; {got:?}", link.bare_s(1 << 28) / got.seconds);
            }
            println!("positions {ms} {sigma}: {:?}", run(&link.of(POSITIONS), &[]));
            println!("positions, no far {ms} {sigma}: {:?}", run(&link.of(POSITIONS), &[PartName::Far]));
            println!("paced {ms} {sigma}: {:?}", run(&link.of(PACED), &[]));
            println!("paced, no far {ms} {sigma}: {:?}", run(&link.of(PACED), &[PartName::Far]));
        }
    }
    println!("thousand: {:?}", run(THOUSAND, &[]));
    println!("thousand, no far: {:?}", run(THOUSAND, &[PartName::Far]));
}
