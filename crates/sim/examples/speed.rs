//! Measures simulated requests a second, on one core: `./dev bench sim`.
//!
//! In:    nothing.
//! Out:   one line for each scenario.
//! Never: part of a test: the result depends on the machine.

use std::time::Instant as Clock;

use foreread_core::units::Nanos;
use foreread_sim::record::RecordMode;
use foreread_sim::scenario::Scenario;

fn main() {
    println!("{:24} {:>10} {:>9} {:>14}", "scenario", "requests", "seconds", "requests/s");
    for (name, scheduler, processes) in [
        ("direct, noop", NOOP, DIRECT),
        ("direct, deadline", DEADLINE, DIRECT),
        ("direct, writes beside", DEADLINE, MIXED),
        ("cached, noop", NOOP, CACHED),
        ("cached, deadline", DEADLINE, CACHED),
        ("cached and direct", DEADLINE, BOTH),
    ] {
        let cache = "cache.max_window = \"128K\"";
        let text =
            format!("name = {name:?}\n{cache}\n{DEVICE}scheduler = {scheduler}\n{FILE}{processes}");
        let scenario = Scenario::built_in(&text);
        // The fastest of several runs, because other programs can only slow a run down.
        let best = (0..RUNS).map(|_| measure(&scenario)).min_by(|a, b| a.1.total_cmp(&b.1));
        let (requests, seconds) = best.expect("it was measured");
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = requests as f64 / seconds;
        println!("{name:24} {requests:>10} {seconds:>9.3} {rate:>14.0}");
    }
}

/// Returns the number of requests of a run, and its seconds.
fn measure(scenario: &Scenario) -> (u64, f64) {
    let mut building = scenario.build(RecordMode::Hash).expect("a scenario of ours");
    #[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
    let began = Clock::now();
    building.run.go(Nanos(u64::MAX));
    let seconds = began.elapsed().as_secs_f64();
    (building.run.requests(), seconds)
}

const RUNS: u32 = 5;

const DEVICE: &str = r#"
[device.disk]
model = { flash = { capacity = "64G", mb_per_s = 3000, overhead_us = 60, channels = 8, depth = 32 } }
"#;

const NOOP: &str = "\"noop\"";

const DEADLINE: &str = "{ deadline = { rule = \"mq\" } }";

const FILE: &str = r#"
[file.data]
device = "disk"
size = "32G"
"#;

const DIRECT: &str = r#"
[[process]]
name = "reader"
count = 32
run = { random = { file = "data", read = "4K", reads = 30000, direct = true } }
"#;

const MIXED: &str = r#"
[[process]]
name = "reader"
count = 32
run = { random = { file = "data", read = "4K", reads = 15000, direct = true } }
[[process]]
name = "writer"
count = 32
run = { random = { file = "data", read = "4K", reads = 15000, direct = true, write = true } }
"#;

const CACHED: &str = r#"
[[process]]
name = "reader"
count = 32
run = { random = { file = "data", read = "4K", reads = 30000 } }
"#;

const BOTH: &str = r#"
[[process]]
name = "reader"
count = 16
run = { random = { file = "data", read = "4K", reads = 30000 } }
[[process]]
name = "past"
count = 16
run = { random = { file = "data", read = "4K", reads = 30000, direct = true } }
"#;
