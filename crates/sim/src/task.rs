//! A process as stored by a run: a number, and a future until it ends.

use std::fmt;
use std::pin::Pin;

/// Identifies a process of a run: its index in start order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct TaskId(pub(crate) usize);

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The future of a process; None when it has ended.
pub(crate) struct SimTask(pub(crate) Option<TaskFuture>);

impl fmt::Debug for SimTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Running" } else { "Ended" })
    }
}
