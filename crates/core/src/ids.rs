//! The names of a path's things: devices, files, streams, reads, writes, requests.
//!
//! In:    nothing.
//! Out:   one type of id for each kind, so that none is taken for another.
//! Never: what they name. Each part keeps its own.

use crate::slab::Id;
use crate::table::FileSlot;

/// The kind of [`DeviceId`].
#[derive(Debug)]
pub enum DeviceKind {}
/// The kind of [`FileId`].
#[derive(Debug)]
pub enum FileKind {}
/// The kind of [`StreamId`].
#[derive(Debug)]
pub enum StreamKind {}
/// The kind of [`ReadId`].
#[derive(Debug)]
pub enum ReadKind {}
/// The kind of [`WriteId`].
#[derive(Debug)]
pub enum WriteIdKind {}
/// The kind of [`DirectId`].
#[derive(Debug)]
pub enum DirectKind {}
/// The kind of [`Tag`].
#[derive(Debug)]
pub enum RequestKind {}
/// The kind of [`DomainId`].
#[derive(Debug)]
pub(crate) enum DomainKind {}

/// Names a device.
pub type DeviceId = Id<DeviceKind>;
/// Names an open file.
pub type FileId = Id<FileKind>;
/// Names a stream: the read-ahead state of one reader of one file.
pub type StreamId = Id<StreamKind>;
/// Names a read.
pub type ReadId = Id<ReadKind>;
/// Names a write, a write of zeroes or a flush.
pub type WriteId = Id<WriteIdKind>;
/// Names a direct request.
pub type DirectId = Id<DirectKind>;
/// Names a request that a device is working on.
pub type Tag = Id<RequestKind>;
/// Names a flush domain.
pub(crate) type DomainId = Id<DomainKind>;

/// Numbers the commands of a flush domain in the order in which they began.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct CommandSeq(pub(crate) u64);

/// A command of a flush domain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DomainCommand {
    pub(crate) domain: DomainId,
    pub(crate) seq: CommandSeq,
}

/// Names a dirty page; a number that is used again when the page is clean.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DirtyId(pub(crate) u32);

/// A read or a write that waits for frames, or for a frame that is being filled or written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Waiter {
    /// A read.
    Read(ReadId),
    /// A write.
    Write(WriteId),
}

/// Where a file is found in the page table.
pub(crate) fn slot_of(file: FileId) -> FileSlot {
    FileSlot(file.index())
}
