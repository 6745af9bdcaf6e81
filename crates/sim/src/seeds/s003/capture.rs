//! Video capture: requested in the thread, but never measured there.

use super::targets::Targets;
use crate::record::RecordMode;
use crate::scenario::Scenario;
use crate::seeds::table::{SeedCell, SeedProgress, SeedTable};
use crate::time::seconds;

/// Result of a capture.
#[derive(Clone, Copy, Debug)]
struct Captured {
    lost: f64,
    max_buffer: f64,
    /// Longest wait for a bitmap, including an unfinished one.
    bitmap_ms: f64,
    is_stuck: bool,
    reads_kib_per_s: f64,
}

pub(super) fn table(progress: SeedProgress<'_>) -> SeedTable {
    let base = Scenario::built_in(include_str!("../../../scenarios/003-capture.toml"));
    let mut alone = base.clone();
    let dd = alone.process.pop().expect("dd is the last process of the scenario");
    assert!(dd.name == "dd", "the scenario ends with it");
    let mut cells = Vec::new();
    let mut beside_dd = Vec::new();
    for (others, scenario) in [("readers", &alone), ("readers and a dd", &base)] {
        for starved in STARVED {
            progress(&format!("003 capture, writes_starved {starved}, {others}"));
            let captured = capture(scenario, starved);
            let row = format!("{others}, writes_starved {starved}");
            let mut add = |column, ours| cells.push(SeedCell::ours_only(&row, column, ours));
            add("pictures lost", captured.lost);
            add("largest buffer", captured.max_buffer);
            add("longest wait for a bitmap (ms)", captured.bitmap_ms);
            add("others read (KiB/s)", captured.reads_kib_per_s);
            if others != "readers" {
                beside_dd.push(captured);
            }
        }
    }
    let [two, one, zero, four] = beside_dd[..] else { panic!("four settings") };
    let mut targets = Targets::new();
    let stuck_s = zero.bitmap_ms / 1e3;
    targets.add(zero.is_stuck, format!("0 starves a bitmap read, for {stuck_s:.0} s at the end"));
    let bounded = format!("-4 bounds it: {:.0} ms", four.bitmap_ms);
    targets.add(!four.is_stuck && four.bitmap_ms < 1000.0, bounded);
    let lost =
        format!("lost beside a dd: {}, {}, {}, {}", two.lost, one.lost, zero.lost, four.lost);
    let is_best = [two, one, zero].iter().all(|other| four.lost < other.lost);
    targets.add(is_best, lost);
    let notes = vec![
        "No figures were published: Daniel Pittman asked for writes_starved = -4, a bounded \
         preference for writes, for video of 10 to 20 MB/s. Here: 10.4 MB/s, 25 pictures per \
         second, a buffer of 50, a bitmap block read every 32 MiB, five readers; a thousand \
         pictures."
            .into(),
        "With readers only, 0 works well, because the capture's writes do not saturate the disk, \
         and reads are served in between. Next to another writer that always has requests queued, \
         no read is ever served: the capture waits for its bitmap, and all pictures are lost."
            .into(),
    ];
    let title = "video capture by writes_starved".into();
    let verdict = targets.verdict();
    SeedTable { seed: "003", table: "003_capture", title, cells, notes, verdict }
}

fn capture(base: &Scenario, starved: &str) -> Captured {
    let mut scenario = base.clone();
    let disk = scenario.device.get_mut("disk").expect("the built-in scenario has this entry");
    disk.scheduler.choice.set("writes_starved", starved).expect("the setting exists");
    let mut building = scenario
        .build(RecordMode::Hash)
        .expect("the scenario is part of the program and was checked");
    building.run.go(scenario.until());
    let ran = building.run.end();
    let of = |name| ran.processes[0].other.get(name).copied();
    let end_s = seconds(ran.end.0);
    let waiting_ms = of("bitmap_since_s").map_or(0.0, |since| (end_s - since) * 1e3);
    let readers = ran.processes.iter().filter(|process| process.name.starts_with("cat"));
    let read: u64 = readers.map(|reader| reader.bytes.0).sum();
    Captured {
        lost: of("lost").unwrap_or(0.0),
        max_buffer: of("max_buffer").expect("the scenario records pictures"),
        bitmap_ms: of("bitmap_max_ms").unwrap_or(0.0).max(waiting_ms),
        is_stuck: waiting_ms > LONG_MS,
        reads_kib_per_s: kib(read) / end_s,
    }
}

#[expect(clippy::cast_precision_loss, reason = "53 bits of bytes")]
fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

const STARVED: [&str; 4] = ["2", "1", "0", "-4"];
/// Longer than any wait that ends.
const LONG_MS: f64 = 10_000.0;
