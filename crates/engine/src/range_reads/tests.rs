//! White-box tests of range reads: the device gets exactly the planned requests. The plan depends
//! on the learnt costs, so that no test depends on time.

use foreread_core::ranges::{RequestPlan, plan};

use crate::delay::Delay;
use crate::{Engine, File, OpenOptions};

const PAGE: u64 = 4096;

/// Creates an engine and a file of 64 MiB on a single-headed device whose costs the engine has
/// learnt.
fn slow_device(dir: &tempfile::TempDir, delay: &str) -> (Engine, File) {
    let path = dir.path().join("file");
    std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let engine = Engine::builder().memory(64 << 20).build().unwrap();
    let delay: Delay = delay.parse().unwrap();
    let file = engine.open_with(&path, &OpenOptions::new().delay(delay)).unwrap();
    file.advise(crate::Advice::Random);
    let mut buffer = vec![0; 128 << 10];
    for n in 0..16_u64 {
        let size = if n % 2 == 0 { 4 << 10 } else { 128 << 10 };
        file.read_at(&mut buffer[..size], n << 20).unwrap();
    }
    file.dont_need(0..64 << 20).unwrap();
    assert!(file.device().model().unwrap().is_some(), "sixteen reads found it idle");
    (engine, file)
}

/// Returns the current plan of the engine.
fn planned(engine: &Engine, file: &File, wanted: &[std::ops::Range<u64>]) -> RequestPlan {
    let driver = engine.state.drive().unwrap();
    let (model, limits) = driver.path.planning(file.shared().id).unwrap();
    plan(wanted, &model, &limits)
}

#[test]
fn a_device_gets_the_requests_of_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, file) = slow_device(&dir, "latency=2ms,parallel=1,bandwidth=50M");
    let mut wanted: Vec<_> = (0..20).map(|n| n * 9 * PAGE..(n * 9 + 2) * PAGE).collect();
    wanted.extend([40 << 20..41 << 20, (41 << 20) + PAGE..(41 << 20) + 2 * PAGE]);
    let plan = planned(&engine, &file, &wanted);
    assert!(plan.requests().len() < wanted.len(), "gaps of 28 KiB cost less than 2 ms");
    let before = engine.counters().unwrap().path;
    let reads = file.read_ranges(&wanted).unwrap();
    assert!(reads.iter().zip(&wanted).all(|(read, range)| {
        read.len() as u64 == range.end - range.start && read.iter().all(|byte| *byte == 0)
    }));
    let after = engine.counters().unwrap().path;
    assert_eq!(after.device_reads - before.device_reads, plan.requests().len() as u64);
    assert_eq!((after.device_pages - before.device_pages) * PAGE, plan.bytes());
}
