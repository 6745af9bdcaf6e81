//! Policies in the scenarios of `scenarios/rivals/`: `--example rivals [SCENARIO [POLICY]]`.
//!
//! In:    the names of a scenario and a policy, or parts of them; parts of `adaptive` to leave out.
//! Out:   a line for each.
//! Never: a figure that `foreread sim rivals` does not print too: this one is built in less time.

use std::time::Instant as Clock;

use foreread_core::readahead::Policy;
use foreread_sim::rivals::{self, Row};
use foreread_sim::scenario::PartName;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |at: usize, name: &str| args.get(at).is_none_or(|part| name.contains(part));
    for rival in rivals::all().iter().filter(|rival| is_wanted(0, rival.name)) {
        for policy in Policy::ALL.into_iter().filter(|policy| is_wanted(1, policy.name())) {
            for mut how in rival.ways(policy) {
                let is_out = |part: &PartName| args.iter().skip(2).any(|arg| arg == part.name());
                how.without = PartName::ALL.into_iter().filter(is_out).collect();
                #[expect(clippy::disallowed_methods, reason = "how long it takes is of interest")]
                let began = Clock::now();
                let row = rivals::run(rival, &how, &mut |_| {});
                print(&row, began.elapsed().as_secs_f64());
            }
        }
    }
}

fn print(row: &Row, seconds: f64) {
    println!(
        "{:22} {:13} {:>8} {:8.1} s {:>8} requests ({:>5.2} x) {:8.1} s busy, {:6.3} x bytes, \
         {:>8} unread, {:9.1} s waited, {:8.2} MB/s, {}/{} at rate   [{seconds:.1} s]",
        row.scenario,
        row.policy,
        row.max_window.map_or("auto".into(), |window| format!("{}K", window >> 10)),
        row.elapsed_s,
        row.requests,
        row.optimum_requests.map_or(0.0, |optimum| row.requests as f64 / optimum),
        row.device_s,
        row.amplification,
        row.evicted_unread,
        row.waited_s,
        row.mb_per_s,
        row.at_rate,
        row.streams,
    );
}
