//! The ring: reads into frames go to the kernel, results come back.
//!
//! In:    a backend, an offset, the addresses of frames.
//! Out:   a tag and a result for each read.
//! Never: more reads in flight than the completion queue holds. A read whose memory or descriptor
//!        ends before it does: the ring keeps both until then.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use foreread_core::table::Frame;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

use crate::backend::Backend;
use crate::error::EngineError;
use crate::pool::{PAGE, Pool};

pub(crate) struct Ring {
    uring: IoUring,
    in_flight: HashMap<u64, InFlight>,
    /// The memory that reads in flight write to. The last of what a ring lets go.
    pool: Arc<Pool>,
    /// The process that made it: a forked child must not touch what it shares with its parent.
    process: u32,
}

/// One read that the kernel is working on, with all that it needs until it ends.
struct InFlight {
    backend: Arc<Backend>,
    offset: u64,
    vectors: Vectors,
    /// How often the kernel asked to try again.
    retries: u32,
}

/// Where the bytes of one read go. Boxed: the kernel keeps its address.
struct Vectors(Box<[libc::iovec]>);

// SAFETY: the pointers lead into the arena, which any thread may hand to the kernel.
unsafe impl Send for Vectors {}

/// What became of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// As it was given to [`Ring::read`].
    pub(crate) tag: u64,
    /// Bytes, or the error number.
    pub(crate) result: Result<u32, i32>,
}

impl Ring {
    /// Why no flags: any thread may submit and any may reap, one at a time, so SINGLE_ISSUER and
    /// DEFER_TASKRUN, which tie a ring to one thread, are out; SQPOLL would spend a core.
    /// COOP_TASKRUN makes a miss about a tenth faster (virtio, depth 1), but lets a completion wait
    /// until the thread that submitted it next enters the kernel, while another waits for the page.
    pub(crate) fn new(pool: Arc<Pool>) -> Result<Self, EngineError> {
        let uring = IoUring::new(ENTRIES).map_err(|source| EngineError::Ring { source })?;
        if !uring.params().is_feature_ext_arg() {
            let source = io::Error::other("the kernel is older than 5.11");
            return Err(EngineError::Ring { source });
        }
        Ok(Self { uring, in_flight: HashMap::new(), pool, process: std::process::id() })
    }

    /// Whether another read may be started.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.len() < ENTRIES as usize
    }

    /// How many reads the kernel is working on, or is done with but not yet asked about.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Queues a read of whole pages at `offset` into `frames`, in their order. Pages whose frames
    /// are neighbours in memory become one vector.
    pub(crate) fn read(
        &mut self,
        tag: u64,
        backend: Arc<Backend>,
        offset: u64,
        frames: impl Iterator<Item = Frame>,
    ) {
        assert!(self.has_room(), "the completion queue holds what is in flight");
        let mut vectors: Vec<libc::iovec> = Vec::new();
        for frame in frames {
            let frame = self.pool.address(frame);
            match vectors.last_mut() {
                Some(last)
                    if last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == frame.as_ptr() =>
                {
                    last.iov_len += PAGE;
                }
                _ => vectors.push(libc::iovec { iov_base: frame.as_ptr().cast(), iov_len: PAGE }),
            }
        }
        let vectors = Vectors(vectors.into_boxed_slice());
        let read = InFlight { backend, offset, vectors, retries: 0 };
        self.push(tag, &read);
        let before = self.in_flight.insert(tag, read);
        assert!(before.is_none(), "a tag is in flight once");
    }

    /// Hands all queued reads to the kernel, and does not wait.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        if self.uring.submission().is_empty() {
            return Ok(());
        }
        again_if_interrupted(|| self.uring.submit())
    }

    /// Hands all queued reads to the kernel and waits until at least one is done, or the time is
    /// over.
    pub(crate) fn wait(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        let Some(at_most) = at_most else {
            return again_if_interrupted(|| self.uring.submit_and_wait(1));
        };
        let time = Timespec::new().sec(at_most.as_secs()).nsec(at_most.subsec_nanos());
        let args = SubmitArgs::new().timespec(&time);
        match self.uring.submitter().submit_with_args(1, &args) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            // The caller looks at the clock again and waits for the rest.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next result that has come.
    ///
    /// A read that the kernel cancelled because the thread that submitted it ended, or asks to try
    /// again, is queued again and not reported.
    pub(crate) fn completion(&mut self) -> Option<Completion> {
        loop {
            let (tag, result) = {
                let entry = self.uring.completion().next()?;
                (entry.user_data(), entry.result())
            };
            let read = self.in_flight.remove(&tag).expect("the kernel answers what was asked");
            let again = [Errno::CANCELED, Errno::AGAIN, Errno::INTR]
                .iter()
                .any(|errno| -errno.raw_os_error() == result);
            if again && read.retries < RETRIES {
                let read = InFlight { retries: read.retries + 1, ..read };
                self.push(tag, &read);
                self.in_flight.insert(tag, read);
                continue;
            }
            let result = u32::try_from(result).map_err(|_| -result);
            return Some(Completion { tag, result });
        }
    }

    fn push(&mut self, tag: u64, read: &InFlight) {
        let fd = Fd(read.backend.raw_fd());
        let count = u32::try_from(read.vectors.0.len()).expect("a request has few pages");
        let entry: squeue::Entry = opcode::Readv::new(fd, read.vectors.0.as_ptr(), count)
            .offset(read.offset)
            .build()
            .user_data(tag);
        if self.uring.submission().is_full() {
            // Never as long as the kernel takes what it is given: it is as large as what may be in
            // flight. It may have refused once (EAGAIN), and this is the second chance.
            let _ = self.submit();
        }
        // SAFETY: descriptor, vectors and frames stay as they are until the completion: `in_flight`
        // owns the first two, the addresses are the pool's, which the ring holds, and the core
        // gives no frame away in flight.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        pushed.expect("the submission queue holds what may be in flight");
    }
}

impl Drop for Ring {
    /// Waits for what is in flight: the kernel must not write to memory that is somebody else's.
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        while !self.in_flight.is_empty() {
            if self.wait(None).is_err() {
                // The kernel refuses to tell: rather lose the memory than have it written to.
                std::mem::forget(Arc::clone(&self.pool));
                return;
            }
            while self.completion().is_some() {}
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

fn again_if_interrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
    loop {
        match call() {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// How many reads may be in flight at once, over all devices: enough for eight devices at their
/// default depth.
const ENTRIES: u32 = 256;

/// How often a read is tried again when the kernel asks for it, before that is its error.
const RETRIES: u32 = 16;
