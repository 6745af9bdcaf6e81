//! Steps of writes that no thread waits for: done by whichever thread drives, after the mutex.
//!
//! In:    what a task's write or flush has to have done, and the frames that it is done to.
//! Out:   it is done, and posted to the driver.
//! Never: a call of the driver: of a chain of writes that wait for each other, each would drive
//!        inside the one before, as deep as the chain is long.

use std::fmt;

use foreread_core::path::{WriteFill, WriteId};
use foreread_core::units::ByteCount;

/// Copies to frames, and posts that.
type CopyStep = Box<dyn FnOnce(WriteId, &[WriteFill], ByteCount) + Send>;

/// A step that the driver has done, as it comes with its request.
pub(crate) enum TaskStep {
    /// Copies so many bytes to these frames.
    Fill(CopyStep),
    /// Calls the system, for a change of length with the one that the file gets.
    Act(Box<dyn FnOnce(WriteId, ByteCount) + Send>),
}

/// A step that is to be done now.
pub(crate) struct PendingStep {
    pub(crate) id: WriteId,
    pub(crate) step: TaskStep,
    /// Where to, and how much of it.
    pub(crate) fills: Vec<WriteFill>,
    pub(crate) len: ByteCount,
}

impl PendingStep {
    pub(crate) fn run(self) {
        let Self { id, step, fills, len } = self;
        match step {
            TaskStep::Fill(copy) => copy(id, &fills, len),
            TaskStep::Act(act) => act(id, len),
        }
    }
}

impl fmt::Debug for TaskStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fill(_) => "Fill",
            Self::Act(_) => "Act",
        })
    }
}

impl fmt::Debug for PendingStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingStep")
            .field("id", &self.id)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}
