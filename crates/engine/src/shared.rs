//! What all handles of one engine share, and the driver's role.
//!
//! In:    threads that want to drive.
//! Out:   the driver, for as long as the role is held; afterwards the waiters with news are woken.
//! Never: a wake-up under the mutex. A post left lying in the inbox.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use foreread_core::table::PageTable;

use crate::backend::Claims;
use crate::background::Bell;
use crate::driver::Driver;
use crate::hits::Hits;
use crate::inbox::Inbox;
use crate::open_files::OpenFiles;
use crate::pool::Pool;
use crate::ring::{RingKind, Sleeper};
use crate::waiting::Wake;

/// What all handles of one engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Where hits are looked up: no lock.
    pub(crate) table: Arc<PageTable>,
    /// The pages' memory.
    pub(crate) pool: Arc<Pool>,
    /// The thread that holds this drives: feeds the core, submits, reaps if it leads.
    pub(crate) driver: Mutex<Driver>,
    /// Where the leader sleeps, without the mutex.
    pub(crate) sleeper: Arc<Sleeper>,
    /// What hits post to the driver.
    pub(crate) inbox: Inbox,
    /// Which files are open.
    pub(crate) files: OpenFiles,
    /// The block devices that are open for writing.
    pub(crate) claims: Claims,
    /// How many reads were hits.
    pub(crate) hits: Hits,
    /// Wakes the background thread.
    pub(crate) bell: Arc<Bell>,
    /// How long a read may wait for a device.
    pub(crate) timeout: Option<Duration>,
    /// The process that made the engine.
    pub(crate) process: u32,
}

impl Shared {
    /// Whether this process is a fork of the one that made the engine: then the ring is its
    /// parent's, and the lock may be held by a thread that only the parent has.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// What kind of ring it has, if that works in this process and still does.
    pub(crate) fn working_ring(&self) -> io::Result<RingKind> {
        if self.is_forked() {
            let why = "this process was forked after the engine was made; make another one here";
            return Err(io::Error::other(why));
        }
        let driving = self.drive();
        match driving.broken() {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(driving.ring().kind()),
        }
    }

    /// Becomes the driver, after the one that drives now.
    ///
    /// # Panics
    ///
    /// If a driver panicked: the state of the cache is not known then.
    pub(crate) fn drive(&self) -> Driving<'_> {
        let driver = self.driver.lock().expect("a driver panicked: the state of the cache is lost");
        Driving::new(driver, self)
    }

    /// Becomes the driver if there is none.
    pub(crate) fn try_drive(&self) -> Option<Driving<'_>> {
        let driver = self.driver.try_lock().ok()?;
        Some(Driving::new(driver, self))
    }

    /// Lets the driver do what hits have posted; does it here if there is none.
    ///
    /// A driver looks here again after it lets go ([`Driving`]), so what is posted meanwhile is
    /// never left lying.
    pub(crate) fn empty_inbox(&self) {
        // Between the post and the look at the lock, as between the unlock and the look at the
        // inbox: one of the two sees the other.
        fence(Ordering::SeqCst);
        while !self.inbox.is_empty() && !self.is_forked() {
            let Ok(mut driver) = self.driver.try_lock() else { return };
            driver.take_posts(&self.inbox);
            let wakes = driver.before_unlock();
            drop(driver);
            for wake in wakes {
                wake.run();
            }
            fence(Ordering::SeqCst);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In a forked child the thread is not there, and its lock may be held forever.
        if !self.is_forked() {
            self.bell.close();
        }
    }
}

/// The driver's role, for as long as it is held.
pub(crate) struct Driving<'s> {
    /// None only while it is dropped.
    driver: Option<MutexGuard<'s, Driver>>,
    shared: &'s Shared,
    /// The thread panicked before it drove: it unwinds, and what it drops on its way drives.
    is_unwinding: bool,
}

impl<'s> Driving<'s> {
    fn new(driver: MutexGuard<'s, Driver>, shared: &'s Shared) -> Self {
        Self { driver: Some(driver), shared, is_unwinding: std::thread::panicking() }
    }
}

impl Deref for Driving<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver.as_ref().expect("held until it is dropped")
    }
}

impl DerefMut for Driving<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("held until it is dropped")
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let Some(mut driver) = self.driver.take() else { return };
        if std::thread::panicking() && !self.is_unwinding {
            // It panicked while it drove: the driver's state is unknown. Waiters wake up to find
            // that out.
            let wakes = driver.wake_all_waiters();
            drop(driver);
            for wake in wakes {
                if let Wake::Thread(_) | Wake::Task(_) = wake {
                    wake.run();
                }
            }
            return;
        }
        let wakes = driver.before_unlock();
        drop(driver);
        for wake in wakes {
            wake.run();
        }
        self.shared.empty_inbox();
    }
}
