//! Early end of a run, and cleanup after runs that were killed.
//!
//! Settings that another process has changed since are not overwritten.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::temporary_settings;

use foreread_cli::output::{Failure, Printer};
use foreread_cli::signals::interrupt_flag;

/// Returns the flag that Ctrl-C and other signals set. A second signal ends the process at once,
/// and the holder restores the settings.
pub(super) fn interrupts() -> Result<Arc<AtomicBool>, Failure> {
    interrupt_flag().map_err(Failure::Stdout)
}

pub(super) fn restore_left_behind(sys: &SystemRoot, out: &mut Printer) -> Result<(), Failure> {
    let restored = temporary_settings::restore_left_behind(sys);
    let mut notes: Vec<_> = restored
        .back
        .iter()
        .map(|to| {
            format!("a run that was killed had left {}; it is as before", to.file().display())
        })
        .collect();
    notes.extend(restored.theirs.iter().map(left_as_is));
    notes.extend(restored.failed);
    out.notes(&notes)
}

pub(super) fn left_as_is(setting: &DeviceSetting) -> String {
    format!("{} was changed by another process; left as it is", setting.file().display())
}
