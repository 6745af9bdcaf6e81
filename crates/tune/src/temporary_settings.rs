//! Settings that are changed for a while, and set back however the run ends.
//!
//! In:    a command that starts the holder (this program, by a verb of its own); settings.
//! Out:   each in force; at the end what was there before.
//! Never: leaves a setting behind; overwrites a value that another process has set meanwhile.
//!
//! ```text
//!   run --- a socket ---> holder: notes what was there, sets, answers
//!    |                      |
//!    '--- its end --------->'  sets back, removes its notes
//!
//!   both killed: the notes stay, unlocked, and the next start sets back
//! ```
//!
//! The holder is a process of its own, in a group of its own: it outlives Ctrl-C and a kill of the
//! run. The notes (`/run/foreread/held-sda.notes`) outlive the holder; a new start of the machine
//! needs neither.

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

pub use holder::{may_write, serve};
pub use restore_journal::left_behind;

/// Settings as they were asked for, as long as this lives.
#[derive(Debug)]
pub struct TemporarySettings {
    link: Mutex<HolderLink>,
    sys: SystemRoot,
}

/// What was done at the end.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    /// These were set back.
    pub back: Vec<DeviceSetting>,
    /// These were left, with the value that another process has set meanwhile.
    pub theirs: Vec<DeviceSetting>,
    /// These could not be set back: which, and why. They stay in the notes.
    pub failed: Vec<String>,
}

/// The way to the holder.
#[derive(Debug)]
struct HolderLink {
    holder: Child,
    /// None once it has not answered.
    socket: Option<BufReader<UnixStream>>,
    /// It has not answered in time, and may hang in the device.
    is_late: bool,
}

/// One line to the holder.
#[derive(Debug, Serialize, Deserialize)]
enum HolderRequest {
    Set(DeviceSetting),
    Restore,
}

/// One line from it.
#[derive(Debug, Serialize, Deserialize)]
enum HolderReply {
    Set,
    Restored(Restored),
    /// What is wrong, and whether it is for want of a right or for another run.
    Refused {
        why: String,
        is_permission: bool,
        is_taken: bool,
    },
}

/// Sets back what runs that were killed, and their holders with them, have left.
///
/// What a living run holds stays. Without any notes this is a look into one folder.
#[must_use]
pub fn restore_left_behind(sys: &SystemRoot) -> Restored {
    restore_journal::restore_all(sys)
}

impl TemporarySettings {
    /// Starts the holder; nothing is set yet. It speaks on its standard input ([`serve`]).
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn new(mut holder: Command, sys: &SystemRoot) -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let holder = holder
            // Not in our group: Ctrl-C ends us, and the end of the socket ends the holder.
            .process_group(0)
            .stdin(OwnedFd::from(its))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let link = HolderLink { holder, socket: Some(BufReader::new(ours)), is_late: false };
        Ok(Self { link: Mutex::new(link), sys: sys.clone() })
    }

    /// Sets it, and notes before what was there.
    ///
    /// # Errors
    ///
    /// If it takes rights that we lack (`PermissionDenied`), another run holds the device's
    /// settings (`ResourceBusy`), or the system refuses the value.
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
            HolderReply::Restored(_) => Err(io::Error::other("the holder of settings misanswers")),
        }
    }

    /// Sets all back that was set. More can be set afterwards.
    ///
    /// # Errors
    ///
    /// If something could not be set back. What stays is in the notes, and the next start tries
    /// again.
    pub fn restore(&self) -> io::Result<Restored> {
        let restored = match self.lock().ask(&HolderRequest::Restore) {
            Ok(HolderReply::Restored(restored)) => restored,
            Ok(HolderReply::Refused { why, .. }) => return Err(io::Error::other(why)),
            Ok(HolderReply::Set) => {
                return Err(io::Error::other("the holder of settings misanswers"));
            }
            // It still tries, and holds its lock.
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(error),
            // It was killed: then we do what the next start would do.
            Err(_) => restore_left_behind(&self.sys),
        };
        match restored.failed.first() {
            None => Ok(restored),
            Some(first) => Err(io::Error::other(format!("not set back: {first}"))),
        }
    }

    /// The holder's process.
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
        // A holder that does not answer hangs in the device's queue. It goes on when the device
        // does; the run does not wait for it.
        if link.socket.take().is_some() {
            let _ = link.holder.wait();
        }
    }
}

impl HolderLink {
    fn ask(&mut self, order: &HolderRequest) -> io::Result<HolderReply> {
        let ended = || io::Error::other("the holder of settings has ended");
        let late = || {
            let why = "the device does not answer; its settings are set back when it does";
            io::Error::new(ErrorKind::TimedOut, why)
        };
        let Some(mut socket) = self.socket.take() else {
            // Without its socket it sets back and ends, as soon as the device lets it.
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

/// A setting waits for the requests that are under way; a disk that turns up to speed takes some
/// seconds for those.
const PATIENCE: Duration = Duration::from_secs(15);
