//! A real device under measurement: what it is asked, what is left afterwards, what goes wrong.
//!
//! In:    loop devices over files with data; a server that can be stopped.
//! Out:   samples, errors of one line, settings and cached pages as they were.
//! Never: a claim about speed.

#[path = "../../engine/tests/common/mod.rs"]
mod common;
#[path = "probe/hanging.rs"]
mod hanging;
mod machine;

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foreread_core::units::ByteCount;
use foreread_tune::pages::resident;
use foreread_tune::probe::real::{RealProbe, RealProbeOptions};
use foreread_tune::probe::{Probe, ProbeSample, RandomReads, SequentialRead, Stopped};
use foreread_tune::report::Method;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::TuneTarget;
use foreread_tune::temporary_settings::TemporarySettings;
use hanging::Hanging;
use machine::{Loop, Need, looks_until, myself, needs};
use rustix::fs::Advice;

#[test]
#[ignore = "the holder of the other tests"]
fn holder() {
    machine::hold_until_the_end();
}

fn held() -> TemporarySettings {
    TemporarySettings::new(myself("holder", Path::new("/")).into_std(), &SystemRoot::here())
        .expect("it starts")
}

fn stream(window: u64, at_least: u64) -> SequentialRead {
    SequentialRead {
        window: ByteCount(window),
        at_least: ByteCount(at_least),
        time: Duration::ZERO,
        at_most: Duration::from_secs(60),
    }
}

fn random(size: u64, count: u32) -> RandomReads {
    RandomReads { size: ByteCount(size), count, at_most: Duration::from_secs(60) }
}

fn target(path: &Path) -> TuneTarget {
    TuneTarget::resolve(path, &SystemRoot::here()).expect("a target")
}

fn loops(test: &str) -> bool {
    needs(Need::Loop, test) && needs(Need::Tool("losetup"), test)
}

fn failed<T>(result: Result<T, Stopped>) -> String {
    match result {
        Err(Stopped::Failed(line)) => line,
        Err(Stopped::Interrupted) => panic!("it was interrupted"),
        Ok(_) => panic!("it cannot be read"),
    }
}

/// What a probe measures, of streams with each of these windows and of random reads.
fn measures(probe: &mut RealProbe<'_>, windows: &[u64], len: u64) -> Vec<ProbeSample> {
    let ask = |window: &u64| stream(*window, 8 * window.max(&(64 << 10)).min(&(len / 16)));
    let samples = windows
        .iter()
        .map(|window| {
            let ask = ask(window);
            let sample = probe.sequential(&ask).expect("it reads");
            assert!(sample.bytes() >= ask.at_least, "{window}: {sample:?}");
            sample
        })
        .collect();
    for size in [4 << 10, 64 << 10, 1 << 20] {
        let latencies = probe.random(&random(size, 10)).expect("it reads");
        assert_eq!(latencies.len(), 10);
    }
    samples
}

/// Brings pages into the cache, measures, and returns the samples of a time that left those pages
/// as they were. A kernel that reclaims pages with memory to spare (DAMON) takes some at any time,
/// so it may take a few attempts; what a probe drops, it drops in each.
fn measured_undisturbed(
    (theirs, len): (&File, u64),
    bring_in: impl Fn(),
    mut measures: impl FnMut() -> Vec<ProbeSample>,
) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        bring_in();
        let before = cached(theirs, len);
        let samples = measures();
        let after = cached(theirs, len);
        if after == before {
            for sample in samples {
                let slices = &sample.slices;
                // The stream of the largest window is four laps, and two windows may come at once.
                assert!(slices.len() >= 2, "{sample:?}");
                assert!(slices.iter().all(|slice| slice.ns > 0 && slice.bytes > ByteCount(0)));
                assert!(slices.is_sorted_by_key(|slice| slice.at));
            }
            return;
        }
        seen.push((before, after));
    }
    panic!("pages were lost each time, before and after: {seen:?}");
}

