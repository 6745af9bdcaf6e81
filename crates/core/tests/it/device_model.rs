//! Estimates of devices with known cost, in virtual time: see docs/design/devices.md.

#![cfg(not(loom))]

mod cost_model;
mod device;
use crate::documented_table;
use crate::random;

use device::{EIGHT_WAYS, KIB, MOVER, MS, Model, ONE_HEAD, Run, US};
use documented_table::check_table;
use foreread_core::device_model::{DeviceEstimator, DeviceModel, LatencyObserver};
use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, IoPath};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::{Op, SchedulerKind};
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};
use random::Random;

const SIZES: [u64; 5] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB];

#[track_caller]
fn close(got: f64, want: f64, per_cent: f64) {
    let off = (got - want).abs() / want * 100.0;
    assert!(off <= per_cent, "{got} is {off:.1} % off {want}");
}

/// Checks the cost of small and large requests within 5 %, and parallelism exactly or nearly.
#[track_caller]
fn check(fit: DeviceModel, model: Model) {
    // A hiccup counts as two requests: one in a hundred is one per cent, and by chance more. The
    // cost at size 0 is extrapolated, so noise has more effect there.
    let loose = |kib: f64| model.hiccup_every > 0 || (kib == 0.0 && model.noise > 0);
    let at = |kib: f64| fit.per_request_ns + kib * fit.per_kib_ns.expect("sizes were mixed");
    for kib in [0.0, 4.0, 128.0, 1024.0] {
        let want = model.per_request_ns as f64 + kib * model.per_kib_ns();
        close(at(kib), want, if loose(kib) { 7.0 } else { 5.0 });
    }
    let (got, want) = (fit.parallel.expect("others waited"), model.parallel);
    if want <= 8 {
        assert_eq!(got as usize, want);
    } else {
        close(f64::from(got), want as f64, 25.0);
    }
}

const DEVICES: [(&str, Model); 8] = [
    ("one head, 4 ms", ONE_HEAD),
    ("two at once, 4 ms", Model { parallel: 2, ..ONE_HEAD }),
    ("8 at once, 1 ms", EIGHT_WAYS),
    ("32 at once, 1 ms", Model { parallel: 32, ..EIGHT_WAYS }),
    ("0.1 ms and 100 MB/s", MOVER),
    ("the same, times 20 % more or less", Model { noise: 20, ..MOVER }),
    ("8 at once, 0.1 ms and 100 MB/s each, 20 %", Model { noise: 20, parallel: 8, ..MOVER }),
    (
        "one head, 20 %, 1 in 100 a hundred times as long",
        Model { noise: 20, hiccup_every: 100, ..ONE_HEAD },
    ),
];

fn rounds(run: &mut Run) {
    for _ in 0..20 {
        run.lone(20, &SIZES);
        run.load(200, 64, &SIZES);
    }
}

#[test]
fn the_table_of_devices_is_what_the_fit_makes_of_them() {
    let head = "| device | a request | 1 MiB more | at once | estimate: a request | 1 MiB more | at once |\n\
                |---|---|---|---|---|---|---|\n";
    let mut table = String::new();
    for (name, model) in DEVICES {
        let mut run = Run::of(model);
        rounds(&mut run);
        let fit = run.model();
        check(fit, model);
        let ms = |ns: f64| format!("{:.2} ms", ns / 1e6);
        let (request, mib) = (ms(model.per_request_ns as f64), ms(model.per_kib_ns() * 1024.0));
        table += &format!("| {name} | {request} | {mib} | {} |", model.parallel);
        let (request, mib) = (ms(fit.per_request_ns), ms(fit.per_kib_ns.unwrap() * 1024.0));
        table += &format!(" {request} | {mib} | {} |\n", fit.parallel.unwrap());
    }
    check_table("design/devices.md", head, &table);
}

