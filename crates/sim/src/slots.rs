//! Slots that limit the number of requests in flight. A freed slot is not handed over: a woken
//! process has to take one again, and may find none.

use std::collections::VecDeque;

use crate::task::TaskId;

/// Identifies a pool of slots; each request in flight takes one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlotsId(usize);

/// All pools of slots of a run.
#[derive(Debug, Default)]
pub(crate) struct SlotPools(Vec<SlotPool>);

#[derive(Debug)]
struct SlotPool {
    count: u32,
    free: u32,
    waiting: VecDeque<TaskId>,
}

impl SlotPools {
    pub(crate) fn add(&mut self, count: u32) -> SlotsId {
        self.0.push(SlotPool { count, free: count, waiting: VecDeque::new() });
        SlotsId(self.0.len() - 1)
    }

    /// Takes a slot. If none is free, the process is queued and [`free`](Self::free) returns it
    /// later.
    pub(crate) fn take(&mut self, id: SlotsId, task: TaskId) -> bool {
        let pool = &mut self.0[id.0];
        if pool.free == 0 {
            pool.waiting.push_back(task);
            return false;
        }
        pool.free -= 1;
        true
    }

    /// Frees a slot. Returns the process that has waited longest for one.
    pub(crate) fn free(&mut self, id: SlotsId) -> Option<TaskId> {
        let pool = &mut self.0[id.0];
        assert!(pool.free < pool.count, "a slot is freed that was not taken");
        pool.free += 1;
        pool.waiting.pop_front()
    }
}
