//! Device models that are fitted to figures.
//!
//! In:    figures that follow exactly from a model; a store in virtual time.
//! Out:   the parameters of that model.
//! Never: a real second.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes")]

use crate::store_model;

use std::time::Duration;

use foreread_core::units::ByteCount;
use foreread_tune::device_fit::{
    DEVICE_MODEL_HEAD, DeviceLimits, FittedDevice, FittedFlash, FittedStore, MeasuredPoints,
    ModelError, ModelPoint, StorePrices, candidates, device_table,
};
use foreread_tune::report::{Latency, ParallelResult, WindowResult};
use foreread_tune::store_sweep::{
    LatencyQuantiles, PointResult, SmallReads, StoreFindings, StoreSpent, StoreSweepSettings,
};
use store_model::ModelStore;

/// A flash device, and the figures that it gives.
#[derive(Clone, Copy)]
struct Chips {
    overhead_us: f64,
    mb_per_s: f64,
    stall_us: f64,
    stall_size: f64,
    channels: u32,
    max_command: f64,
    jitter: f64,
}

const PLAIN: Chips = Chips {
    overhead_us: 1000.0,
    mb_per_s: 131.072,
    stall_us: 0.0,
    stall_size: 0.0,
    channels: 3,
    max_command: 262_144.0,
    jitter: 0.0,
};

struct Figures {
    sequential: Vec<WindowResult>,
    random: Vec<Latency>,
    parallel: Vec<ParallelResult>,
}

impl Chips {
    fn price_us(&self, command: f64) -> f64 {
        let stall = if self.stall_us > 0.0 { command / (command + self.stall_size) } else { 0.0 };
        self.overhead_us + self.stall_us * stall
    }

    /// A read alone: its commands one after the other, or all at once; their bytes over the bus.
    fn read_us(&self, size: f64) -> f64 {
        let command = size.min(self.max_command);
        // Of several channels the bus is busy while the next commands pay their price.
        let waves = if self.channels == 1 { (size / command).ceil() } else { 1.0 };
        waves * self.price_us(command) + size / self.mb_per_s
    }

    /// One command at a time; or two windows in flight, up to what the bus gives.
    fn stream(&self, window: f64) -> f64 {
        if self.channels == 1 {
            return window / self.read_us(window);
        }
        (2.0 * window / self.read_us(window)).min(self.mb_per_s)
    }

    fn figures(&self) -> Figures {
        let sizes = |upto: u32| (0..=upto).map(|step| 4_u64 << step);
        let bytes = |kib: u64| kib as f64 * 1024.0;
        let row = |window_kib| {
            let mb_per_s = self.stream(bytes(window_kib));
            WindowResult { window_kib, mb_per_s, low: mb_per_s, high: mb_per_s, samples: 3 }
        };
        let latency = |size_kib| {
            let median_us = self.read_us(bytes(size_kib));
            let p90_us = median_us + 0.8 * self.jitter * self.overhead_us;
            Latency { size_kib, median_us, p90_us, reads: 48 }
        };
        let parallel = |at_once: u32| {
            let served = f64::from(at_once.min(self.channels)) / self.read_us(4096.0);
            let reads_per_s = served.min(self.mb_per_s / 4096.0) * 1e6;
            ParallelResult { at_once, reads_per_s, samples: 3 }
        };
        Figures {
            sequential: sizes(12).map(row).collect(),
            random: sizes(8).map(latency).collect(),
            parallel: (0..7).map(|step| parallel(1 << step)).collect(),
        }
    }

    fn limits(&self) -> DeviceLimits {
        DeviceLimits::new(ByteCount(1 << 36), Some(ByteCount(self.max_command as u64)), Some(64))
    }
}

impl Figures {
    fn points(&self) -> MeasuredPoints<'_> {
        MeasuredPoints {
            sequential: &self.sequential,
            random: &self.random,
            parallel: &self.parallel,
        }
    }
}

fn chips_of(figures: &Figures, limits: &DeviceLimits) -> Vec<FittedFlash> {
    let found = candidates(&figures.points(), limits).into_iter();
    let chips = found.filter_map(|device| match device {
        FittedDevice::Flash(chips) => Some(chips),
        FittedDevice::Hdd(_) | FittedDevice::Store(_) => None,
    });
    chips.collect()
}

