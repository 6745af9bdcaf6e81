//! A thread that makes the kernel forget names: the oldest if there are too many, and those of
//! replaced files.
//!
//! The kernel drops names that are not in use. Threads that answer requests must not send these
//! notifications, because the kernel may hold the directory's lock during a request.

use std::ffi::OsStr;
use std::io;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use fuser::{INodeNo, Notifier};

use crate::tree::TreeState;

/// Queue of tasks for the thread.
#[derive(Clone, Debug)]
pub(super) struct TrimmerQueue {
    to: SyncSender<TrimTask>,
    limit: usize,
}

/// Task of the thread.
#[derive(Debug)]
pub(super) enum TrimTask {
    /// Drop a name in a directory.
    Forget(u64, String),
    /// Drop the oldest names.
    TooMany,
}

impl TrimmerQueue {
    pub(super) fn new(limit: usize) -> (Self, Receiver<TrimTask>) {
        let (to, from) = sync_channel(QUEUE);
        (Self { to, limit }, from)
    }

    /// Queues the name of a replaced file.
    pub(super) fn forget(&self, parent: u64, name: String) {
        self.say(TrimTask::Forget(parent, name));
    }

    /// Reports the number of nodes.
    pub(super) fn counted(&self, nodes: usize) {
        if nodes > self.limit {
            self.say(TrimTask::TooMany);
        }
    }

    /// Queues a task without blocking; if the queue is full, trimming happens soon anyway.
    fn say(&self, task: TrimTask) {
        match self.to.try_send(task) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

/// Starts the thread. It ends with the mount.
pub(super) fn start(
    state: Weak<TreeState>,
    notifier: Notifier,
    limit: usize,
    from: Receiver<TrimTask>,
) -> io::Result<()> {
    let run = move || {
        while let Ok(task) = from.recv() {
            match task {
                TrimTask::Forget(parent, name) => forget(&notifier, parent, &name),
                TrimTask::TooMany => {
                    let Some(nodes) = state.upgrade() else { return };
                    let count = nodes.nodes.len();
                    // Tasks queued during this time find it done.
                    let excess =
                        if count > limit { count - (limit - limit / SPARE_PART) } else { 0 };
                    let oldest = nodes.nodes.oldest(excess);
                    drop(nodes);
                    for (parent, name) in oldest {
                        forget(&notifier, parent, &name);
                    }
                }
            }
        }
    };
    thread::Builder::new().name("trim-nodes".to_owned()).spawn(run).map(drop)
}

/// Makes the kernel forget a name. A name in use stays; one already forgotten is ignored.
fn forget(notifier: &Notifier, parent: u64, name: &str) {
    let _ = notifier.inval_entry(INodeNo(parent), OsStr::new(name));
}

/// Most names waiting in the queue.
const QUEUE: usize = 64;

/// Divisor of the limit: the part that is freed at a time.
const SPARE_PART: usize = 8;
