//! What a drive of 2002 does with its buffer, and what waits at its controller.

use std::cell::Cell;
use std::rc::Rc;

use foreread_core::path::DeviceId;
use foreread_core::sched::{Op, SchedulerKind};
use foreread_core::units::{ByteCount, Nanos, Sector, Sectors};
use foreread_sim::device::DeviceParams;
use foreread_sim::process::Process;
use foreread_sim::record::RecordMode;
use foreread_sim::run::SimRun;
use foreread_sim::scenario::{CacheSpec, Scenario};

/// 6 ms a turn, 128K in 4 ms.
fn disk(more: &str) -> DeviceParams {
    let common = "capacity = \"10G\"\nrpm = 10000\nouter_mb_per_s = 32.768\n\
                  inner_mb_per_s = 32.768\nseek_min_ms = 1\nseek_max_ms = 10\noverhead_us = 100\n\
                  max_command = \"128K\"\n";
    let table: toml::Table = toml::from_str(&format!("[hdd]\n{common}{more}")).expect("TOML");
    table.try_into().expect("a model")
}

/// How long a process takes, in ms.
fn ms_of<F: Future<Output = ()> + 'static>(
    more: &str,
    what: impl FnOnce(Process, DeviceId) -> F,
) -> f64 {
    let mut run =
        SimRun::new(CacheSpec::default().config([]), 1, RecordMode::Hash).expect("enough memory");
    let disk = run.device("disk", &disk(more), &SchedulerKind::Noop).expect("a possible disk");
    run.spawn("process", |process| what(process, disk));
    run.go(Nanos(u64::MAX));
    run.end().end.0 as f64 / 1e6
}

async fn read(process: &Process, disk: DeviceId, page: u64, pages: u64) {
    let (start, sectors) = (Sector(page * 8), Sectors(pages * 8));
    process.direct(disk, Op::Read, start, sectors).await.expect("no faults");
}

async fn write(process: &Process, disk: DeviceId, page: u64) {
    let done = process.direct(disk, Op::Write, Sector(page * 8), Sectors(8)).await;
    done.expect("no faults");
}

/// Two reads of neighbours with a write far away between them: what the second one takes.
fn second_read_ms(more: &str, page: u64, pages: u64) -> f64 {
    let took = Rc::new(Cell::new(0.0));
    let seen = Rc::clone(&took);
    ms_of(more, async move |process, disk| {
        read(&process, disk, 1000, 4).await;
        write(&process, disk, 500_000).await;
        let began = process.now();
        read(&process, disk, page, pages).await;
        seen.set((process.now().0 - began.0) as f64 / 1e6);
    });
    took.get()
}

#[test]
fn what_was_read_on_stays_in_the_buffer_whatever_is_written() {
    assert!(second_read_ms("", 1004, 8) > 1.1, "the arm comes back");
    let hit_ms = second_read_ms("read_on = \"64K\"", 1004, 8);
    assert!((hit_ms - 0.1).abs() < 1e-6, "{hit_ms}: the overhead and no more");
    assert!(second_read_ms("read_on = \"64K\"", 1020, 8) > 1.1, "that is behind it");
    assert!(second_read_ms("read_on = \"64K\"", 1016, 8) > 1.1, "half of that is behind it");
}

#[test]
fn the_arm_stays_until_the_drive_has_read_on() {
    let both_ms = |more| {
        ms_of(more, async move |process, disk| {
            read(&process, disk, 0, 4).await;
            write(&process, disk, 220).await;
        })
    };
    // The read ends at 6.5 ms, and the place of the write passes at 9.5 and 15.5 ms. The arm needs
    // a bit more than 1 ms to get there, and reading 128K on takes 4.
    let later_ms = both_ms("read_on = \"128K\"") - both_ms("read_on = \"4K\"");
    assert!((later_ms - 6.0).abs() < 0.01, "{later_ms}: one turn");
}

