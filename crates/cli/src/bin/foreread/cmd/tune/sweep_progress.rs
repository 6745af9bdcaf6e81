//! Progress bar and HTML report shared by sweeps of real and simulated devices.

use std::io::Write as _;

use foreread_core::sizes::Exact;
use foreread_tune::sweep::{SweepActivity, SweepProgress};
use indicatif::ProgressBar;

use super::html;
use super::outcome::MeasuredDevice;
use super::plan::TuneAction;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::progress::{percent, progress as bar_of};

/// Runs after the answer is printed, so that a failure does not lose it.
pub(super) fn write_page(
    page: Option<HtmlFile>,
    action: TuneAction,
    measured: &[MeasuredDevice],
    out: &mut Printer,
) -> Result<(), Failure> {
    let Some(page) = page else { return Ok(()) };
    out.flush()?;
    page.write(html::page(measured, action))
}

pub(super) fn progress() -> ProgressBar {
    bar_of(100)
}

pub(super) fn show(bar: &ProgressBar, device: &str, progress: SweepProgress) {
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
