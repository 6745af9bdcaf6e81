//! Requests in flight as futures of the engine, each in a slot whose waker names it.

use std::task::Waker;

/// Futures in flight. A slot is reused, with its waker, by a later request.
#[derive(Debug)]
pub(super) struct TaskSlots<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
    /// One waker for each slot, created on first use.
    wakers: Vec<Waker>,
}

impl<T> TaskSlots<T> {
    /// Returns the number of slots in use.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Reserves a slot for a future that is about to be polled; `new_waker` creates the waker of a
    /// slot that was never used.
    pub(super) fn reserve(&mut self, new_waker: impl FnOnce(usize) -> Waker) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len();
            self.slots.push(None);
            self.wakers.push(new_waker(slot));
            slot
        })
    }

    pub(super) fn waker(&self, slot: usize) -> &Waker {
        &self.wakers[slot]
    }

    /// Stores a future that is pending in its reserved slot.
    pub(super) fn put(&mut self, slot: usize, task: T) {
        let old = self.slots[slot].replace(task);
        assert!(old.is_none(), "a reserved slot is empty");
    }

    /// Returns the future in a slot and its waker; None if the slot is empty.
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<(&mut T, &Waker)> {
        let task = self.slots.get_mut(slot)?.as_mut()?;
        Some((task, &self.wakers[slot]))
    }

    /// Removes a future that has ended, and frees its slot.
    pub(super) fn take(&mut self, slot: usize) -> T {
        let task = self.slots[slot].take().expect("a slot is full until its future has ended");
        self.free.push(slot);
        task
    }

    /// Frees a reserved slot whose future ended in its first poll.
    pub(super) fn release(&mut self, slot: usize) {
        assert!(self.slots[slot].is_none(), "a reserved slot is empty");
        self.free.push(slot);
    }
}

impl<T> Default for TaskSlots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), wakers: Vec::new() }
    }
}