#[track_caller]
fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found}, expected {expected}");
}

#[test]
fn exact_figures_give_back_their_model() {
    let cases = [
        PLAIN,
        Chips { jitter: 0.4, ..PLAIN },
        Chips {
            overhead_us: 45.0,
            mb_per_s: 7450.0,
            channels: 64,
            max_command: 1048576.0,
            ..PLAIN
        },
        Chips { overhead_us: 313.3, mb_per_s: 14.366, channels: 1, max_command: 98304.0, ..PLAIN },
        Chips { overhead_us: 5971.8, mb_per_s: 0.839, channels: 1, max_command: 65536.0, ..PLAIN },
        // A NAND drive behind a controller that is slow to begin: eight at once.
        Chips { overhead_us: 80.0, mb_per_s: 520.0, channels: 8, max_command: 524288.0, ..PLAIN },
    ];
    for case in cases {
        let found = chips_of(&case.figures(), &case.limits());
        let is_it = |chips: &&FittedFlash| {
            let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-6;
            chips.channels == case.channels
                && chips.stall_us == 0.0
                && close(chips.overhead_us, case.overhead_us)
                && close(chips.mb_per_s, case.mb_per_s)
                && (chips.jitter - case.jitter).abs() < 1e-6
        };
        let chips = found.iter().find(is_it);
        let chips = chips.unwrap_or_else(|| panic!("{} us: {found:#?}", case.overhead_us));
        assert_eq!(chips.limits.depth, 64.max(case.channels));
        assert!(chips.is_parallel_known);
    }
}

#[test]
fn a_stall_of_large_commands_is_told_from_a_lower_rate() {
    let case = Chips {
        overhead_us: 6.3,
        mb_per_s: 270.215,
        stall_us: 342.7,
        stall_size: 114_688.0,
        channels: 1,
        max_command: 1_073_741_824.0,
        jitter: 0.0,
    };
    let found = chips_of(&case.figures(), &case.limits());
    let with_stall = found.iter().find(|chips| chips.stall_us > 0.0 && chips.channels == 1);
    let chips = with_stall.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(chips.stall_size, ByteCount(112 << 10));
    near(chips.overhead_us, 6.3, 1e-3);
    near(chips.stall_us, 342.7, 1e-3);
    near(chips.mb_per_s, 270.215, 1e-3);
}

#[test]
fn without_reads_in_flight_channels_are_a_lower_bound_and_said_to_be() {
    let mut figures = PLAIN.figures();
    figures.parallel.clear();
    let found = chips_of(&figures, &PLAIN.limits());
    let chips = found.iter().find(|chips| chips.channels > 1).expect("two windows in flight");
    assert_eq!(chips.channels, 2);
    let assumed = FittedDevice::Flash(*chips).assumed().join("; ");
    assert!(assumed.contains("channels is the smallest"), "{assumed}");
}

#[test]
fn a_disk_has_the_access_time_and_the_rate_that_were_measured() {
    let (access_us, rate) = (12_600.0, 150.0);
    let limits = DeviceLimits::new(ByteCount(1 << 40), None, None);
    let row = |window_kib: u64| {
        let bytes = window_kib as f64 * 1024.0;
        let commands = (bytes / limits.max_command.0 as f64).ceil();
        let mb_per_s = bytes / (bytes / rate + commands * 90.0);
        WindowResult { window_kib, mb_per_s, low: mb_per_s, high: mb_per_s, samples: 3 }
    };
    let latency = |size_kib: u64| {
        let median_us = access_us + size_kib as f64 * 1024.0 / rate;
        Latency { size_kib, median_us, p90_us: 1.5 * median_us, reads: 48 }
    };
    let parallel = |at_once: u32, reads_per_s| ParallelResult { at_once, reads_per_s, samples: 3 };
    let figures = Figures {
        sequential: (0..=12).map(|step| row(4 << step)).collect(),
        random: (0..=8).map(|step| latency(4 << step)).collect(),
        parallel: vec![parallel(1, 79.0), parallel(32, 190.0)],
    };
    let found = candidates(&figures.points(), &limits);
    let disk = found.iter().find_map(|device| match device {
        FittedDevice::Hdd(disk) => Some(*disk),
        FittedDevice::Flash(_) | FittedDevice::Store(_) => None,
    });
    let disk = disk.expect("its reads anywhere are those of an arm");
    // The mean seek over all pairs of places, and half a turn.
    let seek_ms =
        disk.seek_min_ms + (disk.seek_max_ms - disk.seek_min_ms) * (0.7 * 8.0 / 15.0 + 0.3 / 3.0);
    near(seek_ms * 1e3 + 30e6 / disk.rpm + disk.overhead_us, access_us, 1e-6);
    near(disk.overhead_us, 90.0, 1e-6);
    near(disk.mb_per_s, rate, 1e-6);
    near(disk.rpm, 7200.0, 1e-9);
    assert_eq!((disk.limits.depth, disk.is_nearest), (32, true), "more in flight gave more");
    let flash = Chips { overhead_us: 2000.0, ..PLAIN };
    let of_flash = candidates(&flash.figures().points(), &limits);
    assert!(of_flash.iter().all(|device| device.kind() == "flash"), "{of_flash:#?}");
}

