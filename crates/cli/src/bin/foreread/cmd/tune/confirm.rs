//! Consent to measure a device that is in use.
//!
//! Without a terminal and `--yes`, the answer is no.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use foreread_cli::output::Failure;

/// Prompts the user, if there is a terminal.
pub(super) fn may_measure(
    device: &str,
    in_use: &[String],
    budget: Duration,
) -> Result<(), Failure> {
    let seconds = budget.as_secs();
    let users = in_use.join(", ");
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::WrongUse(format!(
            "{device} is in use ({users}) and would be slow for up to {seconds} s; --yes measures \
             it all the same"
        )));
    }
    // A question is no answer: it goes where progress goes.
    let _ = write!(io::stderr(), "{device} is in use ({users}).\nIt will be slow for up to ");
    let _ = write!(io::stderr(), "{seconds} s, and nothing on it changes. Measure it? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::WrongUse(format!("{device} was not measured")))
}
