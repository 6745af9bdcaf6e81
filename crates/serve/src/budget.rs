//! Memory budget that all connections share, for replies beyond the fixed buffer of each
//! connection.
//!
//! Taking from the budget never blocks: a connection that gets nothing continues with its fixed
//! buffer, piece by piece, and is woken once bytes are free again.
//!
//! ```text
//!   budget --- 256 KiB or more ---> budget (one a connection) --- exact ---> fetch, part, pin, job
//!      '<-- unused bytes, before each sleep; then the first waiter is woken
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mailbox::{Mail, Mailbox};

#[derive(Debug)]
pub(crate) struct SharedBudget {
    all: usize,
    left: AtomicUsize,
    /// Low-water mark of the free bytes.
    least: AtomicUsize,
    /// Number of connections in the wait queue.
    waiting: AtomicUsize,
    line: Mutex<VecDeque<Arc<Mailbox>>>,
}

/// Share of the budget that one connection holds.
#[derive(Debug)]
pub(crate) struct ConnectionBudget<'s> {
    budget: &'s SharedBudget,
    taken: usize,
    used: usize,
}

impl SharedBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        let all = bytes.max(MOST);
        let (left, least) = (AtomicUsize::new(all), AtomicUsize::new(all));
        Self { all, left, least, waiting: AtomicUsize::new(0), line: Mutex::default() }
    }

    /// Returns the size of the budget in bytes.
    pub(crate) fn total(&self) -> usize {
        self.all
    }

    /// Returns the bytes in use, now and at the peak.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> (usize, usize) {
        let taken = |left: &AtomicUsize| self.all - left.load(Ordering::SeqCst);
        (taken(&self.left), taken(&self.least))
    }

    fn try_take(&self, bytes: usize) -> bool {
        let rest = |left: usize| left.checked_sub(bytes);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, rest) {
            Ok(left) => {
                self.least.fetch_min(left - bytes, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    fn give_back(&self, bytes: usize) {
        let left = self.left.fetch_add(bytes, Ordering::SeqCst) + bytes;
        assert!(left <= self.all, "no more comes back than was taken");
    }

    /// Wakes the first waiter if enough bytes are free for any request. The waiter wakes the next
    /// one before it sleeps.
    fn wake_one(&self) {
        let is_worth_it =
            self.waiting.load(Ordering::SeqCst) > 0 && self.left.load(Ordering::SeqCst) >= MOST;
        if is_worth_it {
            let mut line = self.line();
            let first = line.pop_front();
            self.waiting.store(line.len(), Ordering::SeqCst);
            drop(line);
            if let Some(mailbox) = first {
                mailbox.post(Mail::Memory);
            }
        }
    }

    /// Joins the end of the wait queue. The caller must retry once before it sleeps: bytes returned
    /// in between woke no connection.
    pub(crate) fn wait(&self, mailbox: &Arc<Mailbox>) {
        let mut line = self.line();
        line.push_back(Arc::clone(mailbox));
        self.waiting.store(line.len(), Ordering::SeqCst);
    }

    /// Leaves the wait queue, from any position.
    pub(crate) fn leave(&self, mailbox: &Arc<Mailbox>) {
        let mut line = self.line();
        line.retain(|other| !Arc::ptr_eq(other, mailbox));
        self.waiting.store(line.len(), Ordering::SeqCst);
    }

    fn line(&self) -> MutexGuard<'_, VecDeque<Arc<Mailbox>>> {
        // Nothing panics while it holds this lock.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'s> ConnectionBudget<'s> {
    pub(crate) fn new(budget: &'s SharedBudget) -> Self {
        Self { budget, taken: 0, used: 0 }
    }

    /// Takes `bytes` from the budget; returns false if too few are free.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        assert!(bytes <= MOST, "there is never more in one piece");
        let short = (self.used + bytes).saturating_sub(self.taken);
        if short > 0 {
            let wanted = [short.max(AT_ONCE), short];
            let Some(got) = wanted.into_iter().find(|wanted| self.budget.try_take(*wanted)) else {
                return false;
            };
            self.taken += got;
        }
        self.used += bytes;
        assert!(self.used <= self.taken, "no more is used than was taken");
        true
    }

    pub(crate) fn give(&mut self, bytes: usize) {
        self.used = self
            .used
            .checked_sub(bytes)
            .expect("a connection gives back no more than it has taken");
    }

    /// Returns unused bytes to the budget before a sleep and wakes the first waiter.
    pub(crate) fn rest(&mut self) {
        assert!(self.used <= self.taken, "no more is used than was taken");
        let unused = self.taken - self.used;
        if unused > 0 {
            self.taken = self.used;
            self.budget.give_back(unused);
        }
        self.budget.wake_one();
    }
}

impl Drop for ConnectionBudget<'_> {
    fn drop(&mut self) {
        self.used = 0;
        self.rest();
    }
}

/// Largest single allocation: one piece of a reply.
pub(crate) const MOST: usize = 1 << 20;
/// Batch size that keeps connections from updating the shared counter on every reply.
const AT_ONCE: usize = 256 << 10;
