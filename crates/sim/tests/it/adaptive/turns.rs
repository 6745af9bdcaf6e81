//! Streams in strict turns, and readers that leave no tracks.

use foreread_core::prefetch::Policy;
use foreread_sim::policy;

use super::{measure, ours, row, scenario};

/// In MB/s: the best of the kernel's policies that is told its window, over all windows.
fn best_fixed(name: &str) -> f64 {
    let windows = [64, 128, 256, 512, 1024];
    let speed = |kib| row(name, Policy::Linux6, Some(kib)).mb_per_s;
    windows.map(speed).into_iter().fold(0.0, f64::max)
}

#[track_caller]
fn reads_nothing_in_vain(name: &str) -> f64 {
    let row = ours(name);
    assert!(row.amplification <= 1.02, "{} bytes a byte wanted", row.amplification);
    row.mb_per_s
}

#[test]
fn two_hundred_streams_in_128_mib() {
    reads_nothing_in_vain("turns-200-in-128m");
}

#[test]
fn two_hundred_streams_in_64_mib() {
    let speed = reads_nothing_in_vain("turns-200-in-64m");
    let best = best_fixed("turns-200-in-64m");
    assert!(speed >= 0.9 * best, "{speed} MB/s, a fixed window {best}");
}

#[test]
fn two_hundred_streams_in_32_mib() {
    let speed = reads_nothing_in_vain("turns-200-in-32m");
    assert!(speed >= 300.0, "{speed} MB/s");
}

#[test]
fn a_reader_that_drops_what_it_has_read_is_as_fast_as_one_that_does_not() {
    let dropping = scenario("drop-behind");
    let text = foreread_sim::rivals::find("drop-behind").unwrap().text;
    let plain = super::parsed(&text.replace("drops_behind = true", "drops_behind = false"));
    let (dropping, plain) = (measure(&dropping).mb_per_s(), measure(&plain).mb_per_s());
    assert!(dropping >= 0.95 * plain, "{dropping} MB/s, a plain reader {plain}");
    let kernel = row("drop-behind", policy::LINUX_2_6_31, Some(128)).mb_per_s;
    assert!(kernel < 0.5 * plain, "linux-2.6.31 does not see the streams: {kernel}");
}

#[test]
fn random_reads_fetch_what_they_want_and_no_more() {
    for name in ["random-4k", "random-16k", "random-64k"] {
        let row = ours(name);
        assert!(row.amplification <= 1.0, "{name}: {}", row.amplification);
    }
}

/// The scans want 120 MB/s of 500, so 0.24 of the bus; what is left is the look-ups' share.
#[test]
fn scans_keep_their_rate_beside_look_ups_and_look_ups_theirs() {
    let beside = measure(&scenario("zipf-mix"));
    for scan in beside.of("scan") {
        let speed = scan.bytes as f64 / beside.elapsed_s() / 1e6;
        assert!(speed >= 0.9 * 30.0, "a scan has {speed} MB/s of 30");
    }
    let mut alone = scenario("zipf-mix");
    alone.process.retain(|process| process.name == "look-up");
    let reads = |measured: &foreread_sim::rivals::MeasuredRun| -> f64 {
        measured.of("look-up").iter().map(|done| done.bytes as f64 / 4096.0).sum()
    };
    let (share, got) = (reads(&measure(&alone)) * (1.0 - 0.24), reads(&beside));
    // Not all of it: windows take frames in which likely pages would have stayed.
    assert!(got >= 0.95 * share, "{got} look-ups, their share is {share}");
}
