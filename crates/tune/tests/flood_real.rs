//! The mixed load on real file systems: it runs, it puts everything back, it leaves nothing.
//!
//! In:    loop devices of our own with ext4 on them; a tmpfs; folders of this machine.
//! Out:   what is left afterwards: files, settings.
//! Never: a setting of a device that is not ours. A time: how fast a machine is proves nothing.

#[path = "../../engine/tests/common/mod.rs"]
mod common;
#[path = "flood_real/disk.rs"]
mod disk;

use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Need, needs};
use disk::{Disk, clock};
use foreread_tune::flood::{
    FloodOutcome, FloodReport, MixedLoad as _, RealMixedLoad, ScratchFile, TunableQueue, measure,
};
use foreread_tune::probe::Stopped;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::{Queue, SystemRoot};

use crate::common::Command;

/// Measures in a folder, as the command does.
fn run(folder: &Path, may_set: bool, budget: Duration) -> Result<FloodOutcome, Stopped> {
    let interrupted = Arc::new(AtomicBool::new(false));
    run_until(folder, may_set, budget, &interrupted)
}

fn run_until(
    folder: &Path,
    may_set: bool,
    budget: Duration,
    interrupted: &Arc<AtomicBool>,
) -> Result<FloodOutcome, Stopped> {
    let sys = SystemRoot::here();
    let scratch = ScratchFile::create(folder, clock, interrupted)?;
    let number = scratch.device().expect("a file has a device");
    let Some(offer) = TunableQueue::of(&sys, number, may_set) else {
        return Err(Stopped::Failed("no block device".into()));
    };
    let mut set = |setting: &DeviceSetting| -> io::Result<()> { setting.set(&sys) };
    let interrupted = Arc::clone(interrupted);
    let mut load =
        RealMixedLoad::new(scratch, sys.clone(), &offer.device, &mut set, clock, interrupted);
    Ok(measure(&mut load, &offer, budget, 1, &mut |_| {}))
}

fn show(report: &FloodReport) {
    println!("{}: {:.1} s", report.device, report.seconds);
    println!("| setting | read median ms | p99 ms | reads/s | of runs | writes MB/s | runs |");
    println!("|---|---|---|---|---|---|---|");
    for row in &report.rows {
        println!(
            "| {} | {:.2} | {:.2} | {:.1} | {:.1}-{:.1} | {:.1} | {} |",
            row.name,
            row.read_median_us / 1e3,
            row.read_p99_us / 1e3,
            row.reads_per_s,
            row.low,
            row.high,
            row.write_mb_per_s,
            row.runs
        );
    }
    println!("{:?}\n{}\n{:?}", report.recommended, report.why, report.notes);
}

const SHORT: Duration = Duration::from_secs(2);

/// Whether disks of our own can be made.
fn can_make_disks(test: &str) -> bool {
    let able = [Need::Root, Need::Loop, Need::ODirect, Need::Tool("mkfs.ext4")];
    able.into_iter().all(|need| needs(need, test))
}

fn queue_of(disk: &Disk) -> Queue {
    SystemRoot::here().device(disk.name()).expect("it is there").queue
}

#[test]
fn it_runs_and_leaves_neither_a_file_nor_a_setting() {
    if !can_make_disks("it_runs_and_leaves_neither_a_file_nor_a_setting") {
        return;
    }
    let disk = Disk::new(256);
    let (queue, free) = (queue_of(&disk), disk.free());
    let FloodOutcome { report, stopped } = run(disk.folder(), true, SHORT).expect("it runs");
    assert_eq!(stopped, None);
    assert_eq!(report.device, disk.name());
    assert!(report.restored, "{:?}", report.notes);
    assert_eq!(queue_of(&disk), queue, "all settings are as before");
    assert!(report.rows.len() >= 2, "{:?}", report.rows);
    for row in &report.rows {
        assert!(row.reads >= 3, "{row:?}");
        assert!(row.write_mb_per_s > 0.0, "{row:?}");
        assert!(row.read_median_us <= row.read_p99_us, "{row:?}");
    }
    disk.sync();
    assert_eq!(disk.free(), free, "nothing is left");
    assert_eq!(disk.names(), ["lost+found"]);
}

