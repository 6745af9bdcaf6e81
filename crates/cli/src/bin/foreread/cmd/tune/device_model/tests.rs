//! Known devices, measured in virtual time: the model that is fitted is the one that was measured.

use std::sync::Arc;
use std::time::Duration;

use foreread_core::units::ByteCount;
use foreread_sim::device::{DeviceParams, Flash, known};
use foreread_tune::advice::{self, DeviceFacts};
use foreread_tune::parallel_reads::parallel_reads;
use foreread_tune::report::{Profile, Report};
use foreread_tune::sweep::{Sweep, SweepSettings};

use super::*;
use crate::cmd::tune::simulated::SimulatedDevice;

/// A device as `tune --device --device-model` measures it.
fn measured(name: &str, settings: impl Fn(ByteCount) -> SweepSettings) -> (Report, DeviceLimits) {
    let mut probe = SimulatedDevice::find(name, Arc::default()).expect("a known device");
    let size = probe.size();
    let outcome = Sweep::new(settings(size)).run(&mut probe, &mut |_| ());
    assert_eq!(outcome.stopped, None);
    let facts = DeviceFacts::of_model(name, size);
    let mut report = advice::report(&facts, &outcome, Profile::Mixed);
    let (parallel, stopped) = parallel_reads(&mut probe, Duration::from_secs(6), 1);
    assert_eq!(stopped, None);
    report.parallel = parallel;
    let geometry = probe.model().geometry();
    let limits =
        DeviceLimits::new(size, Some(geometry.max_io.bytes()), Some(geometry.depth.into()));
    (report, limits)
}

fn chosen(name: &str, settings: impl Fn(ByteCount) -> SweepSettings) -> ChosenModel {
    let (report, limits) = measured(name, settings);
    let chosen = choose(&report, &limits, &Arc::default());
    chosen.unwrap_or_else(|_| panic!("{name}: no model of {report:#?}"))
}

fn flash(name: &str) -> Flash {
    match known::find(name).expect("a known device").model {
        DeviceParams::Flash(flash) => flash,
        other @ (DeviceParams::Hdd(_) | DeviceParams::Store(_) | DeviceParams::Mapped(_)) => {
            panic!("{name}: {other:?}")
        }
    }
}

#[track_caller]
fn near(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= share, "{what}: {found}, expected {expected}");
}

#[test]
fn a_sweep_of_a_flash_model_gives_back_the_model() {
    for name in ["cloud-gp3", "usb-stick-2g", "sandisk-sata5000-30g", "teclast-32g-usb"] {
        let model = chosen(name, SweepSettings::quick);
        let known = flash(name);
        let FittedDevice::Flash(found) = &model.device else { panic!("{name}: {model:?}") };
        near(found.overhead_us, known.overhead_us, 0.03, name);
        near(found.mb_per_s, known.mb_per_s, 0.03, name);
        assert_eq!((found.channels, found.stall_us), (known.channels, 0.0), "{name}: {found:?}");
        assert!(model.error.greatest < 0.05, "{name}: {:?} {:#?}", model.error, model.points);
    }
}

#[test]
fn a_model_with_a_stall_is_explained_by_one() {
    let model = chosen("intel-x25m-80g", SweepSettings::full);
    let FittedDevice::Flash(found) = &model.device else { panic!("{model:?}") };
    assert!(found.stall_us > 0.0, "{found:?}");
    assert!(model.error.greatest < 0.05, "{:?} {:#?}", model.error, model.points);
}

#[test]
fn a_disk_gives_back_its_access_times_and_its_rate() {
    for name in ["sata-500g", "laptop-2008"] {
        let model = chosen(name, SweepSettings::quick);
        assert_eq!(model.device.kind(), "hdd", "{name}: {model:?}");
        assert!(model.error.mean < 0.1, "{name}: {:?} {:#?}", model.error, model.points);
        assert!(model.error.greatest < 0.3, "{name}: {:?} {:#?}", model.error, model.points);
    }
}

/// Of the one the drive reads on while a command costs its overhead, of the other after it. Both
/// were fitted with the rate of their best window, the first with errors of 28 % of windows.
#[test]
fn a_disk_whose_stream_loses_no_turns_gives_back_its_rates() {
    for (name, overlaps) in [("ide-2002", true), ("fujitsu-maf3364l", false)] {
        let model = chosen(name, SweepSettings::full);
        let FittedDevice::Hdd(found) = &model.device else { panic!("{name}: {model:?}") };
        assert_eq!((found.reads_on, found.overlaps), (true, overlaps), "{name}: {found:?}");
        let windows = model.points.iter().filter(|point| point.unit == "MB/s");
        let errors = windows.map(|point| point.error().abs());
        assert!(errors.fold(0.0, f64::max) < 0.03, "{name}: {:#?}", model.points);
        assert!(model.error.mean < 0.05, "{name}: {:?} {:#?}", model.error, model.points);
    }
}

#[test]
fn what_is_written_is_what_was_chosen() {
    let model = chosen("cloud-gp3", SweepSettings::quick);
    let lines = comments(&model, "cloud-gp3, 2026-11-26".to_owned(), &["a note".to_owned()]);
    let text = device_table("cloud-gp3", &model.device, &lines);
    let device = NamedDevice::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(device.name, "cloud-gp3");
    let (DeviceParams::Flash(read), FittedDevice::Flash(fitted)) = (&device.model, &model.device)
    else {
        panic!("{text}")
    };
    // Five digits of each.
    near(read.mb_per_s, fitted.mb_per_s, 1e-4, "mb_per_s");
    near(read.overhead_us, fitted.overhead_us, 1e-4, "overhead_us");
    assert_eq!(read.capacity.0, fitted.limits.capacity);
    assert_eq!(read.max_command.0, fitted.limits.max_command);
    assert_eq!((read.channels, read.depth), (fitted.channels, fitted.limits.depth));
    for part in ["note: a note", "one stream, windows of 4K", "16 in flight", "mean error"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(is_device_model(text.as_bytes()) && !is_device_model(b"# A device"));
}