#[test]
fn whatever_the_seed_the_fit_is_within_its_bounds() {
    for seed in 0..20 {
        for (_, model) in DEVICES {
            let mut run = Run::of(model);
            run.dice = Random(seed);
            rounds(&mut run);
            check(run.model(), model);
        }
    }
}

#[test]
fn with_one_size_the_cost_of_its_bytes_is_not_known_and_the_rest_is() {
    let mut run = Run::of(MOVER);
    for _ in 0..5 {
        run.lone(20, &[64 * KIB]);
        run.load(50, 8, &[64 * KIB]);
    }
    let fit = run.model();
    assert_eq!(fit.per_kib_ns, None);
    close(fit.per_request_ns, 100_000.0 + 655_360.0, 1.0);
    assert_eq!(fit.parallel, Some(1));
    // A factor of two still counts as one size, because a slope from it would be noise.
    run.lone(100, &[64 * KIB, 128 * KIB]);
    assert_eq!(run.model().per_kib_ns, None);
    run.lone(100, &[64 * KIB, 256 * KIB]);
    close(run.model().per_kib_ns.unwrap(), MOVER.per_kib_ns(), 5.0);
}

#[test]
fn before_there_is_enough_nothing_is_said() {
    let mut run = Run::of(ONE_HEAD);
    assert_eq!(run.estimator.model(), None);
    run.lone(7, &[4 * KIB]);
    assert_eq!(run.estimator.model(), None);
    run.lone(1, &[4 * KIB]);
    assert_eq!(run.model().samples, 8);
    assert_eq!(run.model().parallel, None, "one at a time shows no limit");
}

#[test]
fn a_device_with_room_to_spare_shows_no_limit() {
    for depth in [2, 8, 31, 39] {
        let mut run = Run::of(Model { parallel: 32, noise: 20, ..EIGHT_WAYS });
        run.lone(50, &SIZES);
        run.load(2000, depth, &SIZES);
        assert_eq!(run.model().parallel, None, "{depth} at a time");
    }
}

#[test]
fn a_limit_stays_known_while_there_is_little_to_do_and_falls_when_more_is_served() {
    let mut run = Run::of(EIGHT_WAYS);
    rounds(&mut run);
    run.lone(3000, &SIZES);
    run.load(3000, 3, &SIZES);
    assert_eq!(run.model().parallel, Some(8));
    run.becomes(Model { parallel: 32, ..EIGHT_WAYS });
    run.load(300, 16, &SIZES);
    assert_eq!(run.model().parallel, None, "more than 8 at once, and no request waits");
    run.load(300, 64, &SIZES);
    assert_eq!(run.model().parallel, Some(32));
}

/// A cache in front of it fills, a neighbour starts, or a cloud disk's credits end.
#[test]
fn a_device_that_changes_is_known_again_after_some_hundred_requests() {
    let slower = Model { per_request_ns: 10 * MS, ..ONE_HEAD };
    for (before, after) in [
        (EIGHT_WAYS, ONE_HEAD),
        (ONE_HEAD, EIGHT_WAYS),
        (MOVER, ONE_HEAD),
        (ONE_HEAD, slower),
        (ONE_HEAD, Model { per_request_ns: 6 * MS, ..ONE_HEAD }),
    ] {
        let mut run = Run::of(before);
        rounds(&mut run);
        run.becomes(after);
        rounds(&mut run);
        check(run.model(), after);
    }
    // A large change is detected at once: eight outliers, and as many to be sure.
    let mut run = Run::of(ONE_HEAD);
    rounds(&mut run);
    run.becomes(slower);
    run.lone(20, &[4 * KIB]);
    close(run.model().per_request_ns, 1e7, 5.0);
}

/// docs/design/devices.md and ARCHITECTURE.md give the memory for each file.
#[test]
fn an_estimator_takes_two_and_a_half_kib() {
    assert!(
        (2400..=2600).contains(&size_of::<DeviceEstimator>()),
        "{}",
        size_of::<DeviceEstimator>()
    );
}

