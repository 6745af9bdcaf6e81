//! Advice that never harms: ten thousand devices, each with a window in force, swept and advised.
//!
//! In:    seeds; curves that fall behind their best window, token buckets, caches, early ends.
//! Out:   what would be set is at most 2 % slower, in the true curve, than what was in force; and
//!        what is recommended agrees with the table, or names the faster window.
//! Never: a device left out because it is hard; a second that is not virtual.
//!
//! ```text
//!   true curve --> noise, stalls, credit, cache --> sweep --> advice --> would it be set?
//!        |                                                                 | yes
//!        '----------- window in force  <= 1.02 x  window that is set  <----'
//! ```

use crate::virtual_device;

use std::thread;
use std::time::Duration;

use foreread_core::units::ByteCount;
use foreread_tune::advice::{self, DeviceFacts};
use foreread_tune::probe::Stopped;
use foreread_tune::report::{Method, Profile, Refusal, Report};
use foreread_tune::sweep::{Sweep, SweepSettings};
use virtual_device::{Bucket, Rng, Virtual};

/// How many devices.
const CASES: u64 = 10_000;

/// Throughput by window, and how it is measured.
#[derive(Clone, Debug)]
struct Device {
    /// A price for each window, and a rate.
    overhead_us: f64,
    mb_per_s: f64,
    /// Behind this window it falls, by this power of the distance.
    best: u64,
    decline: f64,
    /// One window falls out of the curve.
    dip: (u64, f64),
    /// What a token bucket lets through in the long run.
    sustained: Option<(f64, f64)>,
    /// Times faster when it is read again.
    cache: Option<f64>,
    size: u64,
    noise: f64,
    stalls: f64,
    drift: f64,
    /// The window in force, KiB.
    now_kib: u64,
    seconds: u64,
    stop_after: Option<u32>,
    profile: Profile,
}

impl Device {
    fn of(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9E6D_1A2B_33C7_5F01) ^ 0x5EED);
        let mut maybe = |share: f64| rng.unit() < share;
        let (declines, dips, has_bucket) = (maybe(0.6), maybe(0.2), maybe(0.15));
        let (has_cache, is_stopped, is_odd) = (maybe(0.25), maybe(0.05), maybe(0.3));
        let size: u64 = if has_cache { 64_000_000 << rng.any().rem_euclid(6) } else { 64 << 30 };
        let mb_per_s = 10.0_f64.powf(rng.range(1.3, if has_cache { 2.7 } else { 4.0 }));
        let power = (4_u64 << (rng.any() % 13)).max(4);
        let odd = [0, 36, 120, 480, 1280, 2560, 2560, 5120, 65_536][(rng.any() % 9) as usize];
        Self {
            overhead_us: 10.0_f64.powf(rng.range(0.5, 3.7)),
            mb_per_s,
            best: (32 << 10) << (rng.any() % 9),
            decline: if declines { rng.range(0.05, 1.2) } else { 0.0 },
            dip: (if dips { 4096 << (rng.any() % 13) } else { 0 }, rng.range(0.5, 0.95)),
            sustained: has_bucket
                .then(|| (mb_per_s * 10.0_f64.powf(rng.range(-1.2, -0.1)), rng.range(1.0, 4.0))),
            cache: has_cache.then(|| rng.range(1.2, 12.0)),
            size,
            noise: rng.range(0.002, 0.10),
            stalls: if rng.unit() < 0.4 { rng.range(0.0, 0.10) } else { 0.0 },
            drift: if rng.unit() < 0.4 { rng.range(0.0, 0.10) } else { 0.0 },
            now_kib: if is_odd { odd } else { power },
            seconds: [60, 60, 60, 60, 30, 25, 15, 10][(rng.any() % 8) as usize],
            stop_after: is_stopped.then(|| (rng.any() % 400) as u32),
            profile: if rng.unit() < 0.7 { Profile::Mixed } else { Profile::Streaming },
        }
    }

    /// MB/s of a stream that is fresh and lasts.
    fn truth(&self, kib: u64) -> f64 {
        let free = self.free(kib.max(4) << 10);
        self.sustained.map_or(free, |(most, _)| free.min(most))
    }

    fn free(&self, window: u64) -> f64 {
        let bytes = window as f64;
        let whole = bytes / (self.overhead_us + bytes / self.mb_per_s);
        let behind = (bytes / self.best as f64).max(1.0).powf(-self.decline);
        whole * behind * if window == self.dip.0 { self.dip.1 } else { 1.0 }
    }

    fn report(&self, seed: u64) -> Report {
        let this = self.clone();
        let mut device = Virtual::new(seed, move |window| this.free(window)).noisy(
            self.noise,
            self.stalls,
            self.drift,
        );
        device.size = self.size;
        device.cache = self.cache;
        device.bucket = self.sustained.map(|(most, seconds)| Bucket::new(most, seconds));
        device.stop_after = self.stop_after.map(|after| (after, Stopped::Interrupted));
        let settings =
            SweepSettings::within(ByteCount(self.size), Duration::from_secs(self.seconds));
        let settings = settings.beside(Some(self.now_kib));
        let outcome = Sweep::new(settings).run(&mut device, &mut |_| ());
        let facts = DeviceFacts {
            name: "sda".into(),
            size: ByteCount(self.size),
            method: Method::Kernel,
            now_kib: Some(self.now_kib),
            kernel: None,
            has_ext4: false,
            cached_below: None,
        };
        advice::report(&facts, &outcome, self.profile)
    }
}

