//! Hedging and back-off of stores: what they gain and cost in virtual time.

use foreread_sim::device::StoreTotals;
use foreread_sim::meter::ProcessMeter;
use foreread_sim::record::RecordMode;
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::Scenario;

fn go(text: &str) -> RunOutcome {
    let scenario = Scenario::parse(text).unwrap();
    let mut run = scenario.build(RecordMode::Hash).unwrap().run;
    run.go(scenario.until());
    run.end()
}

fn totals(ran: &RunOutcome, device: &str) -> StoreTotals {
    let meter = ran.devices.iter().find(|meter| meter.name == device).unwrap();
    meter.store.unwrap()
}

/// How many times as long as the median the slowest of 1000 reads takes.
fn tail(ran: &RunOutcome, process: &str) -> f64 {
    let meter = ran.processes.iter().find(|meter| meter.name == process).unwrap();
    let at = |quantile: f64| meter.latency().value_at_quantile(quantile) as f64;
    at(0.999) / at(0.5)
}

#[test]
fn hedging_makes_the_tail_a_third_for_two_per_cent_more_requests() {
    let text = include_str!("../scenarios/store-hedging.toml");
    for seed in 1..=2 {
        // 100 reads beyond p99.9.
        let text = text.replace("seed = 1", &format!("seed = {seed}"));
        let ran = go(&text.replace("reads = 50000", "reads = 100000"));
        let (hedged, single) = (totals(&ran, "hedged"), totals(&ran, "single"));
        // Some of the reads are hits.
        assert!((99_500..=100_000).contains(&single.requests), "{single:?}");
        assert!(hedged.hedged * 50 <= hedged.requests - hedged.hedged, "2 % at most");
        assert!(hedged.hedged > 1500 && single.hedged == 0, "{hedged:?}");
        let (with, without) = (tail(&ran, "hedged"), tail(&ran, "single"));
        // The best that a threshold can do with this budget is 4.94.
        assert!(with <= 5.15 && without >= 10.0, "seed {seed}: {with:.2}, {without:.2}");
    }
}

#[test]
fn a_store_that_refuses_gets_fewer_requests_and_serves_as_many() {
    let ran = go(include_str!("../scenarios/store-throttling.toml"));
    let reads = |name: &str| -> u64 {
        let of = |meter: &&ProcessMeter| meter.name.starts_with(name);
        ran.processes.iter().filter(of).map(|meter| meter.ops).sum()
    };
    let (careful, careless) = (totals(&ran, "careful"), totals(&ran, "careless"));
    let refused = |totals: StoreTotals| totals.throttled as f64 / totals.requests as f64;
    assert!(refused(careful) < 0.5 * refused(careless), "{careful:?} {careless:?}");
    // 500 a second for 20 s, and 20 at once.
    assert!((9500..=10_040).contains(&reads("careful-")), "{}", reads("careful-"));
    assert!(reads("careful-") * 100 > reads("careless-") * 95, "{}", reads("careless-"));
}

/// A store without a rate and a tail: no request is refused or sent twice.
#[test]
fn a_store_that_is_never_late_gets_each_request_once() {
    let ran = go(include_str!("../scenarios/object-store.toml"));
    let StoreTotals { requests, hedged, throttled, cost } = totals(&ran, "store");
    assert!(requests > 1000);
    assert_eq!((hedged, throttled, cost), (0, 0, 0.0));
}
