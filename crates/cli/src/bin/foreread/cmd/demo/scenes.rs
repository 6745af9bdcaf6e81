//! Scenes of the demo: a device, a pattern, and the gain of foreread.
//!
//! The kernel is measured with its defaults and with the best of several windows, foreread with its
//! defaults. Settings that cannot be tried are named.

use std::io;
use std::time::Duration;

use foreread::Policy;
use foreread::lab::Delay;
use indicatif::ProgressBar;

use super::plan::MEMORY;
use foreread_cli::args::max_window::MaxWindow;
use foreread_cli::measure::figures::BenchRow;
use foreread_cli::measure::memory_limit::MemoryLimit;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;
use foreread_cli::measure::rounds::{Rounds, measure};
use foreread_cli::measure::run::{BenchWork, RunLimit};
use foreread_cli::measure::target::BenchTarget;
use foreread_cli::measure::testbed::Testbed;
use foreread_cli::output::Failure;

/// A comparison of access methods on one pattern.
pub(super) struct Scene {
    /// Key in the JSON output.
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) delay: Delay,
    pattern: AccessPattern,
    /// Memory of foreread's cache, and of the kernel's.
    memory: Option<u64>,
    /// The windows that the kernel is tried with, in KiB.
    windows_kib: &'static [u64],
}

/// Figures of a scene.
pub(super) struct SceneFigures {
    pub(super) scene: Scene,
    /// The kernel with default settings.
    pub(super) default: Option<BenchRow>,
    /// The kernel with the best of the windows, if that is faster than its default.
    pub(super) best: Option<BenchRow>,
    pub(super) foreread: BenchRow,
    /// Why the kernel, or its best setting, is missing.
    pub(super) skipped: Option<String>,
}

impl SceneFigures {
    /// Returns all rows, for JSON.
    pub(super) fn rows(self) -> impl Iterator<Item = BenchRow> {
        self.default.into_iter().chain(self.best).chain([self.foreread])
    }
}

/// Returns the scenes, on one slow device or on those of the demo.
pub(super) fn scenes(delay: Option<Delay>) -> Vec<Scene> {
    let one_head: Delay = ONE_HEAD.parse().expect("ONE_HEAD is written as --delay takes it");
    let eight: Delay = EIGHT_AT_ONCE.parse().expect("EIGHT_AT_ONCE is written as --delay takes it");
    let stream = |key, title, delay| Scene {
        key,
        title,
        delay,
        pattern: AccessPattern::Seq4k,
        memory: None,
        windows_kib: &[256, 512, 1024, 4096],
    };
    let many = |title, delay| Scene {
        key: "200-streams",
        title,
        delay,
        pattern: AccessPattern::Inter200,
        memory: Some(LITTLE),
        windows_kib: &[32, 64],
    };
    match delay {
        Some(delay) => vec![
            stream("one-stream", "One stream, nothing set", delay),
            many("200 streams in 32 MiB of memory", delay),
        ],
        None => vec![
            stream("one-head", "One stream, nothing set: a disk with one head", one_head),
            stream("eight-at-once", "One stream, nothing set: a device that serves eight", eight),
            many("200 streams in 32 MiB of memory, on that device", eight),
        ],
    }
}

/// Returns the number of runs of all scenes, for the progress bar.
pub(super) fn steps(scenes: &[Scene], runs: u32) -> u64 {
    let of = |scene: &Scene| scene.windows_kib.len() as u64 + 3 * u64::from(runs);
    scenes.iter().map(of).sum()
}