/// Sixteen writes of 128K, one behind the other, as many queued as the device takes.
fn writes_ms(more: &str) -> f64 {
    ms_of(more, async move |process, disk| {
        let slots = process.slots(16);
        for index in 0..16 {
            let start = Sector(index * 256);
            process.post(slots, disk, Op::Write, start, Sectors(256)).await;
        }
        for _ in 0..16 {
            process.take_slot(slots).await;
        }
    })
}

#[test]
fn writes_without_a_cache_lose_a_turn_each_unless_the_drive_holds_the_next_one() {
    let (alone, ahead, held) =
        (writes_ms(""), writes_ms("in_controller = 1"), writes_ms("depth = 2"));
    assert!((ahead - alone).abs() < 2.0, "{ahead} {alone}: the drive does not know of it");
    // 16 transfers of 4 ms, each behind a turn of 6 ms less where the platter is by then.
    assert!(alone > 16.0 * 8.0, "{alone}");
    assert!(held < 16.0 * 5.0, "{held}");
    let cached = writes_ms("write_buffer = true");
    assert!(cached < 16.0 * 5.0, "{cached}");
}

/// A read beside writes that never pause: how long it waits, in ms; None if for a minute.
fn read_beside_writes_ms(age_weight: &str) -> Option<f64> {
    let more = format!("depth = 4\npick = \"nearest\"\nage_weight = {age_weight}");
    let mut run =
        SimRun::new(CacheSpec::default().config([]), 1, RecordMode::Hash).expect("enough memory");
    let disk = run.device("disk", &disk(&more), &SchedulerKind::Noop).expect("a possible disk");
    run.spawn("writes", async move |process: Process| {
        let slots = process.slots(8);
        for index in 0.. {
            let start = Sector(index % 65_536 * 256);
            process.post(slots, disk, Op::Write, start, Sectors(256)).await;
        }
    });
    run.spawn("read", async move |process: Process| {
        process.pass_ns(1_000_000_000).await;
        read(&process, disk, 2_500_000, 1).await;
    });
    run.go(Nanos(60_000_000_000));
    let ran = run.end();
    let read = &ran.processes[1];
    read.ended.map(|at| at.0 as f64 / 1e6 - 1000.0)
}

#[test]
fn a_drive_that_is_blind_to_age_lets_writes_pass_a_read_for_ever() {
    assert_eq!(read_beside_writes_ms("0"), None);
    let waits = ["0.01", "0.1"].map(|weight| read_beside_writes_ms(weight).expect("it ends"));
    assert!(waits[0] > 100.0, "{waits:?}");
    assert!(waits[1] < waits[0], "{waits:?}");
}

#[test]
fn a_place_that_the_device_does_not_have_is_refused() {
    let text = "name = \"x\"\nuntil_s = 1\n[device.disk]\nmodel = \"ide-2002\"\n[[process]]\n\
                name = \"dd\"\nrun.flood = { device = \"disk\", at = \"39G\", size = \"2G\" }\n";
    let error = Scenario::parse(text).expect_err("41G of 40G").to_string();
    assert!(error.starts_with("line 7: at: "), "{error}");
    let error =
        Scenario::parse(&text.replace("\"disk\", at", "\"tape\", at")).expect_err("no tape");
    assert!(error.to_string().contains("choose one of disk"), "{error}");
}

#[test]
fn a_flood_keeps_to_its_rate_and_its_amount() {
    let text = "name = \"x\"\n[device.disk]\nmodel = \"ide-2002\"\n[[process]]\nname = \"dd\"\n\
                run.flood = { device = \"disk\", size = \"1G\", amount = \"10M\", kib_per_s = 1024 }\n";
    let mut run =
        Scenario::parse(text).expect("a scenario").build(RecordMode::Hash).expect("possible").run;
    run.go(Nanos(u64::MAX));
    assert_eq!(run.devices()[0].bytes(Op::Write), ByteCount(10 << 20));
    let took_s = run.end().end.0 as f64 / 1e9;
    assert!((9.8..10.1).contains(&took_s), "{took_s}");
}
