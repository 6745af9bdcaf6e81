//! Writes of tasks that own their bytes: once begun, they proceed without their futures.
//!
//! At most one thread polls a write at a time. A task is woken only after its write has ended, and
//! no lock is held while a write is polled or a task is woken.
//!
//! ```text
//!   future   first poll --> begins                       .-> woken: buffer and result
//!   write                   |--- step ---|--- step ---| -'
//!   driver                  wake         wake         wake: the thread that wakes polls the write
//! ```
//!
//! Reason: an append delays all later appends to its file until its bytes are in memory, so it must
//! not wait for a busy task or a forgotten future.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use foreread_core::path::WriteMode;

use crate::owned_bytes::OwnedBytes;
use crate::write::{WriteBytes, WriteEnd, WriteProgress};

/// A write that owns its buffer and returns it with the result.
pub(crate) struct OwnedWrite<B> {
    /// None once the result has been returned.
    buffer: Option<Arc<B>>,
    write: Arc<DrivenWrite>,
}

/// A write with two handles: its future's and the driver's.
struct DrivenWrite(Mutex<DrivenState>);

struct DrivenState {
    stage: DrivenStage,
    /// Wakes the future.
    waker: Waker,
}

enum DrivenStage {
    New(OwnedWork),
    /// Waits for a wake by the driver.
    Waits(OwnedWork),
    /// A thread polls it.
    Polled {
        /// It was woken during the poll: poll it once more.
        is_woken: bool,
        /// Its future was dropped during the poll: the polling thread abandons it.
        is_left: bool,
    },
    Ended(WriteEnd),
    /// The future has the result, or was dropped.
    Over,
    /// The engine panicked in a poll.
    Lost,
}

struct OwnedWork {
    progress: WriteProgress,
    bytes: OwnedBytes,
}

/// Work left after a poll.
enum AfterPoll {
    Again(OwnedWork),
    Rests,
    Wake(Waker),
}

thread_local! {
    /// Writes woken while this thread polls another one. They are polled after it, so that a chain
    /// of writes that wake each other needs no deep stack.
    static WOKEN: RefCell<Option<VecDeque<Arc<DrivenWrite>>>> = const { RefCell::new(None) };
}

impl<B: AsRef<[u8]> + Send + Sync + 'static> OwnedWrite<B> {
    pub(crate) fn new(buffer: B, progress: WriteProgress) -> Self {
        let buffer = Arc::new(buffer);
        let stage = DrivenStage::New(OwnedWork { progress, bytes: OwnedBytes::new(&buffer) });
        let state = DrivenState { stage, waker: Waker::noop().clone() };
        Self { buffer: Some(buffer), write: Arc::new(DrivenWrite(Mutex::new(state))) }
    }

    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<(B, WriteEnd)> {
        let is_new = matches!(self.write.lock().stage, DrivenStage::New(_));
        if is_new {
            self.write.run();
        }
        let mut state = self.write.lock();
        let end = match mem::replace(&mut state.stage, DrivenStage::Over) {
            DrivenStage::Ended(end) => end,
            DrivenStage::Over => panic!("a write is not polled after it has ended"),
            DrivenStage::Lost => panic!("a driver panicked: the state of the cache is lost"),
            stage @ (DrivenStage::New(_) | DrivenStage::Waits(_) | DrivenStage::Polled { .. }) => {
                state.stage = stage;
                let old = (!state.waker.will_wake(context.waker()))
                    .then(|| mem::replace(&mut state.waker, context.waker().clone()));
                drop(state);
                drop(old);
                return Poll::Pending;
            }
        };
        drop(state);
        let buffer = self.buffer.take().and_then(Arc::into_inner);
        let buffer = buffer.expect("each piece drops its part before it is filled");
        Poll::Ready((buffer, end))
    }
}

impl<B> OwnedWrite<B> {
    /// Sets the mode of a write that has not begun.
    pub(crate) fn set_mode(&mut self, mode: WriteMode) {
        if let DrivenStage::New(work) = &mut self.write.lock().stage {
            work.progress.mode = mode;
        }
    }
}

