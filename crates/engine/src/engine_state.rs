//! State shared by all handles of one engine, and access to the driver's role.
//!
//! A [`DriverGuard`] wakes the notified waiters only after it has released the mutex, and leaves no
//! event in the queue. Code that runs in a forked child takes no lock.
//!
//! ```text
//!   drive()          Err(ForkedError) in a forked child       public calls
//!   drive_again()    panics there                             a call that drove before it slept
//!   drive_in_drop()  None there, and after a driver's panic   ends of handles
//!   try_drive()      None there, and while another drives     hits
//!   post()           does nothing there                       hits
//! ```

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use foreread_core::table::PageTable;

use crate::backend::{Claims, next_engine};
use crate::background::BackgroundWaker;
use crate::blocking_pool::BlockingPool;
use crate::deferred_wake::DeferredWake;
use crate::driver::Driver;
use crate::driver_mailbox::DriverMailbox;
use crate::driver_queue::{DriverEvent, DriverQueue};
use crate::error::ForkedError;
use crate::hits::HitCounters;
use crate::pool::Pool;
use crate::read_observer::ReadObserver;
#[cfg(feature = "remember")]
use crate::remember::DeviceRecords;
use crate::ring::{RingKind, Sleeper};
use crate::source::SourceNames;

/// State shared by all handles of one engine.
///
/// Aligned so that the reference count, which owned pages update, does not share a cache line with
/// the first fields, which hits read.
#[repr(align(128))]
pub(crate) struct EngineState {
    /// Page table that hits look up without a lock.
    pub(crate) table: Arc<PageTable>,
    pub(crate) pool: Arc<Pool>,
    /// Callback for each read, if any.
    pub(crate) observer: Option<ReadObserver>,
    driver: Mutex<Driver>,
    /// Lets the leader sleep in the ring without the mutex.
    pub(crate) sleeper: Arc<Sleeper>,
    pub(crate) ring_kind: RingKind,
    /// Events posted to the driver by hits and by exiting threads.
    pub(crate) mailbox: Arc<DriverMailbox>,
    /// Block devices open for writing.
    pub(crate) claims: Claims,
    /// Identities of the open sources.
    pub(crate) sources: SourceNames,
    pub(crate) hits: HitCounters,
    /// Wakes the background thread.
    pub(crate) background: Arc<BackgroundWaker>,
    /// Limit on the bytes that all range reads together may have in flight.
    pub(crate) planned_budget: u64,
    /// Runs blocking system calls for tasks.
    pub(crate) blocking: Arc<BlockingPool>,
    /// Longest time a read may wait for a device.
    pub(crate) timeout: Option<Duration>,
    /// Records of devices kept across runs, if enabled.
    #[cfg(feature = "remember")]
    pub(crate) records: Option<DeviceRecords>,
    /// Number of the engine, unique in the process.
    pub(crate) number: u64,
}

/// Parts of a new engine.
pub(crate) struct EngineParts {
    pub(crate) table: Arc<PageTable>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) driver: Driver,
    pub(crate) background: Arc<BackgroundWaker>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) observer: Option<ReadObserver>,
    #[cfg(feature = "remember")]
    pub(crate) records: Option<DeviceRecords>,
}

impl EngineState {
    /// Creates an engine that belongs to the calling process.
    pub(crate) fn new(parts: EngineParts) -> Self {
        let EngineParts { table, pool, driver, background, timeout, observer, .. } = parts;
        Self {
            table,
            pool,
            observer,
            sleeper: driver.ring().sleeper(),
            ring_kind: driver.ring().kind(),
            planned_budget: driver.path.planned_budget().0,
            driver: Mutex::new(driver),
            mailbox: Arc::new(DriverMailbox::new(Arc::clone(&background))),
            claims: Claims::default(),
            sources: SourceNames::default(),
            hits: HitCounters::default(),
            background,
            blocking: Arc::default(),
            timeout,
            #[cfg(feature = "remember")]
            records: parts.records,
            number: next_engine(),
        }
    }