#[test]
fn without_leave_to_set_nothing_is_set() {
    if !can_make_disks("without_leave_to_set_nothing_is_set") {
        return;
    }
    let disk = Disk::new(256);
    let queue = queue_of(&disk);
    let FloodOutcome { report, .. } = run(disk.folder(), false, SHORT).expect("it runs");
    assert_eq!(report.rows.len(), 1);
    assert_eq!(queue_of(&disk), queue);
    assert!(report.recommended.is_empty());
}

#[test]
fn an_interrupt_ends_it_and_leaves_nothing() {
    if !can_make_disks("an_interrupt_ends_it_and_leaves_nothing") {
        return;
    }
    let disk = Disk::new(256);
    let (queue, free) = (queue_of(&disk), disk.free());
    let interrupted = Arc::new(AtomicBool::new(false));
    let sys = SystemRoot::here();
    let scratch = ScratchFile::create(disk.folder(), clock, &interrupted).expect("it has room");
    let number = scratch.device().expect("a device");
    let offer = TunableQueue::of(&sys, number, true).expect("a block device");
    let mut set = |setting: &DeviceSetting| -> io::Result<()> { setting.set(&sys) };
    let flag = Arc::clone(&interrupted);
    let mut load = RealMixedLoad::new(scratch, sys.clone(), &offer.device, &mut set, clock, flag);
    let mut runs = 0;
    let outcome = measure(&mut load, &offer, Duration::from_secs(60), 1, &mut |_| {
        runs += 1;
        interrupted.store(runs == 3, Ordering::Relaxed);
    });
    drop(load);
    assert_eq!(outcome.stopped, Some(Stopped::Interrupted));
    assert_eq!(outcome.report.rows.len(), 2, "what is known so far");
    assert!(outcome.report.restored);
    assert_eq!(queue_of(&disk), queue);
    disk.sync();
    assert_eq!(disk.free(), free);

    interrupted.store(true, Ordering::Relaxed);
    let refused = run_until(disk.folder(), true, SHORT, &interrupted);
    assert_eq!(refused, Err(Stopped::Interrupted), "also while the file is written");
    disk.sync();
    assert_eq!(disk.free(), free);
}

#[test]
fn a_small_or_full_file_system_is_refused_and_left_as_it_was() {
    if !can_make_disks("a_small_or_full_file_system_is_refused_and_left_as_it_was") {
        return;
    }
    let small = Disk::new(24);
    let free = small.free();
    let Err(Stopped::Failed(why)) = run(small.folder(), true, SHORT) else { panic!("it fits") };
    assert!(why.ends_with("MiB free, 128 MiB needed; name another folder"), "{why}");
    assert_eq!(small.free(), free);

    // A file system that is large enough, but nearly full.
    let full = Disk::new(256);
    let free = full.free();
    let held = full.hold_all_but(8);
    let Err(Stopped::Failed(why)) = run(full.folder(), true, SHORT) else { panic!("it fits") };
    assert!(why.contains("MiB free, 128 MiB needed"), "{why}");
    drop(held);
    full.sync();
    assert_eq!(full.free(), free);
}

#[test]
fn a_file_system_that_fills_up_meanwhile_is_told() {
    if !can_make_disks("a_file_system_that_fills_up_meanwhile_is_told") {
        return;
    }
    // The backing file lies where there is room for a part of it only.
    let disk = Disk::on_little_room(256, 40);
    let Err(Stopped::Failed(why)) = run(disk.folder(), true, SHORT) else { panic!("it fits") };
    assert!(why.contains("the scratch file: "), "{why}");
    assert_eq!(disk.names(), ["lost+found"]);
}