#[test]
fn a_device_is_measured_and_nothing_of_it_is_changed() {
    const NAME: &str = "a_device_is_measured_and_nothing_of_it_is_changed";
    const LEN: u64 = 96 << 20;
    if !loops(NAME) {
        return;
    }
    let device = Loop::new(96);
    let target = target(&device.node());
    assert_eq!((target.len, target.is_device), (ByteCount(LEN), true));
    assert_eq!((target.device.name.as_str(), &target.not_direct), (device.name.as_str(), &None));

    // What another program has read: single pages, and runs of them; some by read-ahead.
    let theirs = File::open(device.node()).expect("a device");
    rustix::fs::fadvise(&theirs, 0, None, Advice::Random).expect("one page each");
    let bring_in = || {
        for page in (0..LEN / 4096).filter(|page| page % 1777 == 5 || page % 9000 > 8700) {
            theirs.read_at(&mut [0], page * 4096).expect("it is read");
        }
        assert!(cached(&theirs, LEN).len() > 10);
    };

    let (window, writes) = (device.window_kib(), device.requests().1);
    measured_undisturbed((&theirs, LEN), bring_in, || {
        let held = held();
        let mut probe =
            RealProbe::new(&target, Some(&held), &SystemRoot::here(), &RealProbeOptions::default())
                .expect("it can be measured");
        assert_eq!((probe.method(), probe.why_direct()), (Method::Kernel, None));
        let sizes = [4, 16, 52, 128, 1024, 4096, 16384, 8];
        let samples = measures(&mut probe, &sizes.map(|kib| kib << 10), LEN);
        assert_eq!(device.window_kib(), 8, "the last one");
        samples
    });
    measured_undisturbed((&theirs, LEN), bring_in, || {
        let mut direct =
            RealProbe::new(&target, None, &SystemRoot::here(), &RealProbeOptions::default())
                .expect("it can be measured");
        assert_eq!(direct.method(), Method::Direct);
        measures(&mut direct, &[4 << 10, 128 << 10, 4 << 20, 16 << 20], LEN)
    });
    assert_eq!((device.window_kib(), device.requests().1), (window, writes));
}

fn cached(file: &File, len: u64) -> Vec<Range<u64>> {
    resident(file, &(0..len)).expect("root may know")
}

#[test]
fn the_kernel_reads_ahead_with_the_window_that_was_asked_for() {
    const NAME: &str = "the_kernel_reads_ahead_with_the_window_that_was_asked_for";
    if !loops(NAME) {
        return;
    }
    let device = Loop::new(64);
    let held = held();
    let target = target(&device.node());
    let mut probe =
        RealProbe::new(&target, Some(&held), &SystemRoot::here(), &RealProbeOptions::default())
            .expect("it can be measured");
    for window in [16 << 10, 64 << 10, 256 << 10] {
        let before = device.requests().0;
        let sample = probe.sequential(&stream(window, 8 << 20)).expect("it reads");
        let requests = device.requests().0 - before;
        let windows = sample.bytes().0 / window;
        // Few more than windows: the first page, and what was read ahead and not used.
        assert!(requests >= windows, "{requests} for {windows}");
        assert!(requests <= windows + windows / 4 + 16, "{requests} for {windows}");
    }
}

#[test]
fn fresh_places_come_first_and_others_are_told() {
    const NAME: &str = "fresh_places_come_first_and_others_are_told";
    if !loops(NAME) {
        return;
    }
    let device = Loop::new(64);
    let target = target(&device.node());
    let options = RealProbeOptions { seed: 7, ..RealProbeOptions::default() };
    let mut probe =
        RealProbe::new(&target, None, &SystemRoot::here(), &options).expect("it can be measured");
    let mut before = Vec::new();
    for _ in 0..6 {
        let sample = probe.sequential(&stream(64 << 10, 12 << 20)).expect("it reads");
        before.push(sample.read_before.0);
    }
    assert_eq!(before[..4], [0; 4], "48 of 64 MiB are fresh");
    assert!(before[5] >= 8 << 20, "72 of 64 MiB cannot be: {before:?}");
}