    /// Checks that the engine belongs to this process. In a forked child the ring is the parent's,
    /// and any lock may be held by a thread that exists only in the parent. A call that needs a
    /// lock other than the driver's must check this first.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub(crate) fn check_process(&self) -> Result<(), ForkedError> {
        if self.pool.is_of_this_process() { Ok(()) } else { Err(ForkedError) }
    }

    /// Takes the driver's role, blocking while another thread drives.
    ///
    /// # Errors
    ///
    /// In a forked child.
    ///
    /// # Panics
    ///
    /// If a driver panicked: the state of the cache is then unknown.
    pub(crate) fn drive(&self) -> Result<DriverGuard<'_>, ForkedError> {
        self.check_process()?;
        let driver = self.driver.lock().expect("a driver panicked: the state of the cache is lost");
        Ok(DriverGuard::new(driver, self))
    }

    /// Takes the driver's role again, in a call that drove before it slept or copied.
    ///
    /// # Panics
    ///
    /// As [`Self::drive`]. Also panics if a waker forked and returned in the child, where only the
    /// forking thread exists.
    pub(crate) fn drive_again(&self) -> DriverGuard<'_> {
        self.drive().expect("a thread that drove in this call is of the engine's process")
    }

    /// Takes the driver's role in a handle's destructor. Returns `None` in a forked child, since
    /// the parent cleans up, and after a driver's panic, since a second panic would abort the
    /// process.
    pub(crate) fn drive_in_drop(&self) -> Option<DriverGuard<'_>> {
        if self.driver.is_poisoned() { None } else { self.drive().ok() }
    }

    /// Takes the driver's role if no other thread drives.
    pub(crate) fn try_drive(&self) -> Option<DriverGuard<'_>> {
        self.check_process().ok()?;
        let driver = self.driver.try_lock().ok()?;
        Some(DriverGuard::new(driver, self))
    }

    /// Posts events to the driver, and handles them here if no thread drives. A forked child drops
    /// them: streams and pins belong to the parent.
    pub(crate) fn post(&self, events: impl IntoIterator<Item = DriverEvent>) {
        if self.check_process().is_err() {
            return;
        }
        for event in events {
            self.queue().post(event);
        }
        self.drain_queue();
    }

    /// Handles posted events if no thread drives.
    ///
    /// A driver checks the queue again after it has released the mutex ([`DriverGuard`]), so an
    /// event posted in between is never left behind.
    fn drain_queue(&self) {
        // Orders the post before the `try_lock`, and the unlock before the check of the queue: at
        // least one of the two threads sees the other.
        fence(Ordering::SeqCst);
        while !self.queue().is_empty() {
            let Ok(mut driver) = self.driver.try_lock() else { return };
            driver.follow_subscriber();
            driver.handle_events(self.queue());
            end_turn(driver);
            fence(Ordering::SeqCst);
        }
    }

    /// Locks the driver without taking its role: releasing it wakes no thread.
    #[cfg(test)]
    pub(crate) fn lock_driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock().expect("no driver panicked")
    }

    /// Returns the event queue, for the driver and for counters.
    pub(crate) fn queue(&self) -> &DriverQueue {
        self.mailbox.queue()
    }
}

/// Prints little: every handle and error of a program may include it, and the full state takes
/// megabytes.
impl fmt::Debug for EngineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineState").field("ring_kind", &self.ring_kind).finish_non_exhaustive()
    }
}

impl Drop for EngineState {
    fn drop(&mut self) {
        // In a forked child the thread does not exist, and its lock may be held forever.
        if self.check_process().is_ok() {
            self.background.close();
            self.blocking.close();
            #[cfg(feature = "remember")]
            if let Some(records) = &self.records {
                // Programs that need the error call `Engine::save_learnt`.
                let _ = records.save();
            }
        }
    }
}

/// Holds the driver's role until dropped.
pub(crate) struct DriverGuard<'s> {
    /// `None` only during drop.
    driver: Option<MutexGuard<'s, Driver>>,
    engine: &'s EngineState,
    /// The thread was already unwinding when it took the role: it drives from a destructor.
    is_unwinding: bool,
}

impl<'s> DriverGuard<'s> {
    fn new(mut driver: MutexGuard<'s, Driver>, engine: &'s EngineState) -> Self {
        driver.follow_subscriber();
        Self { driver: Some(driver), engine, is_unwinding: std::thread::panicking() }
    }

    /// Handles posted events.
    pub(crate) fn take_events(&mut self) {
        let engine = self.engine;
        self.handle_events(engine.queue());
    }
}

impl Deref for DriverGuard<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver.as_ref().expect("the lock is held until the guard is dropped")
    }
}

impl DerefMut for DriverGuard<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("the lock is held until the guard is dropped")
    }
}

impl Drop for DriverGuard<'_> {
    fn drop(&mut self) {
        let Some(mut driver) = self.driver.take() else { return };
        if std::thread::panicking() && !self.is_unwinding {
            // The thread panicked while driving, so the driver's state is unknown. Wake the waiters
            // so that they find out.
            let wakes = driver.wake_all_waiters();
            drop(driver);
            for wake in wakes {
                if let DeferredWake::Thread(_) | DeferredWake::Task(_) = wake {
                    wake.run();
                }
            }
            return;
        }
        end_turn(driver);
        self.engine.drain_queue();
    }
}

/// Releases the mutex, wakes the notified waiters, then emits the trace events.
fn end_turn(mut driver: MutexGuard<'_, Driver>) {
    let wakes = driver.before_unlock();
    let events = driver.take_traced();
    drop(driver);
    for wake in wakes {
        wake.run();
    }
    events.emit();
}

impl fmt::Debug for DriverGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverGuard")
            .field("is_unwinding", &self.is_unwinding)
            .finish_non_exhaustive()
    }
}