impl Scene {
    /// Runs the comparison.
    pub(super) fn measure(
        self,
        target: &BenchTarget,
        runs: u32,
        bar: &ProgressBar,
    ) -> Result<SceneFigures, Failure> {
        bar.set_message(self.title);
        let (delay, window) = (Some(self.delay), Some(MaxWindow::Auto));
        let memory = self.memory.unwrap_or(MEMORY);
        let mut testbed = Testbed::new(target, delay, Policy::default(), window, memory)
            .map_err(|error| Failure::WrongUse(error.to_string()))?;
        testbed.kernel_memory = self.memory;
        let mut skipped = testbed
            .mount_refusal()
            .map(|error| format!("it takes a FUSE mount ({error}); run as root, or install fuse3"));
        if self.memory.is_some() && skipped.is_none() {
            let why = |error| format!("it takes a memory cgroup of its own ({error}); run as root");
            skipped = MemoryLimit::refusal().map(why);
        }
        let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
        let is_alone = skipped.is_some();
        let methods: &[_] = if is_alone { &[AccessMethod::Foreread] } else { &KERNEL_AND_FOREREAD };
        let rows = self.rows(&testbed, methods, runs, "default", bar).map_err(failed)?;
        let mut best = None;
        if !is_alone {
            let default = rows.iter().find(|row| row.method == AccessMethod::Buffered);
            let default = default.map_or(0.0, |row| row.mb_per_s.median);
            match self.best(&mut testbed, default, runs, bar) {
                Ok(row) => best = row,
                Err(error) => {
                    skipped =
                        Some(format!("it takes setting read_ahead_kb ({error}); run as root"));
                }
            }
        }
        let (mut default, mut foreread) = (None, None);
        for row in rows {
            let place = match row.method {
                AccessMethod::Foreread => &mut foreread,
                AccessMethod::Buffered | AccessMethod::Direct => &mut default,
                // Of cached reads only.
                AccessMethod::Memory => continue,
            };
            *place = Some(row);
        }
        let foreread = foreread.expect("foreread reads whatever a target is");
        Ok(SceneFigures { scene: self, default, best, foreread, skipped })
    }

    /// Measures the kernel with the best of the windows: each is tried once, and the best as often
    /// as other methods. None if none is faster than its default.
    fn best(
        &self,
        testbed: &mut Testbed<'_>,
        default: f64,
        runs: u32,
        bar: &ProgressBar,
    ) -> io::Result<Option<BenchRow>> {
        let mut best = (default, None);
        for kib in self.windows_kib {
            testbed.hold_kernel_window(kib << 10)?;
            let rows = self.rows(testbed, &[AccessMethod::Buffered], 1, "best", bar)?;
            let speed = rows.first().map_or(0.0, |row| row.mb_per_s.median);
            if speed > best.0 {
                best = (speed, Some(*kib));
            }
        }
        let Some(kib) = best.1 else { return Ok(None) };
        testbed.hold_kernel_window(kib << 10)?;
        Ok(self.rows(testbed, &[AccessMethod::Buffered], runs, "best", bar)?.pop())
    }

    fn rows(
        &self,
        testbed: &Testbed<'_>,
        methods: &[AccessMethod],
        runs: u32,
        setting: &'static str,
        bar: &ProgressBar,
    ) -> io::Result<Vec<BenchRow>> {
        let rounds = Rounds {
            methods,
            runs,
            warm_ups: 0,
            // Lest a cache below us remember them.
            own_pages: true,
            direct_time: Duration::MAX,
        };
        let work = BenchWork {
            pattern: self.pattern,
            len: testbed.target.len,
            shift: 0,
            hot_set: None,
            threads: 1,
            seed: 0,
            limit: RunLimit { reads: u64::MAX, time: SCENE_TIME, look: 1 },
        };
        let mut rows = measure(testbed, &work, &rounds, bar)?;
        for row in &mut rows {
            row.scene = Some(self.key);
            row.setting = Some(setting);
        }
        Ok(rows)
    }
}

const KERNEL_AND_FOREREAD: [AccessMethod; 2] = [AccessMethod::Buffered, AccessMethod::Foreread];

/// A disk of 2010: a seek and a turn for each request.
const ONE_HEAD: &str = "latency=4ms,parallel=1,bandwidth=100M";

/// Model of a cloud disk.
const EIGHT_AT_ONCE: &str = "latency=1ms,parallel=8";

/// Memory for 200 streams: less than a window of the kernel's default size for each.
const LITTLE: u64 = 32 << 20;

/// Long enough to see many windows, and short enough for all runs to end within a minute.
const SCENE_TIME: Duration = Duration::from_millis(700);