#[test]
fn a_disk_that_loses_a_turn_with_each_window_tells_its_turns() {
    let (turn_us, rate) = (60e6 / 7200.0, 109.7);
    let bytes = |kib: u64| kib as f64 * 1024.0;
    let row = |window_kib: u64| {
        let mb_per_s = bytes(window_kib) / (turn_us + bytes(window_kib) / rate);
        WindowResult { window_kib, mb_per_s, low: mb_per_s, high: mb_per_s, samples: 3 }
    };
    let latency = |size_kib: u64| {
        let median_us = 15_300.0 + bytes(size_kib) / rate;
        Latency { size_kib, median_us, p90_us: 1.4 * median_us, reads: 48 }
    };
    let figures = Figures {
        sequential: (0..=12).map(|step| row(4 << step)).collect(),
        random: (0..=8).map(|step| latency(4 << step)).collect(),
        parallel: Vec::new(),
    };
    let found = candidates(&figures.points(), &DeviceLimits::new(ByteCount(500 << 30), None, None));
    let Some(FittedDevice::Hdd(disk)) = found.last() else { panic!("{found:#?}") };
    near(disk.rpm, 7200.0, 1e-6);
    near(disk.mb_per_s, rate, 1e-6);
    assert_eq!((disk.reads_on, disk.limits.depth, disk.is_nearest), (false, 1, false));
}

#[test]
fn too_few_figures_give_no_model() {
    let nothing = Figures { sequential: Vec::new(), random: Vec::new(), parallel: Vec::new() };
    assert_eq!(candidates(&nothing.points(), &PLAIN.limits()), []);
    let mut one = PLAIN.figures();
    one.random.clear();
    one.sequential.truncate(1);
    one.parallel.clear();
    assert_eq!(candidates(&one.points(), &PLAIN.limits()), []);
    assert_eq!(ModelError::of(&[]), None);
}

#[test]
fn the_error_of_a_model_is_relative_to_what_was_measured() {
    let point = |what: &str, measured, model| ModelPoint {
        what: what.to_owned(),
        unit: "us",
        measured,
        model,
    };
    let points = [point("a", 100.0, 90.0), point("b", 10.0, 12.0), point("c", 1.0, 1.0)];
    let error = ModelError::of(&points).expect("three");
    near(error.mean, 0.1, 1e-9);
    near(error.greatest, 0.2, 1e-9);
    assert_eq!(error.at, "b");
    assert_eq!(ModelError::of(&[point("d", 0.0, 1.0)]), None, "it is infinite");
}

#[test]
fn a_table_has_a_head_that_tells_it_and_names_that_break_nothing() {
    let chips = chips_of(&PLAIN.figures(), &PLAIN.limits())[0];
    let device = FittedDevice::Flash(chips);
    let text = device_table("/mnt/x\"\n[a]", &device, &["one\ntwo = 3".to_owned()]);
    assert!(text.starts_with(DEVICE_MODEL_HEAD), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "# one?two = 3");
    assert!(lines.contains(&"[device.\"/mnt/x\\\"?[a]\".model.flash]"), "{text}");
    let keys = lines.iter().filter(|line| line.contains(" = ") && !line.starts_with('#'));
    assert_eq!(keys.count(), device.keys().len());
}