impl DrivenWrite {
    /// Polls this write, and then the writes woken by that. Tasks are woken last, because they may
    /// run in here and wait for one of these writes.
    fn run(self: &Arc<Self>) {
        let is_nested = with_woken(|woken| match woken {
            Some(woken) => {
                woken.push_back(Arc::clone(self));
                true
            }
            None => {
                *woken = Some(VecDeque::new());
                false
            }
        });
        if is_nested == Some(true) {
            return;
        }
        let mut wakers = Vec::new();
        let mut next = Some(Arc::clone(self));
        while let Some(write) = next {
            wakers.extend(write.go_on());
            next = with_woken(|woken| {
                let found = woken.as_mut().and_then(VecDeque::pop_front);
                if found.is_none() {
                    *woken = None;
                }
                found
            })
            .flatten();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Makes as much progress as possible without blocking. Returns the task to wake, if the write
    /// has ended.
    fn go_on(self: &Arc<Self>) -> Option<Waker> {
        let mut work = self.take_work()?;
        loop {
            let guard = PollGuard(self);
            let waker = Waker::from(Arc::clone(self));
            let bytes = WriteBytes::Owned(&work.bytes);
            let polled = work.progress.poll(bytes, &Context::from_waker(&waker));
            mem::forget(guard);
            match self.after_poll(work, polled) {
                AfterPoll::Again(again) => work = again,
                AfterPoll::Rests => return None,
                AfterPoll::Wake(waker) => return Some(waker),
            }
        }
    }

    /// Takes the write in order to poll it. Returns None if it has ended, or if another thread
    /// polls it, which then polls once more.
    fn take_work(&self) -> Option<OwnedWork> {
        let mut state = self.lock();
        let polled = DrivenStage::Polled { is_woken: false, is_left: false };
        match mem::replace(&mut state.stage, polled) {
            DrivenStage::New(work) | DrivenStage::Waits(work) => Some(work),
            DrivenStage::Polled { is_left, .. } => {
                state.stage = DrivenStage::Polled { is_woken: true, is_left };
                None
            }
            stage @ (DrivenStage::Ended(_) | DrivenStage::Over | DrivenStage::Lost) => {
                state.stage = stage;
                None
            }
        }
    }

    fn after_poll(&self, work: OwnedWork, polled: Poll<WriteEnd>) -> AfterPoll {
        let end = match polled {
            Poll::Ready(end) => {
                // Once its future learns of the end, it alone must own the buffer and the file.
                drop(work);
                end
            }
            Poll::Pending => return self.rest(work),
        };
        let mut state = self.lock();
        let DrivenStage::Polled { is_left, .. } = state.stage else {
            unreachable!("the thread that polls a write ends that")
        };
        state.stage = if is_left { DrivenStage::Over } else { DrivenStage::Ended(end) };
        AfterPoll::Wake(mem::replace(&mut state.waker, Waker::noop().clone()))
    }

    fn rest(&self, mut work: OwnedWork) -> AfterPoll {
        let mut state = self.lock();
        let DrivenStage::Polled { is_woken, is_left } = state.stage else {
            unreachable!("the thread that polls a write ends that")
        };
        if is_left {
            state.stage = DrivenStage::Over;
            drop(state);
            work.progress.abandon(WriteBytes::Owned(&work.bytes));
            return AfterPoll::Rests;
        }
        if is_woken {
            state.stage = DrivenStage::Polled { is_woken: false, is_left };
            return AfterPoll::Again(work);
        }
        state.stage = DrivenStage::Waits(work);
        AfterPoll::Rests
    }

    /// Abandons the write when its future is dropped.
    fn leave(&self) {
        let mut state = self.lock();
        let waker = mem::replace(&mut state.waker, Waker::noop().clone());
        let stage = if let DrivenStage::Polled { is_left, .. } = &mut state.stage {
            *is_left = true;
            DrivenStage::Over
        } else {
            mem::replace(&mut state.stage, DrivenStage::Over)
        };
        drop(state);
        drop(waker);
        if let DrivenStage::New(mut work) | DrivenStage::Waits(mut work) = stage {
            work.progress.abandon(WriteBytes::Owned(&work.bytes));
        }
    }

    /// Marks the write as lost with its engine; its future reports that.
    fn lose(&self) {
        let mut state = self.lock();
        let waker = mem::replace(&mut state.waker, Waker::noop().clone());
        let stage = mem::replace(&mut state.stage, DrivenStage::Lost);
        drop(state);
        drop(stage);
        waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, DrivenState> {
        // Only polling a future after its end panics under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for DrivenWrite {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

/// Accesses this thread's list of woken writes. Returns None on a thread that is ending, whose list
/// is gone.
fn with_woken<T>(change: impl FnOnce(&mut Option<VecDeque<Arc<DrivenWrite>>>) -> T) -> Option<T> {
    WOKEN.try_with(|woken| change(&mut woken.borrow_mut())).ok()
}

/// Reports a poll that panicked to the write's future.
struct PollGuard<'w>(&'w DrivenWrite);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.lose();
        let woken = with_woken(Option::take).flatten();
        woken.into_iter().flatten().for_each(|write| write.lose());
    }
}

/// The buffer is never pinned.
impl<B> Unpin for OwnedWrite<B> {}

impl<B> Drop for OwnedWrite<B> {
    fn drop(&mut self) {
        self.write.leave();
    }
}

impl<B> fmt::Debug for OwnedWrite<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = self.buffer.is_none();
        f.debug_struct("OwnedWrite").field("is_over", &is_over).finish_non_exhaustive()
    }
}
