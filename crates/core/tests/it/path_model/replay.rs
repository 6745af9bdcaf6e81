//! Replays of logs, intact or with one step damaged, and with readers on other threads. A replay
//! reports the first deviation and never panics. Every random run of the model is replayed, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, FileId, IoPath, WriteMode, WriteStep};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::replay::{FlagSeen, LogStep, PathCall, PathOutput, replay};
use foreread_core::sched::{SchedulerKind, Submitter};
use foreread_core::table::{FileSlot, Frame, PageTable};
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

use super::world::{Answer, Op, World};

/// Returns a run in which everything happens: eight streams read more than fits, while pages are
/// pinned, files change, and devices fail.
fn busy() -> (Config, Vec<LogStep>) {
    let mut world = World::new(Policy::Linux6, 1 << 20, 32, &[300_000, 700_001, 3_000_000]);
    let mut word = 1_u64;
    let mut random = move |below: u64| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 33) % below
    };
    for _ in 0..600 {
        let which = usize::try_from(random(1 << 20)).unwrap();
        let op = match random(20) {
            0 => Op::Read { stream: which, pos: random(1 << 30), len: 1 + random(200_000) },
            1..7 => Op::ReadOn { stream: which, len: 1 + random(60_000) },
            7 => Op::Arrive { which, bytes: 1 + random(20_000) },
            8..12 => Op::Complete { which, answer: Answer::Good },
            12 => Op::Complete { which, answer: Answer::Failed },
            13..15 => Op::Release { which },
            15 | 16 => Op::Pin { file: which, page: random(64) },
            17 => Op::Unpin { which },
            18 => Op::Report,
            _ => match random(4) {
                0 => Op::Reopen { file: which },
                1 => Op::SetLen { file: which, len: random(3_000_000) },
                _ => Op::Invalidate { file: which, start: random(700), pages: random(40) },
            },
        };
        world.apply(&op);
    }
    world.finish();
    (world.path.config(), world.log)
}

#[test]
fn a_busy_log_has_everything_in_it() {
    let (config, log) = busy();
    for seen in [
        FlagSeen::Referenced,
        FlagSeen::Pinned,
        FlagSeen::Unused,
        FlagSeen::Orphaned,
        FlagSeen::Marker,
    ] {
        let is_in = |step: &LogStep| matches!(step, LogStep::Saw(saw, ..) if *saw == seen);
        assert!(log.iter().any(is_in), "no {seen:?}");
    }
    assert_eq!(replay(config, &log), Ok(()));
    assert_eq!(replay(config, &log[..log.len() - 1]).unwrap_err().at, log.len() - 1);
}

#[test]
fn an_output_that_is_another_is_found_where_it_is() {
    let (config, log) = busy();
    let mut changed = 0;
    for (at, step) in log.iter().enumerate() {
        let other = match step {
            LogStep::Gave(PathOutput::Dispatched(Some((io, frames)))) => {
                let frames = frames.iter().map(|frame| Frame(frame.0 + 1)).collect();
                PathOutput::Dispatched(Some((*io, frames)))
            }
            LogStep::Gave(PathOutput::Ready(Some((ready, frames)))) => {
                let mut ready = *ready;
                ready.len += ByteCount(1);
                PathOutput::Ready(Some((ready, frames.clone())))
            }
            LogStep::Gave(PathOutput::Evicted { file, page, frame }) => {
                PathOutput::Evicted { file: *file, page: *page + Pages(1), frame: *frame }
            }
            LogStep::Gave(_) | LogStep::Did(_) | LogStep::Saw(..) | LogStep::Full => continue,
        };
        // Testing all of them would take long, and every seventh shows as much.
        changed += 1;
        if changed % 7 == 0 {
            let mut log = log.clone();
            log[at] = LogStep::Gave(other);
            let mismatch = replay(config, &log).unwrap_err();
            assert_eq!(mismatch.at, at, "{mismatch}");
            assert_eq!(mismatch.got.as_ref(), Some(step));
        }
    }
    assert!(changed > 100);
}

#[test]
fn a_path_that_decides_otherwise_is_found() {
    let (config, log) = busy();
    for policy in [Policy::None, Policy::Adaptive] {
        assert!(replay(Config { policy, ..config }, &log).is_err(), "{}", policy.name());
    }
    assert!(replay(Config { max_window: Pages(16), ..config }, &log).is_err());
    assert!(replay(Config { memory: ByteCount(2 << 20), ..config }, &log).is_err());
}

