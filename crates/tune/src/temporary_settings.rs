//! Settings that are changed temporarily, and restored however the run ends.
//!
//! In:    a command that starts the holder (this program, with a hidden verb); settings.
//! Out:   the settings in force, and at the end the original ones.
//! Never: leaves a setting behind; overwrites a value that another process has set in between.
//!
//! ```text
//!   run --- a socket ---> holder: notes the old value, sets, answers
//!    |                      |
//!    '--- its end --------->'  sets back, removes its notes
//!
//!   both killed: the notes stay, unlocked, and the next start sets back
//! ```
//!
//! The holder is a process in its own process group, so it survives Ctrl-C and a kill of the run.
//! The notes (`/run/foreread/held-sda.notes`) survive the holder; a reboot needs neither.

mod device_instance;
mod holder;
mod restore_journal;

use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;

pub use device_instance::DeviceInstance;
pub use holder::{may_write, serve};
pub use restore_journal::left_behind;

/// Temporary settings, in force until this value is dropped.
#[derive(Debug)]
pub struct TemporarySettings {
    link: Mutex<HolderLink>,
    sys: SystemRoot,
}

/// Result of restoring.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    /// Settings that were restored.
    pub back: Vec<DeviceSetting>,
    /// Settings that were left, with the value that another process has set.
    pub theirs: Vec<DeviceSetting>,
    /// Settings that could not be restored, with the reason. They stay in the notes.
    pub failed: Vec<String>,
}

/// Connection to the holder.
#[derive(Debug)]
struct HolderLink {
    holder: Child,
    /// None after it has failed to answer.
    socket: Option<BufReader<UnixStream>>,
    /// True if it has not answered in time, and may hang in the device.
    is_late: bool,
}

/// Request to the holder, one line.
#[derive(Debug, Serialize, Deserialize)]
enum HolderRequest {
    Set(DeviceSetting),
    Restore,
}

/// Reply of the holder, one line.
#[derive(Debug, Serialize, Deserialize)]
enum HolderReply {
    Set,
    Restored(Restored),
    /// Failure, caused by a missing permission, by another run, or by neither.
    Refused {
        why: String,
        is_permission: bool,
        is_taken: bool,
    },
}

/// Restores settings left behind by runs that were killed together with their holders.
///
/// Settings of a live run stay. Without notes this only lists one folder.
#[must_use]
pub fn restore_left_behind(sys: &SystemRoot) -> Restored {
    restore_journal::restore_all(sys)
}

impl TemporarySettings {
    /// Starts the holder without any settings yet. It communicates on its standard input
    /// ([`serve`]).
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn new(mut holder: Command, sys: &SystemRoot) -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let holder = holder
            // A separate group: Ctrl-C ends this process, and the closed socket ends the holder.
            .process_group(0)
            .stdin(OwnedFd::from(its))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let link = HolderLink { holder, socket: Some(BufReader::new(ours)), is_late: false };
        Ok(Self { link: Mutex::new(link), sys: sys.clone() })
    }

    /// Makes a setting, after noting the original value.
    ///
    /// # Errors
    ///
    /// If permission is missing (`PermissionDenied`), another run holds the device's settings
    /// (`ResourceBusy`), or the system rejects the value.
    pub fn set(&self, setting: &DeviceSetting) -> io::Result<()> {
        match self.lock().ask(&HolderRequest::Set(setting.clone()))? {
            HolderReply::Set => Ok(()),
            HolderReply::Refused { why, is_permission, is_taken } => {
                let kind = match (is_permission, is_taken) {
                    (true, _) => ErrorKind::PermissionDenied,
                    (false, true) => ErrorKind::ResourceBusy,
                    (false, false) => ErrorKind::Other,
                };
                Err(io::Error::new(kind, why))
            }
            HolderReply::Restored(_) => {
                Err(io::Error::other("the process that holds the settings sent an invalid reply"))
            }
        }
    }

    /// Restores all settings. Further settings may follow.
    ///
    /// # Errors
    ///
    /// If a setting could not be restored. It stays in the restore journal, and the next start
    /// retries.
    pub fn restore(&self) -> io::Result<Restored> {
        let restored = match self.lock().ask(&HolderRequest::Restore) {
            Ok(HolderReply::Restored(restored)) => restored,
            Ok(HolderReply::Refused { why, .. }) => return Err(io::Error::other(why)),
            Ok(HolderReply::Set) => {
                return Err(io::Error::other(
                    "the process that holds the settings sent an invalid \
                                             reply",
                ));
            }
            // The holder is still restoring, and holds its lock.
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(error),
            // It was killed, so restore as the next start would.
            Err(_) => restore_left_behind(&self.sys),
        };
        match restored.failed.first() {
            None => Ok(restored),
            Some(first) => Err(io::Error::other(format!("not set back: {first}"))),
        }
    }

    /// Returns the holder's process id.
    #[must_use]
    pub fn holder(&self) -> u32 {
        self.lock().holder.id()
    }

    fn lock(&self) -> MutexGuard<'_, HolderLink> {
        self.link.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for TemporarySettings {
    fn drop(&mut self) {
        let _ = self.restore();
        let mut link = self.lock();
        // A holder that does not answer hangs in the device's queue. It continues when the device
        // does; the run does not wait for it.
        if link.socket.take().is_some() {
            let _ = link.holder.wait();
        }
    }
}

impl HolderLink {
    fn ask(&mut self, order: &HolderRequest) -> io::Result<HolderReply> {
        let ended = || io::Error::other("the process that holds the settings has exited");
        let late = || {
            let why = "the device does not respond; its settings will be restored when it does";
            io::Error::new(ErrorKind::TimedOut, why)
        };
        let Some(mut socket) = self.socket.take() else {
            // Without its socket it restores and exits as soon as the device allows.
            let hangs = self.is_late && matches!(self.holder.try_wait(), Ok(None));
            return Err(if hangs { late() } else { ended() });
        };
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        socket.get_mut().write_all(line.as_bytes()).map_err(|_| ended())?;
        let mut answer = String::new();
        match socket.read_line(&mut answer) {
            Ok(0) => return Err(ended()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_late = true;
                return Err(late());
            }
            Err(error) => return Err(error),
        }
        self.socket = Some(socket);
        Ok(serde_json::from_str(&answer)?)
    }
}

/// A setting waits for the requests in flight; a disk that spins up takes some seconds for those.
const PATIENCE: Duration = Duration::from_secs(15);
