//! Servers: an NFS server's threads, a streaming server's clients, and the disk behind them.

use foreread_sim::record::RecordMode;
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::Scenario;

fn go(text: &str) -> RunOutcome {
    let scenario = Scenario::parse(text).expect("a scenario");
    let mut building = scenario.build(RecordMode::Hash).expect("it can be built");
    building.run.go(scenario.until());
    building.run.end()
}

fn nfsd(scheduler: &str, threads: u32, more: &str) -> RunOutcome {
    go(&format!(
        r#"
        name = "nfsd"
        cache.max_window = "128K"
        cache.policy = "linux-2.6.31"
        device.disk.scheduler = "{scheduler}"
        device.disk.model.flash = {{ capacity = "1G", mb_per_s = 100, overhead_us = 200 }}
        file.data = {{ device = "disk", size = "33000K" }}
        [[process]]
        name = "client"
        run.nfsd = {{ file = "data", threads = {threads}, link_mb_per_s = 100, {more} }}
        "#
    ))
}

#[test]
fn the_client_gets_the_whole_file_with_any_number_of_threads_and_any_state() {
    for threads in [1, 3, 8] {
        for state in ["shared", "thread", "request"] {
            let ran = nfsd("cfq", threads, &format!("state = {state:?}, cpu_us = 50"));
            assert_eq!(ran.processes[0].bytes.0, 33_000 << 10, "{threads} {state}");
            assert_eq!(ran.unfinished, 0, "{threads} {state}");
            assert_eq!(ran.devices[0].bytes(foreread_core::sched::Op::Read).0, 33_000 << 10);
        }
    }
}

#[test]
fn threads_of_one_stream_gain_under_deadline_and_lose_under_cfq() {
    let seconds = |scheduler: &str, threads: u32| {
        let text = include_str!("../../scenarios/001-nfsd.toml");
        let text = text.replace("500M", "50M").replace("\"cfq\"", &format!("{scheduler:?}"));
        let ran = go(&text.replace("threads = 8", &format!("threads = {threads}")));
        ran.processes[0].seconds(ran.end)
    };
    assert!(seconds("deadline", 4) * 1.5 < seconds("deadline", 1));
    assert!(seconds("cfq", 4) > 1.3 * seconds("cfq", 1));
}

/// How many ms a reader takes for 100 reads of 128K with a pause after each.
fn paused(buffer: &str, turns: bool, pause_us: u32) -> f64 {
    let ran = go(&format!(
        r#"
        name = "a reader that pauses"
        cache.policy = "none"
        [device.disk.model.hdd]
        capacity = "10G"
        rpm = 6000
        outer_mb_per_s = 100
        inner_mb_per_s = 100
        seek_min_ms = 1
        seek_max_ms = 10
        read_buffer = "{buffer}"
        buffer_overruns = {turns}
        [file.data]
        device = "disk"
        size = "12800K"
        [[process]]
        name = "reader"
        run.sequential = {{ file = "data", read = "128K", cpu_us = {pause_us} }}
        "#
    ));
    ran.processes[0].seconds(ran.end) * 1e3
}

#[test]
fn a_read_that_comes_after_its_sectors_were_overwritten_waits_for_the_platter_to_come_round() {
    // A read is 1.31 ms of the platter, which turns in 10 ms. In a pause of 5 ms the drive reads
    // on: a buffer of 1M has all of the next read, one of 128K has the newest only, and the next
    // read ends a turn after the last one's end and its own transfer.
    let (large, small) = (paused("1M", true, 5000), paused("128K", true, 5000));
    assert!((large - 500.0).abs() < 15.0, "100 pauses: {large}");
    assert!((small - 1131.0).abs() < 15.0, "100 turns and transfers: {small}");
    // A drive that stops at a full buffer still has it; without a pause no read waits for a turn.
    assert!((paused("128K", false, 5000) - 500.0).abs() < 15.0);
    let streams = paused("128K", true, 0);
    assert!((streams - 131.0).abs() < 12.0, "100 transfers: {streams}");
}

#[test]
fn a_slow_client_finds_its_pages_gone_and_a_fast_one_does_not() {
    let text = include_str!("../../scenarios/001-server.toml");
    let ran = go(&text.replace("until_s = 384", "until_s = 200"));
    let twice = |client: usize| ran.processes[client].other["read_twice"];
    assert!(twice(0) > 0.0, "8 KiB/s");
    assert!(twice(7) < 1.0, "128 KiB/s");
    // The whole of what was asked is what was read once and what was read twice.
    let again: f64 = ran.processes.iter().map(|client| client.other["read_twice"]).sum();
    let asked = ran.stats.device_pages as f64;
    let sent: u64 = ran.processes.iter().map(|client| client.bytes.0 / 4096).sum();
    assert!(asked - again >= sent as f64, "{asked} {again} {sent}");
    let ahead = 3.0 * 256.0 * ran.processes.len() as f64;
    assert!(asked - again <= sent as f64 + ahead, "{asked} {again} {sent}");
}

#[test]
fn what_no_server_can_be_is_refused() {
    let error = |run: &str| {
        let text = format!(
            "name = \"bad\"\nuntil_s = 1\ndevice.disk.model = \"sd-card\"\n\
             file.data = {{ device = \"disk\", size = \"1M\" }}\n\
             [[process]]\nname = \"p\"\nrun.{run}\n"
        );
        Scenario::parse(&text).expect_err("it is wrong").to_string()
    };
    let bad = error("nfsd = { file = \"data\", link_mb_per_s = 1, client_window = \"300K\" }");
    assert_eq!(bad, "line 7: client_window: must be whole requests of rsize, at least one");
    let bad = error("nfsd = { file = \"data\", link_mb_per_s = 0 }");
    assert_eq!(bad, "line 7: link_mb_per_s: must be 0.001 to 10^6");
    let bad = error(
        "streaming = { device = \"disk\", file_size = \"2G\", kib_per_s = [1], link_kib_per_s = 9 }",
    );
    assert_eq!(bad, "line 7: file_size: must be small enough for all files to fit the device");
    let bad = error(
        "streaming = { device = \"d\", file_size = \"1M\", kib_per_s = [1], link_kib_per_s = 9 }",
    );
    assert_eq!(bad, "line 7: no device \"d\"; choose one of disk");
}
