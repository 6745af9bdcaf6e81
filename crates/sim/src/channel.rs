//! Unbounded channels and bandwidth-limited links between the processes of a run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use foreread_core::units::{ByteCount, Nanos};

use crate::device::after_transfer;
use crate::process::Process;
use crate::task::TaskId;

/// An unbounded FIFO channel between processes.
#[derive(Debug)]
pub struct Channel<T> {
    waiting: RefCell<VecDeque<TaskId>>,
    items: RefCell<VecDeque<T>>,
}

/// A link that transfers one message after the other at a fixed rate: a network or a bus.
#[derive(Debug)]
pub struct BandwidthLink {
    mb_per_s: f64,
    /// Time at which the link becomes idle.
    free: Cell<Nanos>,
}

impl<T> Channel<T> {
    /// Creates an empty channel.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::new(Self { waiting: RefCell::default(), items: RefCell::default() })
    }

    /// Appends an item, and wakes the process that has waited longest.
    pub fn send(&self, by: &Process, item: T) {
        self.items.borrow_mut().push_back(item);
        if let Some(task) = self.waiting.borrow_mut().pop_front() {
            by.world(|world| world.wake(task));
        }
    }

    /// Removes the first item, blocking until there is one.
    pub async fn receive(&self, by: &Process) -> T {
        poll_fn(|_| {
            if let Some(item) = self.items.borrow_mut().pop_front() {
                return Poll::Ready(item);
            }
            self.waiting.borrow_mut().push_back(by.task());
            Poll::Pending
        })
        .await
    }
}

impl BandwidthLink {
    /// Creates an idle link.
    #[must_use]
    pub fn new(mb_per_s: f64) -> Rc<Self> {
        Rc::new(Self { mb_per_s, free: Cell::new(Nanos(0)) })
    }

    /// Queues bytes behind earlier messages, and blocks until they are transferred.
    pub async fn send(&self, by: &Process, bytes: ByteCount) {
        let from = self.free.get().max(by.now());
        let end = after_transfer(from, bytes, self.mb_per_s);
        debug_assert!(end >= from, "a transfer takes time");
        self.free.set(end);
        by.until(end).await;
    }
}
