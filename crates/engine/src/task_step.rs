//! Steps of writes that no thread waits for: the driving thread performs them after it has released
//! the mutex, and posts the end to the driver. A step never drives itself, because a chain of
//! writes that wait for each other would then recurse as deep as it is long.

use std::fmt;

use foreread_core::path::{WriteFill, WriteId};
use foreread_core::units::ByteCount;

/// Copies to frames, and posts the end.
type CopyStep = Box<dyn FnOnce(WriteId, &[WriteFill], ByteCount) + Send>;

/// A step that the driver performs, submitted with its request.
pub(crate) enum TaskStep {
    /// Copies a number of bytes to these frames.
    Fill(CopyStep),
    /// Calls the system; for a length change, with the new length.
    Act(Box<dyn FnOnce(WriteId, ByteCount) + Send>),
}

/// A step to be performed now.
pub(crate) struct PendingStep {
    pub(crate) id: WriteId,
    pub(crate) step: TaskStep,
    /// The destination frames and ranges.
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
