//! Ids of a path's objects, with a separate type for each kind so that they cannot be mixed up.

use crate::slab::Id;
use crate::table::FileSlot;

/// Type tag of [`DeviceId`].
#[derive(Debug)]
pub enum DeviceKind {}
/// Type tag of [`FileId`].
#[derive(Debug)]
pub enum FileKind {}
/// Type tag of [`StreamId`].
#[derive(Debug)]
pub enum StreamKind {}
/// Type tag of [`ReadId`].
#[derive(Debug)]
pub enum ReadKind {}
/// Type tag of [`WriteId`].
#[derive(Debug)]
pub enum WriteIdKind {}
/// Type tag of [`DirectId`].
#[derive(Debug)]
pub enum DirectKind {}
/// Type tag of [`Tag`].
#[derive(Debug)]
pub enum RequestKind {}
/// Type tag of [`DomainId`].
#[derive(Debug)]
pub(crate) enum DomainKind {}

/// Identifies a device.
pub type DeviceId = Id<DeviceKind>;
/// Identifies an open file.
pub type FileId = Id<FileKind>;
/// Identifies a stream: the read-ahead state of one reader of one file.
pub type StreamId = Id<StreamKind>;
/// Identifies a read.
pub type ReadId = Id<ReadKind>;
/// Identifies a write, a write of zeroes, a flush or a change of length.
pub type WriteId = Id<WriteIdKind>;
/// Identifies a direct request.
pub type DirectId = Id<DirectKind>;
/// Identifies a request in flight on a device.
pub type Tag = Id<RequestKind>;
/// Identifies a flush domain.
pub(crate) type DomainId = Id<DomainKind>;

/// Sequence number of a command in its flush domain, in the order of their starts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct CommandSeq(pub(crate) u64);

/// A command of a flush domain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DomainCommand {
    pub(crate) domain: DomainId,
    pub(crate) seq: CommandSeq,
}

/// Identifies a dirty page; reused once the page is clean.
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

/// Returns the file's slot in the page table.
pub(crate) fn slot_of(file: FileId) -> FileSlot {
    FileSlot(file.index())
}