#[test]
fn what_cannot_be_set_is_read_around_the_cache() {
    const NAME: &str = "what_cannot_be_set_is_read_around_the_cache";
    if !loops(NAME) {
        return;
    }
    let device = Loop::new(16);
    let target = target(&device.node());
    // A system whose settings cannot be written, not even by root.
    let root = tempfile::tempdir().expect("a folder");
    let sys = SystemRoot::at(root.path());
    let folder = sys.path(format!("/sys/block/{}", device.name));
    fs::create_dir_all(folder.join("queue/read_ahead_kb")).expect("it is made");
    let number = target.device.number;
    fs::write(folder.join("dev"), format!("{}:{}", number.0, number.1)).expect("it is written");
    let held =
        TemporarySettings::new(myself("holder", root.path()).into_std(), &sys).expect("it starts");
    let mut probe = RealProbe::new(&target, Some(&held), &sys, &RealProbeOptions::default())
        .expect("it can be measured");
    assert_eq!(probe.method(), Method::Direct);
    assert!(probe.why_direct().is_some_and(|why| !why.is_empty()));
    probe.sequential(&stream(128 << 10, 1 << 20)).expect("it reads");

    let not_direct = TuneTarget { not_direct: Some("no O_DIRECT there".into()), ..target };
    let line = RealProbe::new(&not_direct, Some(&held), &sys, &RealProbeOptions::default())
        .expect_err("it cannot be measured");
    assert!(line.contains("no O_DIRECT there; run as root"), "{line}");
    assert_eq!(line.lines().count(), 1);
}

#[test]
fn an_interrupt_ends_it_and_what_was_there_is_restored() {
    const NAME: &str = "an_interrupt_ends_it_and_what_was_there_is_restored";
    if !loops(NAME) {
        return;
    }
    let device = Loop::new(16);
    let target = target(&device.node());
    let was = device.window_kib();
    for is_direct in [false, true] {
        let held = held();
        let options = RealProbeOptions { is_direct, ..RealProbeOptions::default() };
        let mut probe =
            RealProbe::new(&target, Some(&held), &SystemRoot::here(), &options).expect("it can");
        let before = device.requests().0;
        let result = std::thread::scope(|scope| {
            let (flag, device) = (Arc::clone(&options.interrupted), &device);
            scope.spawn(move || {
                let has_begun = looks_until(|| device.requests().0 > before + 100);
                flag.store(true, Ordering::Relaxed);
                assert!(has_begun);
            });
            probe.sequential(&SequentialRead { time: Duration::from_secs(50), ..stream(4096, 1) })
        });
        assert_eq!(result, Err(Stopped::Interrupted));
        assert_eq!(probe.random(&random(4096, 1)), Err(Stopped::Interrupted));
        drop(held);
        assert_eq!(device.window_kib(), was);
    }
}

#[test]
fn a_read_error_in_the_middle_is_one_line_with_its_place() {
    const NAME: &str = "a_read_error_in_the_middle_is_one_line_with_its_place";
    if !loops(NAME) {
        return;
    }
    for is_direct in [false, true] {
        let device = Loop::new(16);
        let target = target(&device.node());
        // What is no longer there cannot be read.
        let backing = File::options().write(true).open(&device.backing).expect("a file");
        backing.set_len(8 << 20).expect("it is shortened");
        let (held, was) = (held(), device.window_kib());
        let options = RealProbeOptions { is_direct, ..RealProbeOptions::default() };
        let mut probe =
            RealProbe::new(&target, Some(&held), &SystemRoot::here(), &options).expect("it can");
        // All around the device: it comes there.
        let line = failed(probe.sequential(&stream(64 << 10, 32 << 20)));
        let rest = line.strip_prefix(&format!("reading {} at ", target.path.display()));
        let (at, what) = rest.and_then(|rest| rest.split_once(": ")).expect("a place");
        assert_eq!(what, "Input/output error");
        let at: u64 = at.parse().expect("a number");
        // Around the cache it is the place of the window in which it came.
        let first = if is_direct { (8 << 20) - (64 << 10) } else { 8 << 20 };
        assert!((first..16 << 20).contains(&at), "{line}");
        let file = File::open(device.node()).expect("a device");
        assert!(cached(&file, 8 << 20).is_empty(), "nothing of ours stays");
        drop(held);
        assert_eq!(device.window_kib(), was);
    }
}

