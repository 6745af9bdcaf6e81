//! The thread that has the kernel forget names: the oldest when they are too many, and those of
//! files that were replaced.
//!
//! In:    names to forget; that there are too many nodes.
//! Out:   notices to the kernel, which then forgets what is not in use.
//! Never: a notice from a thread that answers: the kernel may hold the directory for its request.

use std::ffi::OsStr;
use std::io;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use fuser::{INodeNo, Notifier};

use crate::tree::TreeState;

/// Where the thread is told what to do.
#[derive(Clone, Debug)]
pub(super) struct TrimmerQueue {
    to: SyncSender<TrimTask>,
    limit: usize,
}

/// What the thread has to do.
#[derive(Debug)]
pub(super) enum TrimTask {
    /// The kernel forgets a name in a directory.
    Forget(u64, String),
    /// It forgets the oldest.
    TooMany,
}

impl TrimmerQueue {
    pub(super) fn new(limit: usize) -> (Self, Receiver<TrimTask>) {
        let (to, from) = sync_channel(QUEUE);
        (Self { to, limit }, from)
    }

    /// A name has another version by now.
    pub(super) fn forget(&self, parent: u64, name: String) {
        self.say(TrimTask::Forget(parent, name));
    }

    /// There are so many nodes.
    pub(super) fn counted(&self, nodes: usize) {
        if nodes > self.limit {
            self.say(TrimTask::TooMany);
        }
    }

    /// Never waits: with so much to do, the kernel is told soon anyway.
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
                    // Tasks that waited meanwhile find it done.
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

/// A name that is in use stays; so does one that the kernel has forgotten by itself.
fn forget(notifier: &Notifier, parent: u64, name: &str) {
    let _ = notifier.inval_entry(INodeNo(parent), OsStr::new(name));
}

/// Names to forget that may wait.
const QUEUE: usize = 64;

/// The part of the limit that is made free at a time.
const SPARE_PART: usize = 8;
