//! `--run`: a command that lives as long as the server, or the server as long as it.
//!
//! The shell is always reaped; its children are its own.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use std::os::unix::process::ExitStatusExt as _;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::listen_addresses::ListenAddresses;

/// A command on its way.
#[derive(Clone, Debug)]
pub(super) struct RunningCommand {
    child: Arc<Mutex<Child>>,
    id: Pid,
    /// True once the command has exited, with the condition variable that signals it.
    has_ended: Arc<(Mutex<bool>, Condvar)>,
}

impl RunningCommand {
    /// Starts it in a shell, with the server's addresses in `$uri`, `$unixsocket` and `$port`, and
    /// calls `ended` when it is over.
    pub(super) fn start(
        line: &str,
        place: &ListenAddresses,
        export: &str,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        // As in system(3), not from PATH, where users may be able to write.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).env("exportname", export);
        shell.env("uri", place.uris(export).first().map_or("", String::as_str));
        shell.env("unixsocket", place.unix.clone().unwrap_or_default());
        shell.env("port", place.tcp.map_or_else(String::new, |addr| addr.port().to_string()));
        let child = shell.spawn()?;
        let id = Pid::from_child(&child);
        let running = Self { child: Arc::new(Mutex::new(child)), id, has_ended: Arc::default() };
        let waiter = running.clone();
        let waiting = std::thread::Builder::new().name("command".to_owned()).spawn(move || {
            waiter.until_it_ends();
            *waiter.has_ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            waiter.has_ended.1.notify_all();
            ended();
        });
        if let Err(error) = waiting {
            // It is not left behind, with a server that never answers.
            let mut child = running.lock();
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
        Ok(running)
    }

    /// Ends it, if it has not ended, and gives its exit code as a shell does: 128 and the signal's
    /// number for one that was killed. One that does not end by SIGTERM in time is killed.
    pub(super) fn finish(&self, grace: Duration) -> io::Result<u8> {
        let mut child = self.lock();
        let ended = match child.try_wait()? {
            Some(ended) => ended,
            None => {
                // It is our child and not reaped: the number is still its own.
                let _ = kill_process(self.id, Signal::TERM);
                if !self.ends_within(grace) {
                    let _ = kill_process(self.id, Signal::KILL);
                }
                child.wait()?
            }
        };
        Ok(code(ended))
    }

    /// Waits without taking its exit code, so that its number stays its own.
    fn until_it_ends(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(self.id), options), Err(rustix::io::Errno::INTR)) {}
    }

    fn ends_within(&self, grace: Duration) -> bool {
        let (has_ended, changed) = &*self.has_ended;
        let has_ended = has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(has_ended, grace, |has_ended| !*has_ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn code(ended: ExitStatus) -> u8 {
    let code = ended.code().or(ended.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