#[test]
fn a_file_that_is_shortened_meanwhile_is_told_so() {
    const NAME: &str = "a_file_that_is_shortened_meanwhile_is_told_so";
    if !needs(Need::ODirect, NAME) {
        return;
    }
    let folder = tempfile::TempDir::new_in(machine::scratch()).expect("a folder");
    let path = folder.path().join("data");
    fs::write(&path, vec![7; 16 << 20]).expect("it is written");
    let Ok(target) = TuneTarget::resolve(&path, &SystemRoot::here()) else {
        machine::skip(NAME, "the build lies on no disk");
        return;
    };
    assert!(!target.is_device && target.len == ByteCount(16 << 20), "{target:?}");
    let mut probe =
        RealProbe::new(&target, None, &SystemRoot::here(), &RealProbeOptions::default())
            .expect("it can");
    let file = File::options().write(true).open(&path).expect("a file");
    file.set_len(4 << 20).expect("it is shortened");
    let line = failed(probe.sequential(&stream(64 << 10, 64 << 20)));
    assert!(line.ends_with("it has become shorter and ends there"), "{line}");
}

#[test]
fn a_file_is_measured_without_leave_and_its_cached_pages_stay() {
    const NAME: &str = "a_file_is_measured_without_leave_and_its_cached_pages_stay";
    if !needs(Need::ODirect, NAME) {
        return;
    }
    let folder = tempfile::TempDir::new_in(machine::scratch()).expect("a folder");
    let path = folder.path().join("data");
    fs::write(&path, vec![7; 16 << 20]).expect("it is written");
    let file = File::open(&path).expect("a file");
    file.sync_all().expect("it is on its disk");
    let Ok(target) = TuneTarget::resolve(folder.path(), &SystemRoot::here()) else {
        machine::skip(NAME, "the build lies on no disk");
        return;
    };
    let target = if target.is_device { self::target(&path) } else { target };
    assert_eq!(target.path, path);
    let bring_in = || {
        file.read_exact_at(&mut vec![0; 16 << 20], 0).expect("it is read");
        assert!(!cached(&file, 16 << 20).is_empty());
    };
    measured_undisturbed((&file, 16 << 20), bring_in, || {
        let mut probe =
            RealProbe::new(&target, None, &SystemRoot::here(), &RealProbeOptions::default())
                .expect("it can");
        measures(&mut probe, &[4 << 10, 128 << 10, 1 << 20], 16 << 20)
    });
}

#[test]
fn an_interrupt_ends_a_run_on_a_device_that_hangs() {
    const NAME: &str = "an_interrupt_ends_a_run_on_a_device_that_hangs";
    let tools = ["nbdkit", "nbdfuse"].map(|tool| needs(Need::Tool(tool), NAME));
    if !loops(NAME) || !needs(Need::Fuse, NAME) || tools.contains(&false) {
        return;
    }
    let hanging = Hanging::new();
    let device = hanging.device.as_ref().expect("a device");
    let was = device.window_kib();
    let held = held();
    let options = RealProbeOptions {
        interrupted: Arc::new(AtomicBool::new(false)),
        ..RealProbeOptions::default()
    };
    let mut probe =
        RealProbe::new(&target(&device.node()), Some(&held), &SystemRoot::here(), &options)
            .expect("it can");
    let before = device.requests().0;
    let result = std::thread::scope(|scope| {
        let (hanging, flag) = (&hanging, &options.interrupted);
        scope.spawn(move || {
            let has_begun = looks_until(|| device.requests().0 > before + 10);
            hanging.signal("-STOP");
            flag.store(true, Ordering::Relaxed);
            assert!(has_begun);
        });
        probe.sequential(&SequentialRead { time: Duration::from_secs(50), ..stream(64 << 10, 1) })
    });
    assert_eq!(result, Err(Stopped::Interrupted));
    hanging.signal("-CONT");
    let restored = held.restore().expect("it answers again");
    assert!(
        restored.back.contains(&DeviceSetting::read_ahead_kb(&device.name, was)),
        "{restored:?}"
    );
}
