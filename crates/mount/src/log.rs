//! Logs each damage once, and maps errors to errno. At most [`LINES`] lines are logged.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use foreread_ext4::Error;
use fuser::Errno;

/// Log of damage.
pub(crate) struct DamageLog {
    say: Box<dyn Fn(&str) + Send + Sync>,
    said: Mutex<HashSet<String>>,
}

impl DamageLog {
    pub(crate) fn new(say: Box<dyn Fn(&str) + Send + Sync>) -> Self {
        Self { say, said: Mutex::default() }
    }

    /// Returns the errno of an error, and logs it if it is new damage.
    pub(crate) fn errno(&self, error: &Error) -> Errno {
        if matches!(error, Error::NotFound) {
            Errno::ENOENT
        } else if matches!(error, Error::NotADirectory) {
            Errno::ENOTDIR
        } else if matches!(error, Error::WrongKind { .. }) {
            Errno::EINVAL
        } else if matches!(error, Error::Encrypted) {
            Errno::from_i32(NO_KEY)
        } else if matches!(error, Error::TooManyLinks) {
            Errno::ELOOP
        } else {
            // Damaged, truncated or unreadable, and any later kind.
            self.say_once(error.to_string());
            Errno::EIO
        }
    }

    pub(crate) fn say_once(&self, line: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= LINES || said.contains(&line) {
            return;
        }
        (self.say)(&line);
        said.insert(line);
        if said.len() == LINES {
            (self.say)("further lines are suppressed until the next mount");
        }
    }
}

impl fmt::Debug for DamageLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DamageLog").field("said", &self.said).finish_non_exhaustive()
    }
}

/// ENOKEY, which the kernel's own ext4 returns if an encryption key is missing.
const NO_KEY: i32 = 126;

/// Most lines to log.
const LINES: usize = 1000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_damage_is_said_once_and_not_without_end() {
        let lines = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&lines);
        let log = DamageLog::new(Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let damage = |offset| Error::Io { offset, source: std::io::ErrorKind::Other.into() };
        assert_eq!(log.errno(&damage(1)).code(), Errno::EIO.code());
        log.errno(&damage(1));
        log.errno(&Error::NotFound);
        assert_eq!(lines.load(Ordering::Relaxed), 1);
        for offset in 0..5000 {
            log.errno(&damage(offset));
        }
        assert_eq!(lines.load(Ordering::Relaxed), LINES + 1);
    }
}