#[test]
fn one_hiccup_is_no_change() {
    let mut run = Run::of(ONE_HEAD);
    run.lone(200, &[4 * KIB]);
    run.becomes(Model { per_request_ns: 4000 * MS, ..ONE_HEAD });
    run.lone(1, &[4 * KIB]);
    run.becomes(ONE_HEAD);
    close(run.model().per_request_ns, 4e6, 2.0);
    assert_eq!(run.model().samples, 201);
}

/// The mean of a size once began with a hiccup, and its service times counted twenty-fold.
#[test]
fn a_size_that_began_with_a_hiccup_is_forgotten_and_the_others_are_not() {
    let mut run = Run::of(MOVER);
    run.lone(100, &[4 * KIB, 64 * KIB]);
    run.becomes(Model { per_request_ns: 1000 * MS, ..MOVER });
    run.lone(1, &[1024 * KIB]);
    run.becomes(MOVER);
    for _ in 0..10 {
        run.lone(3, &[1024 * KIB]);
        run.lone(1, &[4 * KIB]);
    }
    let fit = run.model();
    assert_eq!(fit.samples, 100 + 1 + 40);
    close(fit.per_request_ns, 100_000.0, 1.0);
    close(fit.per_kib_ns.unwrap(), MOVER.per_kib_ns(), 1.0);
}

/// Read-ahead that completes while its reader works is observed when the reader waits again.
#[test]
fn completions_without_a_wait_tell_no_time() {
    let mut run = Run::of(EIGHT_WAYS);
    rounds(&mut run);
    let before = run.model();
    for _ in 0..500 {
        run.watch.end();
        for _ in 0..4 {
            run.dispatch(128 * KIB);
        }
        // Three are observed late in between, one by the reader when it waits again.
        for _ in 0..3 {
            run.complete(50 * MS);
        }
        run.watch.begin(Nanos(run.now_ns));
        run.complete(50 * MS);
    }
    assert_eq!(run.model(), before);
}

/// A reader waits for the first page of a window and then works on it, so only the first request of
/// each window is observed on time. That used to look like a parallelism of one.
#[test]
fn windows_of_which_only_the_first_request_is_seen_in_time_tell_how_many_at_least() {
    let far = Model { per_request_ns: 20 * MS, parallel: 64, ..MOVER };
    let mut run = Run::of(far);
    run.lone(20, &SIZES);
    for count in [2, 4, 8, 16, 32, 64, 128] {
        for _ in 0..40 {
            run.window(count, 16 * KIB, 20 * US);
        }
        let (min_parallel, parallel) = (run.estimator.min_parallel(), run.model().parallel);
        assert!(parallel.is_none_or(|known| known >= count.min(48)), "{count}: {parallel:?}");
        assert!((count.min(64) * 3 / 4..=70).contains(&min_parallel), "{count}: {min_parallel}");
    }
}

/// All read-ahead ends unobserved, and is found by a reader that waits for all of it, each end a
/// moment after the previous one. The work was not done in those moments.
#[test]
fn unobserved_completions_do_not_shorten_the_estimate() {
    let mut run = Run::of(EIGHT_WAYS);
    rounds(&mut run);
    let before = run.model();
    for _ in 0..300 {
        run.watch.end();
        for _ in 0..8 {
            run.dispatch(128 * KIB);
        }
        run.now_ns += run.model.service_ns(128 * KIB, &mut run.dice);
        run.watch.begin(Nanos(run.now_ns));
        for _ in 0..8 {
            run.now_ns += 2 * US;
            run.complete(0);
        }
    }
    assert_eq!(run.model().parallel, before.parallel);
    assert!(run.estimator.min_parallel() <= 8, "{}", run.estimator.min_parallel());
}

