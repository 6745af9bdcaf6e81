//! What `adaptive` has to reach, in the scenarios of `scenarios/rivals/`.
//!
//! Each test is a line of the table that the policy was built for; the figures are in
//! docs/lab/rivals.md. Everything is virtual: a test that fails fails everywhere.

mod devices;
mod scans;
mod shares;
mod streaming;
mod turns;

use foreread_core::prefetch::{Policy, Without};
use foreread_core::units::ByteCount;
use foreread_sim::rivals::{self, MeasuredRun, PolicySetup, RivalRow};
use foreread_sim::scenario::Scenario;

/// A scenario with `adaptive`, which is told nothing.
fn scenario(name: &str) -> Scenario {
    let mut scenario = rivals::find(name).expect(name).scenario();
    how(Policy::Adaptive, None).set(&mut scenario);
    scenario
}

fn how(policy: Policy, window_kib: Option<u64>) -> PolicySetup {
    PolicySetup {
        policy,
        max_window: window_kib.map(|kib| ByteCount(kib << 10)),
        without: Without::default(),
    }
}

fn row(name: &str, policy: Policy, window_kib: Option<u64>) -> RivalRow {
    let row = rivals::run(rivals::find(name).expect(name), &how(policy, window_kib), &mut |_| {});
    println!("{row:?}");
    row
}

fn ours(name: &str) -> RivalRow {
    row(name, Policy::Adaptive, None)
}

fn measure(scenario: &Scenario) -> MeasuredRun {
    rivals::measure(scenario, &mut |_| {})
}

/// A scenario that is not in the list.
fn parsed(text: &str) -> Scenario {
    let mut scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    how(Policy::Adaptive, None).set(&mut scenario);
    scenario
}
