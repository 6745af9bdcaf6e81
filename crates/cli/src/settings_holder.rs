//! The process that restores the system's settings when a measurement ends, however that ends.
//!
//! A child process restores settings if this process is killed. If both are killed, a journal file
//! remains, from which a later run restores them.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use foreread_tune::sysfs::SystemRoot;
use foreread_tune::temporary_settings::{TemporarySettings, restore_left_behind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Starts this program with a hidden verb as the process that restores settings when this one ends.
pub fn holder() -> io::Result<TemporarySettings> {
    // Restores the settings of a run that was killed together with its holder.
    let _ = restore_left_behind(&SystemRoot::here());
    // The file that runs now, also if another one has its path: root may be running us.
    let mut holder = Command::new("/proc/self/exe");
    holder.arg0(std::env::current_exe()?).arg(HOLD);
    TemporarySettings::new(holder, &SystemRoot::here())
}

/// Runs the process that holds the settings. It must outlive this process, so it ignores the
/// signals by which a service manager stops all processes of a unit.
pub fn hold() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    foreread_tune::temporary_settings::serve(&SystemRoot::here())
}

/// The verb that starts it, which no help shows.
pub const HOLD: &str = "hold-settings";