/// Conversely, late completions of a device with one head do not look like more heads.
#[test]
fn windows_of_a_device_with_one_head_never_look_like_more_at_once() {
    for late_ns in [0, 20 * US, 3 * MS, 30 * MS] {
        let mut run = Run::of(ONE_HEAD);
        run.lone(20, &SIZES);
        for count in [2, 4, 8, 16].into_iter().cycle().take(200) {
            run.window(count, 128 * KIB, late_ns);
        }
        let (min_parallel, parallel) = (run.estimator.min_parallel(), run.model().parallel);
        assert!(
            min_parallel == 1 && parallel.is_none_or(|known| known == 1),
            "{min_parallel} {parallel:?}"
        );
    }
}

#[test]
fn a_failed_request_is_no_sample_and_the_load_around_it_still_counts() {
    let (mut estimator, mut watch) = (DeviceEstimator::new(), LatencyObserver::default());
    watch.begin(Nanos(0));
    for n in 0..100 {
        let sent = estimator.dispatched(Nanos(n * 10 * MS), Op::Read, 0);
        estimator.completed(Nanos(n * 10 * MS + US), sent, None, 1, watch.now());
        let sent = estimator.dispatched(Nanos(n * 10 * MS + MS), Op::Read, 0);
        estimator.completed(
            Nanos(n * 10 * MS + 3 * MS),
            sent,
            Some(ByteCount(4096)),
            1,
            watch.now(),
        );
    }
    let fit = estimator.model().unwrap();
    assert_eq!((fit.samples, fit.parallel), (100, None));
    close(fit.per_request_ns, 2e6, 0.1);
}

#[test]
fn load_of_sizes_that_never_came_alone_says_nothing_of_how_many_at_once() {
    let mut run = Run::of(Model { parallel: 8, ..MOVER });
    run.lone(100, &[4 * KIB]);
    // The first one is alone, but its cost is one sample and no mean.
    run.load(1000, 32, &[1024 * KIB]);
    assert_eq!(run.model().parallel, None);
    run.lone(10, &[1024 * KIB]);
    run.load(1000, 32, &[1024 * KIB]);
    assert_eq!(run.model().parallel, Some(8));
}

/// The path reports to the estimator when a reader waits: a miss is timed, a window started by a
/// marker is not.
#[test]
fn a_path_knows_its_devices() {
    let policy = Policy::Linux6;
    let rules = Rules::default();
    let config = Config { memory: ByteCount(4 << 20), policy, max_window: Pages(8), rules };
    let mut path = IoPath::new(config);
    let device = path.add_device(Geometry::new(ByteCount(1 << 30)), &SchedulerKind::Noop);
    let file = path.open(device, ByteCount(1 << 30)).expect("there is room for a file");
    assert_eq!(path.device_model(device), None);
    let mut now_ns = 0;
    for n in 0..100 {
        let stream = path.stream(file);
        let id = path.read(Nanos(now_ns), stream, ByteCount(n << 20), ByteCount(16384), None);
        now_ns += serve(&mut path, now_ns, 3 * MS);
        let ready = path.poll_ready().expect("all has ended");
        assert_eq!((ready.id, ready.fault), (id, None));
        path.release(Nanos(now_ns), id);
        // The reader works; a hit meets the marker, and completions are not polled for a second.
        path.marker(Nanos(now_ns), stream, PageIndex(n * 256 + 1), Pages(1), None);
        now_ns += serve(&mut path, now_ns, 1000 * MS);
    }
    assert!(path.stats().pages_ahead > 100, "markers began reads: {:?}", path.stats());
    let fit = path.device_model(device).expect("a hundred misses");
    close(fit.per_request_ns, 3e6, 0.1);
    path.close(Nanos(now_ns), file);
    path.remove_device(Nanos(now_ns), device);
    assert_eq!(path.device_model(device), None, "it is gone");
}

/// Completes all requests to be dispatched after this delay, which is returned.
fn serve(path: &mut IoPath, now_ns: u64, after_ns: u64) -> u64 {
    let flying: Vec<_> = std::iter::from_fn(|| path.poll_dispatch(Nanos(now_ns))).collect();
    for io in flying {
        path.complete(Nanos(now_ns + after_ns), io.tag, Ok(io.len));
    }
    after_ns
}