#[test]
fn a_step_that_is_missing_is_found_if_anything_came_of_it() {
    let (config, log) = busy();
    let (mut dropped, mut missed) = (0, 0);
    for (at, step) in log.iter().enumerate().step_by(11) {
        let mut log = log.clone();
        log.remove(at);
        let Err(mismatch) = replay(config, &log) else {
            missed += 1;
            let leaves_no_trace = match step {
                // The file had none of those pages, so the device had nothing to do.
                LogStep::Did(
                    PathCall::Invalidate { .. }
                    | PathCall::SetLen { .. }
                    | PathCall::CloseStream { .. }
                    | PathCall::RemoveDevice { .. },
                ) => true,
                // All of it arrived with its completion, before any read needed it.
                LogStep::Did(PathCall::Arrived { .. }) => true,
                // Its reader is still there: the page stays, as an unread one does.
                LogStep::Saw(FlagSeen::Used, ..) => true,
                LogStep::Did(_) | LogStep::Saw(..) | LogStep::Gave(_) | LogStep::Full => false,
            };
            assert!(leaves_no_trace, "step {at}, {step:?}, is not missed");
            continue;
        };
        dropped += 1;
        assert!(mismatch.at >= at, "{mismatch}");
    }
    assert!(dropped > 10 * missed, "{missed} of {dropped}");
}

#[test]
fn a_log_that_is_full_ends_and_replays_up_to_there() {
    let (memory, max_window, rules) = (ByteCount(1 << 20), Pages(32), Rules::default());
    let config = Config { memory, policy: Policy::Linux6, max_window, rules };
    for limit in 1..40 {
        let mut path = IoPath::new(config);
        path.record(limit);
        let mut log = Vec::new();
        let file = read_a_few(&mut path, &mut log);
        path.close(Nanos(9), file);
        log.extend(path.take_log());
        assert_eq!(log.len(), limit + 1);
        assert_eq!(log.last(), Some(&LogStep::Full));
        assert_eq!(replay(config, &log), Ok(()), "{limit}");
    }
}

#[test]
#[should_panic(expected = "begins where its path does")]
fn a_log_cannot_begin_in_the_middle() {
    let (memory, max_window, rules) = (ByteCount(1 << 20), Pages(32), Rules::default());
    let config = Config { memory, policy: Policy::Linux6, max_window, rules };
    let mut path = IoPath::new(config);
    read_a_few(&mut path, &mut Vec::new());
    path.record(9);
}

fn read_a_few(path: &mut IoPath, log: &mut Vec<LogStep>) -> FileId {
    let device = path.add_device(Geometry::new(ByteCount(0)), &SchedulerKind::Noop);
    let file = path.open(device, ByteCount(1 << 20)).unwrap();
    let stream = path.stream(file);
    for page in 0..20 {
        path.read(
            Nanos(page),
            stream,
            ByteCount(page * 4096),
            ByteCount(4096),
            Some(ByteCount(page * 4096)),
        );
        drive(path);
    }
    log.extend(path.take_log());
    file
}

fn drive(path: &mut IoPath) {
    while let Some(io) = path.poll_dispatch(Nanos(7)) {
        path.complete(Nanos(8), io.tag, Ok(io.len));
    }
    while let Some(ready) = path.poll_ready() {
        path.release(Nanos(8), ready.id);
    }
}

