//! The blocking pool: threads that wait for the device, so that connections need not.
//!
//! In:    jobs.
//! Out:   mail to the connections that asked.
//! Never: a thread before it is needed, or more than a few. A job that panics takes no other along.
//!        A job that waits behind those of another kind: each kind has threads of its own, so that
//!        a store or a device that stops answering holds only what needs it.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::mailbox::{Mail, Mailbox};
use crate::nbd::{NbdErrno, reply};
use crate::store::{Store, errno_of};

/// Something that may wait.
#[derive(Debug)]
pub(crate) struct BlockingJob {
    pub(crate) work: BlockingWork,
    /// How many bytes of the server's budget it costs, until its mail is taken.
    pub(crate) paid: usize,
    pub(crate) mailbox: Arc<Mailbox>,
}

#[derive(Debug)]
pub(crate) enum BlockingWork {
    /// A part of a write, which its connection waits for.
    Part {
        bytes: Vec<u8>,
        offset: u64,
        fua: bool,
    },
    /// A write that is to be durable.
    Write {
        cookie: u64,
        bytes: Vec<u8>,
        offset: u64,
    },
    /// A read of what the export's file has not, or not all.
    Read {
        cookie: u64,
        offset: u64,
        len: usize,
        /// Where its chunk begins for the client; None for a simple reply.
        chunk_at: Option<u64>,
    },
    Flush {
        cookie: u64,
    },
    Trim {
        cookie: u64,
        range: Range<u64>,
        fua: bool,
    },
    Zero {
        cookie: u64,
        range: Range<u64>,
        may_unmap: bool,
        fua: bool,
    },
    Extents {
        cookie: u64,
        range: Range<u64>,
        one: bool,
    },
}

/// What jobs of a kind wait for.
#[derive(Clone, Copy, Debug)]
enum JobKind {
    /// The base of an overlay, which may be a store that does not answer.
    Base,
    /// Bytes of the device; of an overlay mostly the cache.
    Read,
    /// Room in the cache, or the rest of a page.
    Write,
    /// Commands of the device: flushes, FUA writes, zeroes, discards.
    Device,
    /// Questions to the file system.
    Extents,
}

/// Threads that do jobs: of each kind the oldest first.
#[derive(Debug, Default)]
pub(crate) struct BlockingPool {
    kinds: [Arc<KindPool>; 5],
}

