//! Measures a real device, with the kernel's own read-ahead or around the page cache.
//!
//! Ctrl-C ends every wait: a hanging device blocks a worker thread, not this one.
//!
//! ```text
//!   may we set read_ahead_kb?  --yes--> does the kernel reveal resident pages?  --yes--> kernel
//!              | no                            | no
//!              '-------------> direct <--------'     (no O_DIRECT there: an error)
//! ```

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use foreread_core::units;

use super::laps::instant;
use super::read_offsets::ReadOffsets;
use super::run::{OpenedDevice, ProbeRun};
use super::{Probe, ProbeSample, RandomReads, SequentialRead, Stopped, buffered, direct};
use crate::clock::now;
use crate::errno_text::errno_text;
use crate::pages::resident;
use crate::parallel_reads::{AtOnceSample, ParallelProbe, ReadsAtOnce};
use crate::report::Method;
use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;
use crate::target::TuneTarget;
use crate::temporary_settings::TemporarySettings;

/// Options for the measurement of a real device.
#[derive(Clone, Debug, Default)]
pub struct RealProbeOptions {
    /// Set by Ctrl-C: the measurement ends at the next read.
    pub interrupted: Arc<AtomicBool>,
    /// Seed for the start of the first stream.
    pub seed: u64,
    /// Read with `O_DIRECT` even if the setting may be changed.
    pub is_direct: bool,
}

/// A real device under measurement.
pub struct RealProbe<'h> {
    run: ProbeRun,
    sys: SystemRoot,
    /// The window's setting; its value is a placeholder.
    window: DeviceSetting,
    held: Option<&'h TemporarySettings>,
    why_direct: Option<String>,
    /// None while a worker thread has the offsets; forever if the device hangs.
    places: Option<ReadOffsets>,
    is_direct_possible: bool,
    window_kib: Option<u64>,
}

