//! State shared by a run and its processes.

use std::cell::RefCell;

use foreread_core::path::{DeviceId, FileId};
use foreread_core::units::{ByteCount, Sector};

use crate::task::{SimTask, TaskFuture, TaskId};
use crate::world::SimWorld;

/// The world, the processes that have just begun, and the seed.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) world: RefCell<SimWorld>,
    pub(crate) seed: u64,
    /// Processes that have begun but are not yet part of the run.
    born: RefCell<Vec<SimTask>>,
    /// Number of processes that have begun.
    count: RefCell<usize>,
}

/// A file of a run.
#[derive(Clone, Copy, Debug)]
pub struct SimFile {
    pub(crate) id: FileId,
    pub(crate) device: DeviceId,
    pub(crate) start: Sector,
    pub(crate) len: ByteCount,
}

impl RunState {
    pub(crate) fn new(world: SimWorld, seed: u64) -> Self {
        let (born, count) = (RefCell::default(), RefCell::default());
        Self { world: RefCell::new(world), seed, born, count }
    }

    /// Returns the id of the next process; [`begin`](Self::begin) must follow with its future.
    pub(crate) fn next_task(&self) -> TaskId {
        TaskId(self.count.replace_with(|count| *count + 1))
    }

    /// Adds the future of a process. Futures must be added in order of their ids.
    pub(crate) fn begin(&self, task: TaskFuture) {
        self.born.borrow_mut().push(SimTask(Some(task)));
    }

    /// Returns the number of processes that [`take_born`](Self::take_born) would return.
    pub(crate) fn born(&self) -> usize {
        self.born.borrow().len()
    }

    /// Returns the processes that have begun since the last call.
    pub(crate) fn take_born(&self) -> Vec<SimTask> {
        self.born.take()
    }
}
