//! Progress on stderr: bars and spinners on a terminal, nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a progress bar of `steps` steps on a terminal, and a hidden one elsewhere.
pub fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
    ProgressBar::new(steps)
        .with_style(style.expect("the template is a constant that indicatif parses"))
}

/// Shows that something happens, on a terminal and nowhere else.
pub fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}")
        .expect("the template is a constant that indicatif parses");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Converts a share to steps of a bar with 100 steps.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
pub fn percent(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 100.0) as u64
}