impl<'h> RealProbe<'h> {
    /// Prepares the measurement. Without a holder, or if it may not set the window, the device is
    /// read with `O_DIRECT`.
    ///
    /// # Errors
    ///
    /// One line, if neither way of reading works, or another run is measuring the device.
    pub fn new(
        target: &TuneTarget,
        held: Option<&'h TemporarySettings>,
        sys: &SystemRoot,
        options: &RealProbeOptions,
    ) -> Result<Self, String> {
        let why_direct = match why_not_by_the_kernel(target, held, sys, options) {
            Ok(()) => None,
            // Two runs would measure each other, and the other's window would look like the
            // original setting.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                return Err(errno_text(&error));
            }
            Err(error) => Some(errno_text(&error)),
        };
        if let (Some(why), Some(not_direct)) = (&why_direct, &target.not_direct) {
            return Err(format!(
                "{}: cannot be measured: {why}, and {not_direct}; run as root, or give another \
                 file",
                target.path.display()
            ));
        }
        let interrupted = Arc::clone(&options.interrupted);
        let path = target.path.clone();
        let opened = File::open(&path).and_then(|file| OpenedDevice::of(&file));
        let lies_on =
            opened.map_err(|error| format!("{}: {}", path.display(), errno_text(&error)))?;
        Ok(Self {
            run: ProbeRun { path, zero: now(), lies_on, interrupted },
            sys: sys.clone(),
            window: target.window(0),
            held,
            why_direct,
            places: Some(ReadOffsets::new(&target.parts, options.seed)),
            is_direct_possible: target.not_direct.is_none(),
            window_kib: None,
        })
    }

    /// Returns the method of measurement.
    #[must_use]
    pub fn method(&self) -> Method {
        if self.why_direct.is_none() { Method::Kernel } else { Method::Direct }
    }

    /// Returns the reason for `O_DIRECT`, if the kernel's read-ahead is not used.
    #[must_use]
    pub fn why_direct(&self) -> Option<&str> {
        self.why_direct.as_deref()
    }

    /// Runs `work` in a thread, and waits until it ends or the grace period after an interrupt is
    /// over.
    fn away<T: Send + 'static>(
        &mut self,
        at_most: Duration,
        work: impl FnOnce(&ProbeRun, &mut ReadOffsets) -> Result<T, Stopped> + Send + 'static,
    ) -> Result<T, Stopped> {
        self.run.go_on()?;
        let hangs = || Stopped::Failed(format!("{}: it does not answer", self.run.path.display()));
        let mut places = self.places.take().ok_or_else(hangs)?;
        let (answer, answers) = mpsc::channel();
        let run = self.run.clone();
        std::thread::spawn(move || {
            let result = work(&run, &mut places);
            // Fails if the caller was interrupted and no longer waits.
            let _ = answer.send((result, places));
        });
        let began = now();
        let mut since: Option<Instant> = None;
        loop {
            match answers.recv_timeout(LOOK) {
                Ok((result, places)) => {
                    self.places = Some(places);
                    return result.map_err(|stopped| self.explained(stopped));
                }
                Err(RecvTimeoutError::Disconnected) => panic!("a measurement has panicked"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.run.interrupted.load(Ordering::Relaxed) {
                let since = *since.get_or_insert_with(now);
                if now().duration_since(since) >= GRACE {
                    return Err(Stopped::Interrupted);
                }
            }
            if now().duration_since(began) >= at_most.saturating_add(HANGS) {
                return Err(hangs());
            }
        }
    }

    /// Explains an error. A device that was removed reports an input/output error.
    fn explained(&self, stopped: Stopped) -> Stopped {
        match stopped {
            Stopped::Failed(line) if self.window.in_force(&self.sys).is_none() => {
                Stopped::Failed(format!("{line}; {} has gone", self.window.device))
            }
            Stopped::Failed(_) | Stopped::Interrupted => stopped,
        }
    }

    /// Sets the window, which applies to descriptors opened afterwards.
    fn set_window(&mut self, bytes: u64) -> Result<(), Stopped> {
        let kib = bytes / 1024;
        if self.window_kib == Some(kib) {
            return Ok(());
        }
        let Some(held) = self.held else { return Ok(()) };
        let setting = DeviceSetting { value: kib.to_string(), ..self.window.clone() };
        held.set(&setting).map_err(|error| {
            let device = &setting.device;
            let failed = format!("setting read_ahead_kb of {device} to {kib}: {error}");
            self.explained(Stopped::Failed(failed))
        })?;
        self.window_kib = Some(kib);
        Ok(())
    }
}

/// Returns the reason why the kernel's own read-ahead cannot be measured, if there is one.
fn why_not_by_the_kernel(
    target: &TuneTarget,
    held: Option<&TemporarySettings>,
    sys: &SystemRoot,
    options: &RealProbeOptions,
) -> io::Result<()> {
    if options.is_direct {
        return Err(io::Error::other("O_DIRECT was requested"));
    }
    if let Some(kind) = &target.has_own_window {
        return Err(io::Error::other(format!("{kind} uses its own window, not the disk's")));
    }
    let held = held.ok_or_else(|| io::Error::other("settings stay as they are"))?;
    let file = File::open(&target.path)?;
    let first = target.parts.first().map_or(0, |part| part.start);
    let untold = || io::Error::other("the kernel does not reveal which pages are cached");
    resident(&file, &(first..first + 1)).ok_or_else(untold)?;
    // Writes the current value, to test the permission.
    let now = target
        .window_now(sys)
        .ok_or_else(|| io::Error::other(format!("{} has no read_ahead_kb", target.device.name)))?;
    held.set(&now)
}

impl Probe for RealProbe<'_> {
    fn now(&self) -> units::Nanos {
        instant(now().duration_since(self.run.zero))
    }

    fn sequential(&mut self, ask: &SequentialRead) -> Result<ProbeSample, Stopped> {
        let ask = *ask;
        if self.method() == Method::Direct {
            return self
                .away(ask.at_most, move |run, places| direct::sequential(run, places, &ask));
        }
        self.set_window(ask.window.0)?;
        self.away(ask.at_most, move |run, places| buffered::sequential(run, places, &ask))
    }

    fn random(&mut self, ask: &RandomReads) -> Result<Vec<u64>, Stopped> {
        let ask = *ask;
        if self.is_direct_possible {
            return self.away(ask.at_most, move |run, places| direct::random(run, places, &ask));
        }
        self.away(ask.at_most, move |run, places| buffered::random(run, places, &ask))
    }
}

impl ParallelProbe for RealProbe<'_> {
    /// Returns an empty sample without `O_DIRECT`, because buffered readers would wait for each
    /// other.
    fn at_once(&mut self, ask: &ReadsAtOnce) -> Result<AtOnceSample, Stopped> {
        if !self.is_direct_possible {
            return Ok(AtOnceSample::default());
        }
        let ask = *ask;
        self.away(ask.time, move |run, places| {
            let sample = direct::at_once(run, places, &ask);
            // The next reads start elsewhere.
            places.anywhere(ask.size.0);
            sample
        })
    }
}

impl std::fmt::Debug for RealProbe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path: &Path = &self.run.path;
        f.debug_struct("Real").field("path", &path).field("method", &self.method()).finish()
    }
}

/// Polling interval for the interrupt flag.
const LOOK: Duration = Duration::from_millis(20);

/// Grace period after Ctrl-C for a read in flight.
const GRACE: Duration = Duration::from_secs(2);

/// The kernel fails a request after 30 s, and tries some of them twice.
const HANGS: Duration = Duration::from_secs(90);
