//! Bounds, progress bar and report shared by sweeps of real and simulated devices.

use std::io::Write as _;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_tune::sweep::{self, SweepActivity};
use indicatif::ProgressBar;

use super::args::TuneArgs;
use super::headline::Intent;
use super::measured::MeasuredDevice;
use super::{device_model, html};
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::progress::{percent, progress as bar_of};

/// Runs after the answer is printed, so that a failure does not lose it.
pub(super) fn write_page(
    page: Option<HtmlFile>,
    args: &TuneArgs,
    measured: &[MeasuredDevice],
    out: &mut Printer,
) -> Result<(), Failure> {
    let Some(page) = page else { return Ok(()) };
    out.flush()?;
    page.write(html::page(measured, Intent::of(args)))
}

pub(super) fn settings_of(args: &TuneArgs, size: ByteCount) -> sweep::SweepSettings {
    let share = if args.scratch.is_some() { SWEEP_SHARE } else { 1.0 };
    let share =
        if args.device_model.is_some() { share - device_model::PARALLEL_SHARE } else { share };
    sweep::SweepSettings::within(size, args.budget().mul_f64(share))
}

pub(super) fn progress() -> ProgressBar {
    bar_of(100)
}

pub(super) fn show(bar: &ProgressBar, device: &str, progress: sweep::SweepProgress) {
    bar.set_position(percent(progress.seconds / progress.of));
    let doing = match progress.doing {
        SweepActivity::Climbing(window) => format!("how fast is it? windows of {}", Exact(window)),
        SweepActivity::DetectingThrottle => "does it stay as fast as it begins?".to_owned(),
        SweepActivity::Draining => "using up what it has saved".to_owned(),
        SweepActivity::Window(window) => format!("windows of {}", Exact(window)),
        SweepActivity::Random(size) => format!("reads of {} anywhere", Exact(size)),
    };
    bar.set_message(format!("{device}: {doing}"));
}

/// Share of the time for the sweep if the mixed load follows.
pub(super) const SWEEP_SHARE: f64 = 0.65;
