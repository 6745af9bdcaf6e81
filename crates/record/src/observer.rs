//! Examines stopped system calls: file, position and length of the coming read. Never past the end
//! of the file, because the call returns no such bytes.

use std::collections::HashMap;

use foreread_core::units::MAX_FILE_BYTES;
use foreread_trace::{FileNo, FileTable};

use crate::filter::{NEW_LISTENER, WATCHED, WatchedCall, is_foreign, is_foreign_read};
use crate::listener::StoppedCall;
use crate::target::{self, RecordedInode};

/// Files of a recording, and counts of unseen reads.
#[derive(Debug, Default)]
pub(crate) struct ReadObserver {
    pub(crate) files: FileTable,
    numbers: HashMap<RecordedInode, FileNo>,
    pub(crate) unseen: UnseenReads,
}

/// Reads that a recording does not contain.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UnseenReads {
    /// Mappings of files, whose reads are not seen.
    pub mappings: u64,
    /// Bytes of these mappings.
    pub mapped_bytes: u64,
    /// io_uring rings, calls on older rings, and submissions of the older asynchronous I/O.
    pub asynchronous: u64,
    /// Reads with an unknown file or position.
    pub lost: u64,
    /// Reads and mappings by 32-bit programs.
    pub foreign: u64,
    /// Seccomp listeners that the program installed: reads that stop there are not seen.
    pub listeners: u64,
}

/// A read that a call is about to make.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ObservedRead {
    pub(crate) file: FileNo,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Position of a read.
#[derive(Clone, Copy, Debug)]
enum ReadOffset {
    /// The position of the descriptor.
    Position,
    At(u64),
    /// In memory at this address; address 0: the position of the descriptor.
    Pointer(u64),
}

impl ReadObserver {
    /// Returns the read that a call is about to make; None if nothing is to be recorded.
    pub(crate) fn observe(&mut self, call: &StoppedCall) -> Option<ObservedRead> {
        let [a0, a1, a2, a3, a4, _] = call.args;
        if is_foreign(call.arch, call.number) {
            self.unseen.foreign += u64::from(is_foreign_read(call.arch, call.number));
            return None;
        }
        if call.number == libc::SYS_io_uring_enter {
            // A ring from before the recorder attached.
            self.unseen.asynchronous += 1;
            return None;
        }
        let kind = WATCHED.iter().find(|(number, _)| *number == call.number)?.1;
        let vector = || target::vector_length(call.thread, a1, a2).ok();
        match kind {
            WatchedCall::Read => self.read(call, a0, ReadOffset::Position, Some(a2)),
            WatchedCall::PositionedRead => self.read(call, a0, ReadOffset::At(a3), Some(a2)),
            WatchedCall::VectorRead => self.read(call, a0, ReadOffset::Position, vector()),
            WatchedCall::PositionedVectorRead => {
                let is_position = a3 == u64::MAX;
                let offset = if is_position { ReadOffset::Position } else { ReadOffset::At(a3) };
                self.read(call, a0, offset, vector())
            }
            WatchedCall::SendFile => self.read(call, a1, ReadOffset::Pointer(a2), Some(a3)),
            WatchedCall::CopyRange => self.read(call, a0, ReadOffset::Pointer(a1), Some(a4)),
            WatchedCall::Map => {
                self.map(call.thread, a4, a1);
                None
            }
            WatchedCall::Ring | WatchedCall::Submit => {
                self.unseen.asynchronous += 1;
                None
            }
            WatchedCall::Listener => {
                self.unseen.listeners += u64::from(a1 & u64::from(NEW_LISTENER) != 0);
                None
            }
        }
    }

