//! The process that restores the system's settings when a measurement ends, however that ends.
//!
//! In:    settings to hold for as long as this process lives.
//! Out:   a handle that sets them; the body of the process that sets them back.
//! Never: a setting that outlives both processes without a note from which a later run restores it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use foreread_tune::sysfs::SystemRoot;
use foreread_tune::temporary_settings::{TemporarySettings, restore_left_behind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Starts the process that restores the system's settings when we have ended: this program, by a
/// verb of its own.
pub(crate) fn holder() -> io::Result<TemporarySettings> {
    // What a run has left that was killed, and its holder with it.
    let _ = restore_left_behind(&SystemRoot::here());
    // The file that runs now, also if another one has its path: root may be running us.
    let mut holder = Command::new("/proc/self/exe");
    holder.arg0(std::env::current_exe()?).arg(HOLD);
    TemporarySettings::new(holder, &SystemRoot::here())
}

/// The body of that process. It ignores the signals that stop us, which a service manager sends to
/// all processes of a unit: it ends when we have ended, and not before.
pub(crate) fn hold() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    foreread_tune::temporary_settings::serve(&SystemRoot::here())
}

/// The verb that starts it, which no help shows.
pub(crate) const HOLD: &str = "hold-settings";