/// The threads for jobs of one kind.
#[derive(Debug, Default)]
struct KindPool {
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PoolState {
    jobs: VecDeque<BlockingJob>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl BlockingPool {
    /// Queues a job. It runs even if the pool is closed afterwards.
    pub(crate) fn add(&self, store: &Arc<dyn Store>, job: BlockingJob) {
        let kind = job.work.kind(&**store);
        self.kinds[kind as usize].add(store, job);
    }

    /// Its threads end when there is nothing left to do.
    pub(crate) fn close(&self) {
        self.kinds.iter().for_each(|kind| kind.close());
    }
}

impl KindPool {
    fn add(self: &Arc<Self>, store: &Arc<dyn Store>, job: BlockingJob) {
        let mut state = self.lock();
        state.jobs.push_back(job);
        let needs_thread = state.idle < state.jobs.len() && state.threads < MOST_THREADS;
        if needs_thread {
            state.threads += 1;
            assert!(state.idle < state.threads, "the new thread is not idle yet");
            drop(state);
            let (pool, its_store) = (Arc::clone(self), Arc::clone(store));
            let thread = std::thread::Builder::new().name("foreread-pool".into());
            let spawned = thread.stack_size(STACK).spawn(move || pool.run(&*its_store));
            if spawned.is_err() {
                // Those that are there do it; if there is none, it is done here.
                let mut state = self.lock();
                state.threads -= 1;
                if state.threads == 0
                    && let Some(job) = state.jobs.pop_back()
                {
                    drop(state);
                    job.run(&**store);
                }
            }
        } else {
            drop(state);
        }
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn run(&self, store: &dyn Store) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job.run(store);
                state = self.lock();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        assert!(state.is_closed && state.jobs.is_empty(), "a thread ends with the pool's work");
        state.threads -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Nothing panics while it holds this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockingJob {
    fn run(self, store: &dyn Store) {
        let Self { work, paid, mailbox } = self;
        // The connection must get an answer, whatever happens.
        let cookie = work.cookie();
        let is_in_chunks = matches!(
            work,
            BlockingWork::Extents { .. } | BlockingWork::Read { chunk_at: Some(_), .. }
        );
        let done = catch_unwind(AssertUnwindSafe(|| work.run(store)));
        let done = done.unwrap_or(Err(NbdErrno::Io));
        mailbox.post(match cookie {
            None => Mail::Written { result: done.map(drop), paid },
            Some(cookie) => {
                let is_error = done.is_err();
                let bytes = match done {
                    Ok(Some(bytes)) => bytes,
                    Err(errno) if is_in_chunks => reply::error(cookie, errno).to_vec(),
                    done => reply::simple(cookie, done.map(drop)).to_vec(),
                };
                Mail::Reply { bytes, paid, is_error }
            }
        });
    }
}

impl BlockingWork {
    fn kind(&self, store: &dyn Store) -> JobKind {
        let range = |offset: u64, len: usize| offset..offset + len as u64;
        let (touched, is_write, kind) = match self {
            Self::Part { bytes, offset, fua: false } => {
                (range(*offset, bytes.len()), true, JobKind::Write)
            }
            Self::Part { bytes, offset, fua: true } | Self::Write { bytes, offset, .. } => {
                (range(*offset, bytes.len()), true, JobKind::Device)
            }
            Self::Read { offset, len, .. } => (range(*offset, *len), false, JobKind::Read),
            Self::Zero { range, .. } => (range.clone(), true, JobKind::Device),
            Self::Flush { .. } | Self::Trim { .. } => return JobKind::Device,
            Self::Extents { .. } => return JobKind::Extents,
        };
        if store.waits_for_base(&touched, is_write) { JobKind::Base } else { kind }
    }

    fn cookie(&self) -> Option<u64> {
        match self {
            Self::Part { .. } => None,
            Self::Write { cookie, .. }
            | Self::Read { cookie, .. }
            | Self::Flush { cookie }
            | Self::Trim { cookie, .. }
            | Self::Zero { cookie, .. }
            | Self::Extents { cookie, .. } => Some(*cookie),
        }
    }

    /// Does it. Some: a reply that is more than yes.
    fn run(self, store: &dyn Store) -> Result<Option<Vec<u8>>, NbdErrno> {
        let flush = || store.flush().map_err(|error| errno_of(&error));
        let durable = |fua| if fua { flush() } else { Ok(()) };
        match self {
            Self::Part { bytes, offset, fua } => store.write(&bytes, offset, fua)?,
            Self::Write { bytes, offset, .. } => store.write(&bytes, offset, true)?,
            Self::Read { cookie, offset, len, chunk_at } => {
                let mut bytes = head(cookie, len, chunk_at);
                let head_len = bytes.len();
                bytes.resize(head_len + len, 0);
                store.read(&mut bytes[head_len..], offset)?;
                return Ok(Some(bytes));
            }
            Self::Flush { .. } => flush()?,
            Self::Trim { range, fua, .. } => store.discard(range).and_then(|()| durable(fua))?,
            Self::Zero { range, may_unmap, fua, .. } => {
                store.zero(range, may_unmap).and_then(|()| durable(fua))?;
            }
            Self::Extents { cookie, range, one } => {
                let look_up = if one { Store::first_extent } else { Store::extents };
                let extents = look_up(store, range.clone())?;
                return Ok(Some(block_status(cookie, range, one, &extents)));
            }
        }
        Ok(None)
    }
}

/// The head of a reply with bytes.
fn head(cookie: u64, len: usize, chunk_at: Option<u64>) -> Vec<u8> {
    if let Some(offset) = chunk_at {
        let len = u32::try_from(len).expect("a piece of a reply is 1 MiB at most");
        reply::data(cookie, offset, len, true).to_vec()
    } else {
        reply::simple(cookie, Ok(())).to_vec()
    }
}

/// The extents from the start of the range on, as far as a reply has room for them.
fn block_status(
    cookie: u64,
    range: Range<u64>,
    one: bool,
    extents: &[(Range<u64>, bool)],
) -> Vec<u8> {
    let mut known: Vec<(u32, bool)> = Vec::new();
    let mut at = range.start;
    for (extent, is_data) in extents {
        let end = extent.end.min(range.end);
        let len = u32::try_from(end.saturating_sub(at))
            .expect("a part of a request whose length is a u32");
        if len == 0 {
            continue;
        }
        let is_full = known.len() == if one { 1 } else { MOST_EXTENTS };
        match known.last_mut() {
            Some((last, was_data)) if was_data == is_data => *last += len,
            _ if is_full => break,
            _ => known.push((len, *is_data)),
        }
        at = end;
    }
    if known.is_empty() {
        // What is not known may be data.
        known.push((
            u32::try_from(range.end - range.start)
                .expect("a part of a request whose length is a u32"),
            true,
        ));
    }
    reply::block_status(cookie, &known)
}

/// Of each kind; enough for the queue of a fast disk. Each waits most of the time.
const MOST_THREADS: usize = 16;
const STACK: usize = 256 << 10;
/// A reply of 32 KiB. Clients ask again for the rest.
const MOST_EXTENTS: usize = 4096;

#[cfg(test)]
mod tests;
