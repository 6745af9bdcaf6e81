//! Work that may wait for the device: futures of the engine where there are any, else the blocking
//! pool.
//!
//! ```text
//!   FUA write, write that finds no room, flush   of a file       future: no thread
//!                                                of an overlay   pool: blocks, bits and the base
//!   zeroes, discard, extents                                     pool: system calls that block
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use foreread::{File, SyncData, WriteFrom, WriteMode};

use super::Connection;
use crate::blocking_pool::{BlockingJob, BlockingWork};
use crate::mailbox::{self, Mail};
use crate::nbd::NbdErrno;
use crate::store::errno_of;

/// A write or flush in flight as a future.
#[derive(Debug)]
pub(super) struct FileWork {
    /// Request to reply to; None for a part of the write in progress.
    cookie: Option<u64>,
    /// Bytes of the server's budget, until it ends.
    paid: usize,
    task: FileTask,
}

#[derive(Debug)]
enum FileTask {
    Write { write: WriteFrom<Vec<u8>>, offset: u64, mode: WriteMode },
    Flush(SyncData),
}

impl FileTask {
    /// Creates the future of some work; returns the work if it has none.
    fn new(file: &File, work: BlockingWork) -> Result<Self, BlockingWork> {
        let write = |bytes: Vec<u8>, offset, fua| {
            let mode = if fua { WriteMode::Fua } else { WriteMode::WriteBack };
            let write = file.write_from(bytes, offset).with_mode(mode);
            Self::Write { write, offset, mode }
        };
        match work {
            BlockingWork::Part { bytes, offset, fua } => Ok(write(bytes, offset, fua)),
            BlockingWork::Write { bytes, offset, .. } => Ok(write(bytes, offset, true)),
            BlockingWork::Flush { .. } => Ok(Self::Flush(file.sync_data_async())),
            BlockingWork::Read { .. }
            | BlockingWork::Trim { .. }
            | BlockingWork::Zero { .. }
            | BlockingWork::Extents { .. } => Err(work),
        }
    }

    fn poll(&mut self, file: &File, context: &mut Context<'_>) -> Poll<Result<(), NbdErrno>> {
        loop {
            match self {
                Self::Flush(flush) => {
                    let flushed = ready!(Pin::new(flush).poll(context));
                    return Poll::Ready(flushed.map_err(|error| errno_of(&error.into())));
                }
                Self::Write { write, offset, mode } => {
                    let (mut bytes, written) = ready!(Pin::new(&mut *write).poll(context));
                    let len = match written {
                        Err(error) => return Poll::Ready(Err(errno_of(&error.into()))),
                        Ok(len) if len == bytes.len() => return Poll::Ready(Ok(())),
                        Ok(0) => return Poll::Ready(Err(NbdErrno::Io)),
                        Ok(len) => len,
                    };
                    // It ended short at an error; the rest has that error by itself.
                    bytes.drain(..len);
                    *offset += len as u64;
                    *write = file.write_from(bytes, *offset).with_mode(*mode);
                }
            }
        }
    }
}

impl Connection<'_> {
    /// Begins work that may wait for the device.
    pub(super) fn begin_work(&mut self, work: BlockingWork, paid: usize) {
        let cookie = work.cookie();
        let task = match self.shared.store.file() {
            Some(file) => FileTask::new(file, work),
            None => Err(work),
        };
        self.kept += paid;
        match task {
            Ok(task) => self.begin_file_work(FileWork { cookie, paid, task }),
            Err(work) => {
                self.jobs += 1;
                let job = BlockingJob { work, paid, mailbox: Arc::clone(&self.mailbox) };
                self.shared.pool.add(&self.shared.store, job);
            }
        }
    }

    fn begin_file_work(&mut self, work: FileWork) {
        let new_waker = |slot| mailbox::waker(&self.mailbox, Mail::WriteWoken, slot);
        let slot = self.file_work.reserve(new_waker);
        self.file_work.put(slot, work);
        self.poll_file_work(slot);
    }

    /// Polls the future in a slot. The wake-up may be stale: another one may occupy the slot by
    /// now.
    pub(super) fn poll_file_work(&mut self, slot: usize) {
        let file = self.shared.store.file();
        let (Some(file), Some((work, waker))) = (file, self.file_work.get_mut(slot)) else {
            return;
        };
        let polled = work.task.poll(file, &mut Context::from_waker(waker));
        if let Poll::Ready(result) = polled {
            let FileWork { cookie, paid, .. } = self.file_work.take(slot);
            self.kept -= paid;
            self.output.budget.give(paid);
            match cookie {
                Some(cookie) => self.end_request(cookie, result),
                None => self.written(result),
            }
        }
    }
}