    fn read(
        &mut self,
        call: &StoppedCall,
        fd: u64,
        offset: ReadOffset,
        length: Option<u64>,
    ) -> Option<ObservedRead> {
        let fd = descriptor(fd)?;
        let Ok(opened) = target::opened(call.thread, fd) else {
            self.unseen.lost += 1;
            return None;
        };
        let opened = opened?;
        let offset = match offset {
            ReadOffset::Position | ReadOffset::Pointer(0) => target::position(call.thread, fd),
            ReadOffset::At(offset) => Some(offset),
            ReadOffset::Pointer(address) => target::integer(call.thread, address).ok(),
        };
        let Some((offset, length)) = offset.zip(length) else {
            self.unseen.lost += 1;
            return None;
        };
        let left = opened.size.map_or(u64::MAX, |size| size.saturating_sub(offset));
        let length = length.min(left).min(CALL_MAX);
        let end = offset.checked_add(length).filter(|end| *end <= MAX_FILE_BYTES.0);
        if length == 0 || end.is_none() {
            return None;
        }
        let file = self.number(call.thread, fd, opened.identity, opened.size);
        if file.is_none() {
            self.unseen.lost += 1;
        }
        Some(ObservedRead { file: file?, offset, length })
    }

    fn map(&mut self, thread: u32, fd: u64, length: u64) {
        let opened = descriptor(fd).map(|fd| target::opened(thread, fd));
        if matches!(opened, Some(Ok(Some(_)))) {
            self.unseen.mappings += 1;
            self.unseen.mapped_bytes = self.unseen.mapped_bytes.saturating_add(length);
        }
    }

    fn number(
        &mut self,
        thread: u32,
        fd: i32,
        identity: RecordedInode,
        size: Option<u64>,
    ) -> Option<FileNo> {
        if let Some(number) = self.numbers.get(&identity) {
            return Some(*number);
        }
        let number = self.files.add(&target::name(thread, fd)?, size).ok()?;
        self.numbers.insert(identity, number);
        Some(number)
    }
}

/// Returns the descriptor in an argument, of which the kernel uses the lower half.
fn descriptor(argument: u64) -> Option<i32> {
    let fd = u32::try_from(argument & u64::from(u32::MAX)).ok()?.cast_signed();
    (fd >= 0).then_some(fd)
}

/// Linux's `MAX_RW_COUNT`, the longest read of one call.
const CALL_MAX: u64 = 0x7fff_f000;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    use super::*;
    use crate::filter::ARCH;

    fn call(number: i64, args: [u64; 6]) -> StoppedCall {
        StoppedCall::traced(std::process::id(), ARCH, number, args)
    }

    #[test]
    fn a_call_reads_no_more_than_the_kernel_lets_it() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5 << 30).unwrap();
        let mut observer = ReadObserver::default();
        let mut length = |asked: u64, offset: u64| {
            let args = [fd(&file), 0, asked, offset, 0, 0];
            observer.observe(&call(libc::SYS_pread64, args)).unwrap().length
        };
        assert_eq!(length(5 << 30, 0), (2 << 30) - 4096);
        assert_eq!(length(5 << 30, 4 << 30), 1 << 30, "cut at the end of the file");
        assert_eq!(length(4096, 0), 4096);
    }

    #[test]
    fn a_ring_that_was_there_before_is_noted() {
        let mut observer = ReadObserver::default();
        assert!(observer.observe(&call(libc::SYS_io_uring_enter, [0; 6])).is_none());
        assert!(observer.observe(&call(libc::SYS_write, [0; 6])).is_none());
        assert_eq!(observer.unseen.asynchronous, 1);
    }

    /// `read` of i386 has the number of the 64-bit `close`.
    #[test]
    fn a_read_of_a_32_bit_program_is_counted() {
        let mut observer = ReadObserver::default();
        let compat = if cfg!(target_arch = "x86_64") { 0x4000_0003 } else { 0x4000_0028 };
        for number in [3, 4, 180] {
            let call = StoppedCall::traced(std::process::id(), compat, number, [0; 6]);
            assert!(observer.observe(&call).is_none());
        }
        assert_eq!(observer.unseen.foreign, 2, "4 is write");
    }

    #[test]
    fn a_listener_of_the_program_is_counted() {
        let mut observer = ReadObserver::default();
        for flags in [0, u64::from(NEW_LISTENER)] {
            let install = call(libc::SYS_seccomp, [1, flags, 0, 0, 0, 0]);
            assert!(observer.observe(&install).is_none());
        }
        assert_eq!(observer.unseen.listeners, 1);
    }

    fn fd(file: &File) -> u64 {
        u64::try_from(file.as_raw_fd()).unwrap()
    }
}
