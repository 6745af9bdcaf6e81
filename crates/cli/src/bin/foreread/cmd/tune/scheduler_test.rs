//! Tunes the scheduler by writes next to reads on a scratch file.
//!
//! The file is always removed.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use foreread_core::units::Nanos;
use foreread_tune::flood::{self, FloodOutcome, RealMixedLoad, ScratchFile, TunableQueue};
use foreread_tune::probe::Stopped;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::temporary_settings::TemporarySettings;
use indicatif::ProgressBar;

use foreread_cli::clock::clock;
use foreread_cli::output::Failure;
use foreread_cli::progress::percent;

/// Checks, before the measurement, what can be tuned with a file in this directory.
pub(super) fn offer(sys: &SystemRoot, folder: &Path) -> Result<TunableQueue, Failure> {
    let named = |line: String| Failure::WrongUse(format!("--scratch {line}"));
    let number = ScratchFile::possible(folder).map_err(named)?;
    let offer = TunableQueue::of(sys, number, may_set(sys, number));
    let nowhere = format!("{}: lies on no block device; give another folder", folder.display());
    offer.ok_or_else(|| named(nowhere))
}

/// Tries them within `budget`; `share` is the part of all progress that has passed before.
pub(super) fn run(
    sys: &SystemRoot,
    (folder, offer): (&Path, &TunableQueue),
    budget: Duration,
    held: &TemporarySettings,
    interrupted: &Arc<AtomicBool>,
    (bar, share): (&ProgressBar, f64),
) -> Result<FloodOutcome, Stopped> {
    bar.set_message("writing the scratch file");
    let began = clock();
    let scratch = ScratchFile::create(folder, now, interrupted)?;
    let left = budget.saturating_sub(clock().saturating_duration_since(began));
    let mut set = |setting: &DeviceSetting| held.set(setting);
    let seed = scratch.device().map_or(0, |(_, minor)| u64::from(minor));
    let mut load = RealMixedLoad::new(
        scratch,
        sys.clone(),
        &offer.device,
        &mut set,
        now,
        Arc::clone(interrupted),
    );
    Ok(flood::measure(&mut load, offer, left, seed, &mut |progress| {
        bar.set_position(percent(share + progress.part * (1.0 - share)));
        bar.set_message(format!("reads beside writes: {}", progress.trial));
    }))
}

/// Returns an error if the settings of this device cannot be changed.
pub(super) fn may_set(sys: &SystemRoot, (major, minor): (u32, u32)) -> bool {
    let device = sys.device_numbered(major, minor).and_then(|device| sys.whole(&device));
    device.is_some_and(|device| {
        let file = sys.path(DeviceSetting::read_ahead_kb(&device.name, 0).file());
        OpenOptions::new().write(true).open(file).is_ok()
    })
}

/// Returns the time since the first call, as the core counts it.
fn now() -> Nanos {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let since = clock().saturating_duration_since(*FIRST.get_or_init(clock));
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