fn settings() -> StoreSweepSettings {
    StoreSweepSettings {
        budget: Duration::from_secs(60),
        bytes: ByteCount(32 << 30),
        object: ByteCount(4 << 30),
        connections_max: 64,
        seed: 7,
    }
}

/// A store in virtual time, swept by the sweep itself.
#[test]
fn a_sweep_of_a_store_gives_back_the_store() {
    for (latency_s, connection, link) in
        [(0.025, 80e6, 1.2e9), (0.1, 40e6, 0.6e9), (0.005, 300e6, 3e9)]
    {
        let store = ModelStore { latency_s, connection, link, ..ModelStore::default() };
        let found = store.run(settings(), 10_000).findings;
        let prices = StorePrices { per_1000_requests: 0.0004, per_gb: 0.09 };
        let fitted = FittedStore::of(&found, ByteCount(4 << 30), prices).expect("all was measured");
        near(fitted.latency_ms, latency_s * 1e3, 0.01);
        near(fitted.connection_mb_per_s, connection / 1e6, 0.05);
        near(fitted.link_mb_per_s, link / 1e6, 0.05);
        assert!(fitted.is_link_full, "{fitted:?}");
        assert_eq!((fitted.slow_share, fitted.requests_per_s), (0.0, 0.0));
        // Where the first bytes of all connections come together, they wait for the link together:
        // small parts give less than in the model, whose requests have spread.
        let error = ModelError::of(&fitted.points(&found)).expect("points");
        assert!(
            error.greatest < 0.4 && error.mean < 0.15,
            "{error:?} {:#?}",
            fitted.points(&found)
        );
        let device = FittedDevice::Store(fitted);
        assert!(device.keys().contains(&("price_per_gb", "0.09".to_owned())));
    }
}

fn findings(first_byte_ms: LatencyQuantiles) -> StoreFindings {
    let row = |part_kib, connections, mb_per_s| PointResult {
        part_kib,
        connections,
        mb_per_s,
        low: mb_per_s,
        high: mb_per_s,
        requests_per_s: 1.0,
        samples: 5,
    };
    let whole_ms = first_byte_ms;
    StoreFindings {
        seconds: 30.0,
        asked: StoreSpent::default(),
        chosen: None,
        connections: vec![row(8192, 1, 60.0), row(8192, 16, 800.0)],
        parts: vec![row(8192, 16, 800.0)],
        one_connection_mb_per_s: Some(60.0),
        small_reads: Some(SmallReads { size_kib: 16, reads: 500, first_byte_ms, whole_ms }),
        new_connection: None,
        throttling: Vec::new(),
        notes: Vec::new(),
        ended: None,
    }
}

#[test]
fn the_tail_of_a_store_is_a_spread_or_slow_requests() {
    let of = |p50, p95, p99| {
        let times = LatencyQuantiles { p50, p95, p99, max: 900.0 };
        let found = findings(times);
        let store = FittedStore::of(&found, ByteCount(1 << 30), StorePrices::default());
        let store = store.expect("there is a latency");
        let error = ModelError::of(&store.points(&found)[..3]).expect("three quantiles");
        (store, error.greatest)
    };
    let sigma = 0.3_f64;
    let normal = |deviations: f64| Some(20.0 * (sigma * deviations).exp());
    let (spread, error) = of(20.0, normal(1.6449), normal(2.3263));
    near(spread.latency_sigma, sigma, 1e-9);
    assert!(spread.slow_share == 0.0 && error < 1e-9, "{spread:?} {error}");
    // One in fifty takes ten times as long: half of them are above p99.
    let (slow, error) = of(20.0, Some(25.0), Some(200.0));
    assert_eq!((slow.slow_share, slow.slow_factor), (0.02, 10.0));
    near(slow.latency_sigma, 1.25_f64.ln() / 1.8719, 1e-9);
    assert!(error < 1e-9, "{error}");
    let mut few = findings(LatencyQuantiles { p50: 20.0, p95: None, p99: None, max: 90.0 });
    let of_few =
        |few: &StoreFindings| FittedStore::of(few, ByteCount(1 << 30), StorePrices::default());
    let store = of_few(&few).expect("a median is enough");
    assert_eq!((store.latency_sigma, store.is_tail_known), (0.0, false));
    few.small_reads = None;
    assert_eq!(of_few(&few), None);
}
