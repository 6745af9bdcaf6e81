//! Writes: what is written into the cache, and what is done to the device behind it.
//!
//! In:    a range of a file and how far it must get; the driver's word that it has copied or acted.
//! Out:   steps ([`IoPath::poll_write`]): copy into these frames, act now, it is over.
//! Never: a page's bytes, a blocking act, an error of its own.
//!
//! ```text
//!   write() --> its pages, room, frames, old bytes --> Fill --> filled() --> Done
//!   zero()  --> its pages, device writes there end --> Act  --> acted()  --> Done
//!   flush() --> all that was written before is out --> Act  --> acted()  --> Done
//! ```
//!
//! Design, table of cases, promises: docs/writes.md.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Fault, FileId, IoPath, Tag};
use crate::sched::{BadSetting, Submitter};
use crate::slab::Id;
use crate::table::Frame;
use crate::units::{Bytes, Instant, PageIndex, Pages};

/// Names a write, a zero or a flush.
pub type WriteId = Id<Write>;

/// When a write is done.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum WriteMode {
    /// When it is in the cache: the device gets it later.
    #[default]
    Back,
    /// When the device has it, perhaps in a cache of its own that a power cut empties.
    Through,
    /// When the device has it for good.
    Fua,
}

/// What is to be done for a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteStep {
    /// Copy `len` bytes, from the write's position on, into [`IoPath::fills`]; then call
    /// [`IoPath::filled`]. It may be less than was asked: the rest is another write.
    Fill {
        /// How much.
        len: Bytes,
    },
    /// Nothing is in the way: do what blocks, then call [`IoPath::acted`]. For a flush that is the
    /// device's own flush; for a zero, the zero or the discard.
    Act,
    /// It is over, and its id is gone.
    Done {
        /// How much was written, of what was asked.
        len: Bytes,
        /// What went wrong, if anything.
        fault: Option<Fault>,
    },
}

/// A step of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WriteReady {
    /// Whose.
    pub id: WriteId,
    /// What.
    pub step: WriteStep,
}

/// One page of a write, to be filled by the driver.
///
/// ```text
///   old   |oooooooooooo|     only where part of the page stays: copy those bytes,
///   new   |oooowwwwwooo|     and the write's over them
/// ```
///
/// Of a file's last page, what lies past the end is to be zeros: a device may be given whole
/// sectors of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fill {
    /// Which page of the file.
    pub page: PageIndex,
    /// Where its new bytes go.
    pub new: Frame,
    /// Where its old bytes are.
    pub old: Option<Frame>,
}

/// A write, a zero or a flush on its way.
#[derive(Debug)]
pub struct Write {}

#[expect(clippy::unimplemented, unused_variables, reason = "types first")]
impl IoPath {
    /// Writes `len` bytes at `pos`.
    pub fn write(
        &mut self,
        now: Instant,
        file: FileId,
        pos: Bytes,
        len: Bytes,
        mode: WriteMode,
        submitter: Submitter,
    ) -> WriteId {
        unimplemented!()
    }

    /// Keeps writes out of whole pages while the caller zeroes or discards them.
    pub fn zero(&mut self, now: Instant, file: FileId, pages: Range<PageIndex>) -> WriteId {
        unimplemented!()
    }

    /// Waits until all that was written before is on the device, then wants its own flush.
    pub fn flush(&mut self, now: Instant, file: FileId) -> WriteId {
        unimplemented!()
    }

    /// The same without the device's own flush.
    pub fn write_back(&mut self, now: Instant, file: FileId) -> WriteId {
        unimplemented!()
    }

    /// The next step of a write.
    pub fn poll_write(&mut self) -> Option<WriteReady> {
        unimplemented!()
    }

    /// Where a write goes that is to be [filled](WriteStep::Fill), page by page.
    #[must_use]
    pub fn fills(&self, id: WriteId) -> &[Fill] {
        unimplemented!()
    }

    /// The driver has copied: from here on readers find the new bytes.
    pub fn filled(&mut self, now: Instant, id: WriteId) {
        unimplemented!()
    }

    /// The driver has acted, well or not: the error number.
    pub fn acted(&mut self, now: Instant, id: WriteId, result: Result<(), i32>) {
        unimplemented!()
    }

    /// How many pages of the file the device does not have yet: dirty, or being written.
    #[must_use]
    pub fn dirty_pages(&self, file: FileId) -> Pages {
        unimplemented!()
    }

    /// How many frames of all files writes hold: dirty, being filled, being written.
    #[must_use]
    pub fn dirty(&self) -> Pages {
        unimplemented!()
    }

    /// Changes one setting of the path, from its next decision on.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the value makes no sense.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadSetting> {
        unimplemented!()
    }

    /// All settings of the path, as they are now: what [`Self::set`] takes.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        unimplemented!()
    }

    /// The frames of a request that was dispatched and has not completed, in the order of its
    /// pages: to read into, or to write from.
    pub fn io_frames(&self, tag: Tag) -> impl Iterator<Item = Frame> {
        self.pages(tag).iter().map(|page| page.filling.frame())
    }
}