/// The file has no name, so the kernel takes it away with the process that had it open.
#[test]
fn a_kill_leaves_nothing() {
    if !can_make_disks("a_kill_leaves_nothing") {
        return;
    }
    let disk = Disk::new(256);
    let free = disk.free();
    let me = std::env::current_exe().expect("a path");
    let mut child = Command::new(me)
        .args(["--ignored", "--exact", "the_one_that_is_killed", "--nocapture"])
        .env("FLOOD_IN", disk.folder())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(child.stdout.take().expect("it was asked for"));
    let begun = said.lines().map_while(Result::ok).any(|line| line.contains(UNDER_WAY));
    let during = disk.free();
    child.kill().expect("it is killed");
    child.wait().expect("it has ended");
    assert!(begun, "it ended by itself");
    assert!(during.0 < free.0, "there was a file");
    disk.sync();
    assert_eq!(disk.free(), free, "nothing is left");
    assert_eq!(disk.names(), ["lost+found"]);
}

const UNDER_WAY: &str = "the flood is under way";

#[test]
#[ignore = "slow: it runs until a_kill_leaves_nothing kills it"]
fn the_one_that_is_killed() {
    let Some(folder) = std::env::var_os("FLOOD_IN") else {
        // A part of another test, which starts it.
        return;
    };
    let never = Arc::new(AtomicBool::new(false));
    let sys = SystemRoot::here();
    let scratch = ScratchFile::create(Path::new(&folder), clock, &never).expect("it has room");
    let number = scratch.device().expect("a device");
    let offer = TunableQueue::of(&sys, number, false).expect("a block device");
    let mut set = |_: &DeviceSetting| -> io::Result<()> { unreachable!("nothing may be set") };
    let mut load = RealMixedLoad::new(scratch, sys, &offer.device, &mut set, clock, never);
    load.run(Duration::from_millis(10)).expect("it runs");
    println!("{UNDER_WAY}");
    load.run(Duration::from_secs(600)).expect("it runs");
}

#[test]
fn what_cannot_be_a_scratch_folder_gets_one_line() {
    let refused = |folder: &Path| match run(folder, false, SHORT) {
        Err(Stopped::Failed(why)) => why,
        other => panic!("{}: {other:?}", folder.display()),
    };
    let why = refused(Path::new("/nonexistent"));
    assert!(why.starts_with("/nonexistent: ") && !why.contains('\n'), "{why}");
    let why = refused(Path::new("/proc"));
    assert!(why.starts_with("/proc: ") && !why.contains('\n'), "{why}");
    let why = refused(Path::new("/proc/self/exe"));
    assert!(!why.contains('\n'), "{why}");
    if needs(Need::Root, "what_cannot_be_a_scratch_folder_gets_one_line") {
        let tmpfs = disk::Tmpfs::new("size=200m");
        let why = refused(tmpfs.folder());
        let is_told = why.contains("no O_DIRECT") || why.contains("no block device");
        assert!(is_told && !why.contains('\n'), "{why}");
        // Not by a remount, which fails while a child of another test has a file of it open.
        let tmpfs = disk::Tmpfs::new("size=200m,ro");
        let why = refused(tmpfs.folder());
        assert!(why.contains("Read-only file system"), "{why}");
    }
}

#[test]
#[ignore = "slow: 20 s a device, for tables: FLOOD_IN=a folder on it"]
fn the_table_of_a_device() {
    let Some(folder) = std::env::var_os("FLOOD_IN") else {
        // A measurement, not a check: there is nothing to skip.
        return;
    };
    let seconds = std::env::var("SECONDS_A_RUN").ok().and_then(|text| text.parse().ok());
    let budget = Duration::from_secs(seconds.unwrap_or(20));
    let outcome = run(Path::new(&folder), true, budget).expect("it runs");
    show(&outcome.report);
    assert!(outcome.report.restored);
}
