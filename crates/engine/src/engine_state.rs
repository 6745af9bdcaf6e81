//! What all handles of one engine share, and the door to the driver's role.
//!
//! In:    threads that want to drive; events of hits.
//! Out:   the driver, for as long as the role is held; afterwards the notified waiters are woken.
//! Never: a wake-up under the mutex. An event left in the queue. The driver, or anything else that
//!        a lock guards, in a forked child.
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

/// What all handles of one engine share.
///
/// Owned pages count handles to it, and hits read its first fields: not in the same cache line.
#[repr(align(128))]
pub(crate) struct EngineState {
    /// Where hits are looked up: no lock.
    pub(crate) table: Arc<PageTable>,
    /// The pages' memory.
    pub(crate) pool: Arc<Pool>,
    /// What is told of each read, if anything.
    pub(crate) observer: Option<ReadObserver>,
    driver: Mutex<Driver>,
    /// Where the leader sleeps, without the mutex.
    pub(crate) sleeper: Arc<Sleeper>,
    /// The kind of ring, which does not change.
    pub(crate) ring_kind: RingKind,
    /// What hits, and threads that end, post to the driver.
    pub(crate) mailbox: Arc<DriverMailbox>,
    /// The block devices that are open for writing.
    pub(crate) claims: Claims,
    /// The identities of the sources that are open.
    pub(crate) sources: SourceNames,
    /// How many reads were hits.
    pub(crate) hits: HitCounters,
    /// Wakes the background thread.
    pub(crate) background: Arc<BackgroundWaker>,
    /// How many bytes all range reads may have in flight together.
    pub(crate) planned_budget: u64,
    /// Calls the system where that blocks, for tasks.
    pub(crate) blocking: Arc<BlockingPool>,
    /// How long a read may wait for a device.
    pub(crate) timeout: Option<Duration>,
    /// What is remembered of devices, if anything.
    #[cfg(feature = "remember")]
    pub(crate) records: Option<DeviceRecords>,
    /// Its number among those of the process.
    pub(crate) number: u64,
}

/// Where a new engine's memory and ring are.
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
    /// Joins the parts of an engine, which belongs to the calling process.
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

    /// Whether the engine belongs to this process. In a fork of the one that made it the ring is
    /// the parent's, and each lock may be held by a thread that only the parent has: a call that
    /// needs another lock than the driver's asks this first.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub(crate) fn check_process(&self) -> Result<(), ForkedError> {
        if self.pool.is_of_this_process() { Ok(()) } else { Err(ForkedError) }
    }

    /// Becomes the driver, after the one that drives now.
    ///
    /// # Errors
    ///
    /// In a forked child.
    ///
    /// # Panics
    ///
    /// If a driver panicked: the state of the cache is not known then.
    pub(crate) fn drive(&self) -> Result<DriverGuard<'_>, ForkedError> {
        self.check_process()?;
        let driver = self.driver.lock().expect("a driver panicked: the state of the cache is lost");
        Ok(DriverGuard::new(driver, self))
    }

    /// Becomes the driver again, in a call that was the driver before it slept or copied.
    ///
    /// # Panics
    ///
    /// As [`Self::drive`]; and in a child that a waker forked and returned in: of all threads only
    /// the one that forks is there.
    pub(crate) fn drive_again(&self) -> DriverGuard<'_> {
        self.drive().expect("a thread that drove in this call is of the engine's process")
    }

    /// Becomes the driver at the end of a handle. None where there is nothing to end: in a forked
    /// child, whose parent ends it, and after a driver's panic, as a second one would end the
    /// process.
    pub(crate) fn drive_in_drop(&self) -> Option<DriverGuard<'_>> {
        if self.driver.is_poisoned() { None } else { self.drive().ok() }
    }

    /// Becomes the driver if there is none.
    pub(crate) fn try_drive(&self) -> Option<DriverGuard<'_>> {
        self.check_process().ok()?;
        let driver = self.driver.try_lock().ok()?;
        Some(DriverGuard::new(driver, self))
    }

    /// Posts events to the driver, and handles them here if no thread drives. In a forked child
    /// they are dropped: streams and pins are the parent's.
    pub(crate) fn post(&self, events: impl IntoIterator<Item = DriverEvent>) {
        if self.check_process().is_err() {
            return;
        }
        for event in events {
            self.queue().post(event);
        }
        self.drain_queue();
    }

    /// Handles what hits have posted, if no thread drives.
    ///
    /// A driver looks here again after it has released the mutex ([`DriverGuard`]), so that an
    /// event posted meanwhile is never left in the queue.
    fn drain_queue(&self) {
        // Between the post and the look at the lock, as between the unlock and the look at the
        // queue: one of the two sees the other.
        fence(Ordering::SeqCst);
        while !self.queue().is_empty() {
            let Ok(mut driver) = self.driver.try_lock() else { return };
            driver.follow_subscriber();
            driver.handle_events(self.queue());
            end_turn(driver);
            fence(Ordering::SeqCst);
        }
    }

    /// The driver without its role: no thread is woken when it is released.
    #[cfg(test)]
    pub(crate) fn lock_driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock().expect("no driver panicked")
    }

    /// The queue of events, for the driver and for counters.
    pub(crate) fn queue(&self) -> &DriverQueue {
        self.mailbox.queue()
    }
}

/// Short: each handle and each error of a program may print it, and the whole has megabytes.
impl fmt::Debug for EngineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineState").field("ring_kind", &self.ring_kind).finish_non_exhaustive()
    }
}

impl Drop for EngineState {
    fn drop(&mut self) {
        // In a forked child the thread is not there, and its lock may be held forever.
        if self.check_process().is_ok() {
            self.background.close();
            self.blocking.close();
            #[cfg(feature = "remember")]
            if let Some(records) = &self.records {
                // A program that wants to know calls `Engine::save_learnt`.
                let _ = records.save();
            }
        }
    }
}

/// The driver's role, for as long as it is held.
pub(crate) struct DriverGuard<'s> {
    /// None only while it is dropped.
    driver: Option<MutexGuard<'s, Driver>>,
    engine: &'s EngineState,
    /// The thread panicked before it drove: it unwinds, and what it drops on its way drives.
    is_unwinding: bool,
}

impl<'s> DriverGuard<'s> {
    fn new(mut driver: MutexGuard<'s, Driver>, engine: &'s EngineState) -> Self {
        driver.follow_subscriber();
        Self { driver: Some(driver), engine, is_unwinding: std::thread::panicking() }
    }

    /// Handles what hits have posted.
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
            // It panicked while it drove: the driver's state is unknown. Waiters wake up to find
            // that out.
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

/// Releases the mutex, then wakes the notified waiters and tells a subscriber what happened.
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
