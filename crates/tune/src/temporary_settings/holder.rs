//! The holder process: makes settings on request, and restores them when the run has ended.
//!
//! Requests and replies are lines on a socket, its standard input. It never exits before everything
//! is restored, however the socket was closed.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use super::restore_journal::RestoreJournal;
use super::{HolderReply, HolderRequest, Restored};
use crate::errno_text::errno_text;
use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;

/// Runs a holder until its standard input ends.
///
/// # Errors
///
/// If standard input is not a socket: a run did not start it.
pub fn serve(sys: &SystemRoot) -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.peer_addr()?;
    let mut holder = SettingsHolder { sys, notes: BTreeMap::new() };
    let mut answers = socket.try_clone()?;
    for line in BufReader::new(socket).lines() {
        // An incomplete line counts as the end.
        let Some(order) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else {
            break;
        };
        let mut answer = serde_json::to_string(&holder.answer(order))?;
        answer.push('\n');
        // Fails if the run has ended; then the loop ends at the next line.
        let _ = answers.write_all(answer.as_bytes());
    }
    holder.restore();
    Ok(())
}

struct SettingsHolder<'s> {
    sys: &'s SystemRoot,
    /// Journal of each device with a changed setting.
    notes: BTreeMap<String, RestoreJournal>,
}

impl SettingsHolder<'_> {
    fn answer(&mut self, order: HolderRequest) -> HolderReply {
        match order {
            HolderRequest::Restore => HolderReply::Restored(self.restore()),
            HolderRequest::Set(setting) => match self.set(&setting) {
                Ok(()) => HolderReply::Set,
                Err(error) => HolderReply::Refused {
                    why: errno_text(&error),
                    is_permission: matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                    ),
                    is_taken: error.kind() == ErrorKind::WouldBlock,
                },
            },
        }
    }

    fn set(&mut self, setting: &DeviceSetting) -> io::Result<()> {
        // Checked before noting anything: a run without permission leaves no trace.
        may_write(self.sys, setting)?;
        let notes = match self.notes.remove(&setting.device) {
            Some(notes) => notes,
            None => RestoreJournal::new(self.sys, &setting.device)?,
        };
        let notes = self.notes.entry(setting.device.clone()).or_insert(notes);
        notes.before(self.sys, setting)?;
        let result = setting.set(self.sys);
        if result.is_err() {
            // The system may have stored another value, which is then ours, too.
            notes.after(self.sys, setting)?;
        }
        result
    }

    fn restore(&mut self) -> Restored {
        let mut restored = Restored::default();
        for (_, notes) in std::mem::take(&mut self.notes) {
            notes.restore(self.sys, &mut restored);
        }
        restored
    }
}

/// Checks that a setting can be written, without changing it.
///
/// # Errors
///
/// If its file cannot be opened for writing; the message has the reason.
pub fn may_write(sys: &SystemRoot, setting: &DeviceSetting) -> io::Result<()> {
    let file = setting.file();
    let opened = OpenOptions::new().write(true).open(sys.path(&file));
    opened.map(drop).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => "root is required to set it".to_owned(),
            Some(libc::EROFS) => format!("{} cannot be written here", file.display()),
            Some(libc::ENOENT) => format!("there is no {}", file.display()),
            _ => format!("{}: {}", file.display(), errno_text(&error)),
        };
        io::Error::new(error.kind(), why)
    })
}