/// What `--apply` would set.
fn applied(report: &Report) -> Option<u64> {
    let is_refused = report.refusals.iter().any(Refusal::is_of_apply);
    let recommended = report.recommended.as_ref().filter(|_| !is_refused);
    recommended.map(|recommended| recommended.read_ahead_kb)
}

/// What of the recommendation the table contradicts: another window is more than 2 % faster there,
/// and the reason does not name it; or the window in force stays, where the plateau has more.
fn contradiction(report: &Report) -> Option<String> {
    let to = report.recommended.as_ref()?;
    let row = report.row(to.read_ahead_kb)?;
    let fastest = report.sweep.iter().max_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s))?;
    let is_named = to.why.contains(&format!("{} KiB were measured", fastest.window_kib));
    let plateau = report.row(report.plateau_kib?)?;
    let is_kept = report.compared.now_kib == Some(to.read_ahead_kb);
    // A mixed load takes no more than 2 MiB of a plateau that is further up.
    let is_plateau_for_all = plateau.window_kib <= 2048 || to.profile == Profile::Streaming;
    let is_silent = row.mb_per_s < 0.98 * fastest.mb_per_s && !is_named;
    let is_slower = is_kept && is_plateau_for_all && row.mb_per_s < 0.98 * plateau.mb_per_s;
    (is_silent || is_slower).then(|| format!("{to:?}\n{:?}", report.sweep))
}

/// What became of the devices.
#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    kept: u64,
    changed: u64,
    /// More than 2 % faster in truth.
    faster: u64,
    harmed: Vec<String>,
    /// Recommended, though the table has a faster one, without a word of it.
    contradicted: Vec<String>,
    /// How often each refusal was heard.
    why: std::collections::BTreeMap<String, u64>,
}

fn judge(seed: u64, tally: &mut Tally) {
    let device = Device::of(seed);
    let report = device.report(seed);
    tally.contradicted.extend(contradiction(&report).map(|why| format!("seed {seed}: {why}")));
    let Some(kib) = applied(&report) else {
        tally.refused += 1;
        let why = report.refusals.iter().find(|refusal| refusal.is_of_apply());
        let why = why.map_or("None".to_owned(), |why| format!("{why:?}"));
        let name = why.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        *tally.why.entry(name.to_owned()).or_default() += 1;
        return;
    };
    let (before, after) = (device.truth(device.now_kib), device.truth(kib));
    tally.kept += u64::from(kib == device.now_kib);
    tally.changed += u64::from(kib != device.now_kib);
    tally.faster += u64::from(after > 1.02 * before);
    if after < 0.98 * before {
        tally.harmed.push(format!(
            "seed {seed}: {} KiB ({before:.1} MB/s) was set to {kib} ({after:.1}): {device:?}\n{:?}",
            device.now_kib, report.sweep
        ));
    }
}

fn tally(seeds: std::ops::Range<u64>) -> Tally {
    let parts = 4;
    let part = |first: u64| {
        let mut tally = Tally::default();
        (seeds.start + first..seeds.end).step_by(parts).for_each(|seed| judge(seed, &mut tally));
        tally
    };
    thread::scope(|scope| {
        let part = &part;
        let running: Vec<_> =
            (0..parts as u64).map(|first| scope.spawn(move || part(first))).collect();
        running.into_iter().map(|part| part.join().expect("a part")).fold(
            Tally::default(),
            |mut all, part| {
                all.refused += part.refused;
                all.kept += part.kept;
                all.changed += part.changed;
                all.faster += part.faster;
                all.harmed.extend(part.harmed);
                all.contradicted.extend(part.contradicted);
                for (why, times) in part.why {
                    *all.why.entry(why).or_default() += times;
                }
                all
            },
        )
    })
}

/// The seeds that are run: FROM and TO in the environment, if they are set.
///
/// Panics if one of them is not a number, or the range is empty.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let seeds = number("FROM", 0)..number("TO", CASES);
    assert!(!seeds.is_empty(), "FROM is not below TO: {seeds:?}");
    seeds
}

#[test]
fn what_is_set_is_never_more_than_2_percent_slower_than_what_was() {
    let seeds = seeds();
    let tally = tally(seeds.clone());
    let cases = seeds.end - seeds.start;
    let Tally { refused, kept, changed, faster, harmed, why, contradicted } = &tally;
    println!(
        "seeds {seeds:?}: refused {refused} {why:?}, kept {kept}, changed {changed}, {faster} \
         faster, {} harmed",
        harmed.len()
    );
    assert!(
        harmed.is_empty(),
        "{} of {cases} harmed (seeds {seeds:?}):\n{}",
        harmed.len(),
        harmed.join("\n")
    );
    // A recommendation above a table that has a faster window, without a word of it.
    assert!(
        contradicted.is_empty(),
        "{} of {cases} contradicted (seeds {seeds:?}):\n{}",
        contradicted.len(),
        contradicted.first().map_or("", |first| first)
    );
    // A tool that refuses everything harms nothing either. Few devices say little about the share.
    assert!(cases < 1000 || (*changed > cases / 5 && *faster > cases / 8), "{tally:?}");
}