/// Real threads touch pages, take markers and pin while the driver evicts and forgets. Their timing
/// is arbitrary, and the log must replay in any case.
#[test]
fn a_log_replays_whatever_readers_on_other_threads_did_meanwhile() {
    const PAGES: u64 = 400;
    let (memory, max_window, rules) = (ByteCount(1 << 20), Pages(32), Rules::default());
    let config = Config { memory, policy: Policy::Linux6, max_window, rules };
    let mut path = IoPath::new(config);
    path.record(1 << 22);
    let device = path.add_device(Geometry::new(ByteCount(0)), &SchedulerKind::Noop);
    let file = path.open(device, ByteCount(PAGES * 4096)).unwrap();
    let streams = [path.stream(file), path.stream(file)];
    let is_over = AtomicBool::new(false);
    let (report, reports) = mpsc::channel();
    std::thread::scope(|scope| {
        for first in [0, 131] {
            let (table, is_over, report) = (path.table(), &is_over, report.clone());
            scope.spawn(move || {
                let mut page = first;
                while !is_over.load(Ordering::Relaxed) {
                    page = (page + 7) % PAGES;
                    visit(&table, IoPath::slot(file), PageIndex(page), &report);
                }
            });
        }
        for round in 0..4000 {
            let at = |pages: u64| ByteCount(pages % PAGES * 4096);
            let now = Nanos(round);
            let (page, stream) =
                if round % 3 == 0 { (round * 37, streams[0]) } else { (round, streams[1]) };
            path.read(now, stream, at(page), ByteCount(3 * 4096), Some(at(page)));
            drive(&mut path);
            if round % 16 == 0 {
                let start = PageIndex(round % PAGES);
                path.invalidate(now, file, start..start + Pages(40));
            }
            while let Ok(frame) = reports.try_recv() {
                path.unpinned(now, frame);
                path.table().pin_budget().give_back(1);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(report);
    while let Ok(frame) = reports.recv() {
        path.unpinned(Nanos(9), frame);
        path.table().pin_budget().give_back(1);
    }
    assert_eq!(path.idle_frames(), u64::from(path.frame_count()), "a frame is lost");
    assert_eq!(path.table().pin_budget().granted(), 0);
    let log = path.take_log();
    assert_eq!(replay(config, &log), Ok(()));
}

/// A reader's actions on a page: use it, take its marker, pin it for a while.
fn visit(table: &PageTable, file: FileSlot, page: PageIndex, report: &mpsc::Sender<Frame>) {
    let Some(found) = table.look_up(file, page) else { return };
    found.touch(false);
    let _ = found.take_marker();
    if table.pin_budget().try_take(1) == 0 {
        return;
    }
    let entry = found.entry();
    let is_pinned = table.pin(&found);
    std::thread::yield_now();
    if is_pinned && table.unpin(entry.frame(), entry.generation()) {
        // The driver returns the pin: until it is notified, the frame is not available.
        report.send(entry.frame()).unwrap();
    } else {
        table.pin_budget().give_back(1);
    }
}

/// A flush that has succeeded and waits for another was reported once: a log that reports it twice
/// is damaged.
#[test]
fn a_flush_that_settles_is_not_reported_again() {
    let (policy, max_window, rules) = (Policy::None, Pages(0), Rules::default());
    let mut path = IoPath::new(Config { memory: ByteCount(1 << 20), policy, max_window, rules });
    path.record(1 << 20);
    let device = path.add_device(Geometry::new(ByteCount(0)), &SchedulerKind::Noop);
    let file = path.open(device, ByteCount(4096)).unwrap();
    let len = ByteCount(4096);
    let write =
        path.write(Nanos(1), file, ByteCount(0), len, WriteMode::WriteThrough, Submitter(0));
    path.poll_write().unwrap();
    path.filled(Nanos(1), write);
    let io = path.poll_dispatch(Nanos(1)).unwrap();
    path.complete(Nanos(2), io.tag, Ok(len));
    let flushes = [path.flush(Nanos(3), file), path.flush(Nanos(3), file)];
    let acts = std::iter::from_fn(|| path.poll_write());
    assert_eq!(acts.filter(|ready| ready.step == WriteStep::Act).count(), 2);
    path.acted(Nanos(4), flushes[1], Ok(()));
    assert_eq!(path.poll_write(), None, "it waits for the flush that began beside it");
    let log = path.take_log();
    let reported = |step: &LogStep| matches!(step, LogStep::Did(PathCall::Acted { .. }));
    let at = log.iter().position(reported).unwrap();
    assert_eq!(replay(path.config(), &log), Ok(()));
    for again in [
        PathCall::Acted { now: Nanos(4), id: flushes[1], result: Ok(()) },
        PathCall::Acted { now: Nanos(4), id: flushes[1], result: Err(5) },
        PathCall::NotActed { now: Nanos(4), id: flushes[1], errno: 5 },
    ] {
        let mut damaged = log.clone();
        damaged.insert(at + 1, LogStep::Did(again));
        let mismatch = replay(path.config(), &damaged).expect_err("it was reported");
        assert_eq!((mismatch.at, mismatch.got), (at + 1, None));
    }
}
