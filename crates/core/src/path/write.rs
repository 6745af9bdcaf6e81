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

mod debts;
mod durability;
mod flush;
mod flush_domain;
mod flusher;
mod give_up;
mod put;
mod refused;
mod rewrite;
mod settings;
mod start;
mod zero;

use alloc::vec::Vec;
use core::ops::Range;

use self::debts::{DirtyId, DirtyList};
pub(super) use self::debts::{DirtyPages, FileDirtyPages};
pub(super) use self::durability::{CommandSeq, Domain};
pub(super) use self::flusher::{NEVER, WriteOutcome, WritePage};
pub(super) use self::settings::WritebackSettings;
pub(super) use self::start::DirtyBudget;
use super::{Fault, FileId, IoPath, Tag};
use crate::cache::{FlushInterval, Fresh};
use crate::replay::{PathCall, PathOutput};
use crate::sched::Submitter;
use crate::slab::Id;
use crate::table::Frame;
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

/// Names a write, a zero or a flush.
pub type WriteId = Id<WriteCommand>;

/// When a write is done.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum WriteMode {
    /// When it is in the cache: the device gets it later.
    #[default]
    WriteBack,
    /// When the device has it, perhaps in a cache of its own that a power cut empties.
    WriteThrough,
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
        len: ByteCount,
    },
    /// Nothing is in the way: do what blocks, then call [`IoPath::acted`]. For a flush that is the
    /// device's own flush; for a zero, the zero or the discard.
    Act,
    /// It is over, and its id is gone.
    Done {
        /// How much was written, of what was asked. 0 for a flush, and for what did not take place.
        len: ByteCount,
        /// What went wrong, if anything. [`Fault::Short`]: the file was closed meanwhile.
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
pub struct WriteFill {
    /// Which page of the file.
    pub page: PageIndex,
    /// Where its new bytes go.
    pub new: Frame,
    /// Where its old bytes are.
    pub old: Option<Frame>,
}

/// A write, a zero or a flush on its way.
#[derive(Debug)]
pub struct WriteCommand {
    file: FileId,
    kind: WriteKind,
    state: WriteState,
    /// The pages that it works on, and no other write meanwhile; none of a flush.
    pages: Range<PageIndex>,
    /// How many of those before it in the file's line have some of these pages.
    blockers: u32,
    /// What it still waits for: old pages, pages that the device does not have, device writes.
    outstanding: u32,
    fault: Option<Fault>,
    pos: ByteCount,
    /// How much was asked for.
    asked: ByteCount,
    /// How much it covers.
    len: ByteCount,
    mode: WriteMode,
    submitter: Submitter,
    /// How many frames of the writes' share it has, beside those of its dirty pages.
    room: u64,
    fresh: Vec<Fresh>,
    fills: Vec<WriteFill>,
    /// Of a flush, what it waits for.
    epoch: u64,
    /// What the driver does for it, in the order of its flush domain.
    command: Option<(Id<Domain>, CommandSeq)>,
    /// Of a flush, the intervals whose writes it makes durable.
    covers: FlushInterval,
    /// Of a flush, how many losses of its file had been accepted when it began.
    accepts: u32,
    /// Of a zero, whether the bytes are undefined afterwards.
    is_discard: bool,
    /// Whether it waits for a device, and `watch` counts it.
    is_watched: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WriteKind {
    Write,
    Zero,
    Flush,
    WriteBack,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WriteState {
    /// Others have its pages.
    Locked,
    /// There is no room for more dirty pages.
    Room,
    /// It waits for frames.
    Frames,
    /// Old bytes of its pages are on their way.
    Reading,
    /// The driver copies.
    Filling,
    /// It waits for the device: to write its pages, to end writes in its way, to have all.
    Device,
    /// The driver acts.
    Acting,
}

impl IoPath {
    /// Writes `len` bytes at `pos` of an open file.
    ///
    /// At most an eighth of all frames serve one write, and no more than may be dirty:
    /// [`WriteStep::Fill`] says how much it covers. It is cut at the end of the file, which a write
    /// never moves; one behind the end is done at once, with a length of 0.
    ///
    /// ```text
    ///   mode           Done when                            a failed device write is told to
    ///   WriteBack      it is in the cache                   the flushes that follow
    ///   WriteThrough   the device has each of its pages     this write, and those flushes
    ///   Fua            the device has each of them for good this write, and those flushes
    /// ```
    pub fn write(
        &mut self,
        now: Nanos,
        file: FileId,
        pos: ByteCount,
        len: ByteCount,
        mode: WriteMode,
        submitter: Submitter,
    ) -> WriteId {
        self.log().did(|| PathCall::Write { now, file, pos, len, mode, submitter });
        self.clock = now;
        assert!(len > ByteCount::ZERO, "a write of nothing");
        let mut write = WriteCommand {
            pos,
            asked: len,
            mode,
            submitter,
            ..WriteCommand::new(file, WriteKind::Write)
        };
        write.cover(self.open_file(file).len, self.largest_write());
        self.stats.writes += 1;
        let is_over = write.len == ByteCount::ZERO;
        let id = self.add_write(write);
        if is_over {
            self.end_write(id, ByteCount::ZERO, None);
        } else {
            self.lock(id);
            self.admit(now);
        }
        self.log().gave(|| PathOutput::Write(id));
        id
    }

    /// The driver has copied what [`WriteStep::Fill`] said: from here on readers find the new
    /// bytes, and the pages are dirty.
    pub fn filled(&mut self, now: Nanos, id: WriteId) {
        self.log().did(|| PathCall::Filled { now, id });
        self.clock = now;
        self.put_write(now, id);
        self.admit(now);
    }

    /// The driver has acted, well or not: the error number.
    pub fn acted(&mut self, now: Nanos, id: WriteId, result: Result<(), i32>) {
        self.log().did(|| PathCall::Acted { now, id, result });
        self.clock = now;
        let write = self.writes.get(id).expect("it acts once");
        assert!(write.state == WriteState::Acting, "{id:?} has not been told to act");
        let result = result.map_err(Fault::Io);
        match write.kind {
            WriteKind::Zero => self.end_zero(now, id, result.err().or(self.zeroed_fault(id))),
            WriteKind::Flush => self.end_device_flush(now, id, result),
            WriteKind::Write | WriteKind::WriteBack => panic!("{id:?} has nothing to act"),
        }
        self.admit(now);
    }

    /// The driver does not act, because no caller waits for this any more: it ends with this error
    /// number. A flush that was not sent to the device says nothing of what the device has.
    pub fn not_acted(&mut self, now: Nanos, id: WriteId, errno: i32) {
        self.log().did(|| PathCall::NotActed { now, id, errno });
        self.clock = now;
        let write = self.writes.get(id).expect("it acts once");
        assert!(write.state == WriteState::Acting, "{id:?} has not been told to act");
        let fault = Some(Fault::Io(errno));
        match write.kind {
            WriteKind::Zero => self.end_zero(now, id, fault),
            WriteKind::Flush => {
                self.cancel_device_flush(now, id);
                self.end_write(id, ByteCount::ZERO, fault);
            }
            WriteKind::Write | WriteKind::WriteBack => panic!("{id:?} has nothing to act"),
        }
        self.admit(now);
    }

    /// The next step of a write.
    pub fn poll_write(&mut self) -> Option<WriteReady> {
        self.log().did(|| PathCall::PollWrite);
        let ready = self.steps.pop_front();
        let Self { cache, writes, .. } = self;
        cache.log().gave(|| {
            let fills = |id| writes.get(id).map_or_else(Vec::new, |write| write.fills.clone());
            PathOutput::Step(ready.map(|ready| (ready, fills(ready.id))))
        });
        ready
    }

    /// Where a write goes that is to be [filled](WriteStep::Fill), page by page.
    #[must_use]
    pub fn fills(&self, id: WriteId) -> &[WriteFill] {
        let write = self.writes.get(id).expect("the write is not over");
        assert!(write.state == WriteState::Filling, "{id:?} is not to be filled");
        &write.fills
    }

    /// How many pages of the file the device does not have yet: dirty, or being written.
    #[must_use]
    pub fn dirty_pages(&self, file: FileId) -> Pages {
        let books = self.files.get(file).and_then(|file| file.debts.as_ref());
        Pages(books.map_or(0, |books| books.owed))
    }

    /// How many frames writes hold, in all files: dirty, being filled, being written.
    #[must_use]
    pub fn dirty(&self) -> Pages {
        Pages(self.room.used())
    }

    /// The frames of a request that was dispatched and has not completed, in the order of its
    /// pages: to read into, or to write from.
    pub fn io_frames(&self, tag: Tag) -> impl Iterator<Item = Frame> {
        let flying = self.flying.get(tag).expect("the request is in flight");
        flying.request.load.frames()
    }

    /// All that a file owes.
    pub(super) fn all_debts(&self, file: FileId) -> Vec<DirtyId> {
        let Some(books) = self.files.get(file).and_then(|file| file.debts.as_ref()) else {
            return Vec::new();
        };
        DirtyList::ALL.into_iter().flat_map(|on| self.debts.list(books, on)).collect()
    }

    /// The page of a debt.
    pub(super) fn page_owed(&self, id: DirtyId) -> PageIndex {
        self.debts.get(id).page
    }

    /// Whether the driver has been told to fill, and has not answered yet; or to act.
    pub(crate) fn awaits_driver(&self, id: WriteId, is_act: bool) -> bool {
        let wants = if is_act { WriteState::Acting } else { WriteState::Filling };
        self.writes.get(id).is_some_and(|write| write.state == wants)
            && !self.steps.iter().any(|ready| ready.id == id)
    }

    fn add_write(&mut self, write: WriteCommand) -> WriteId {
        let file = self.files.get_mut(write.file).expect("the file is open");
        file.writes += 1;
        self.writes.insert(write)
    }

    /// The driver is to do something; the write waits for no device meanwhile.
    fn post(&mut self, id: WriteId, state: WriteState, step: WriteStep) {
        self.set_watched(id, false);
        self.writes.get_mut(id).expect("a write").state = state;
        self.steps.push_back(WriteReady { id, step });
    }

    /// The write goes on when a device has done something.
    fn wait(&mut self, id: WriteId, state: WriteState) {
        self.set_watched(id, true);
        self.writes.get_mut(id).expect("a write").state = state;
    }

    fn set_watched(&mut self, id: WriteId, is_watched: bool) {
        let write = self.writes.get_mut(id).expect("a write");
        match (write.is_watched, is_watched) {
            (false, true) => {
                // The wait for a write does not tell when earlier reads ended.
                self.watch.begin_without_a_look(self.clock);
            }
            (true, false) => self.watch.end(),
            (false, false) | (true, true) => {}
        }
        write.is_watched = is_watched;
    }

    /// It is over. What it had (room, frames, pages) it has given back.
    fn end_write(&mut self, id: WriteId, len: ByteCount, fault: Option<Fault>) {
        self.set_watched(id, false);
        let write = self.writes.remove(id).expect("each write ends once");
        assert!(write.room == 0, "{id:?} ends with room in hand");
        assert!(write.fresh.is_empty(), "{id:?} ends with frames in hand");
        self.steps.push_back(WriteReady { id, step: WriteStep::Done { len, fault } });
        self.files.get_mut(write.file).expect("a file outlives its writes").writes -= 1;
        self.end_if_over(write.file);
    }

    /// What the write waited for has ended, well or not.
    ///
    /// Nothing is started here: what starts could get the frame whose waiters are being woken, for
    /// another page, and would be woken with them.
    pub(super) fn wake_write(&mut self, id: WriteId, fault: Option<Fault>) {
        let write = self.writes.get_mut(id).expect("a write that waits is not over");
        write.fault = write.fault.or(fault);
        write.outstanding -= 1;
        if write.outstanding > 0 {
            return;
        }
        let (len, fault) = (write.len, write.fault);
        match (write.kind, write.state) {
            (WriteKind::Write, WriteState::Reading) => self.has_old_bytes(id),
            (WriteKind::Write, WriteState::Device) => self.end_write(id, len, fault),
            (WriteKind::Zero, WriteState::Device) => self.start_act(id),
            (kind, state) => panic!("{id:?}, a {kind:?}, waits in {state:?}"),
        }
    }
}

impl WriteCommand {
    fn new(file: FileId, kind: WriteKind) -> Self {
        let nothing = PageIndex(0)..PageIndex(0);
        Self {
            file,
            kind,
            state: WriteState::Locked,
            pages: nothing,
            blockers: 0,
            outstanding: 0,
            fault: None,
            pos: ByteCount::ZERO,
            asked: ByteCount::ZERO,
            len: ByteCount::ZERO,
            mode: WriteMode::WriteBack,
            submitter: Submitter::default(),
            room: 0,
            fresh: Vec::new(),
            fills: Vec::new(),
            epoch: 0,
            command: None,
            covers: FlushInterval::default(),
            accepts: 0,
            is_discard: false,
            is_watched: false,
        }
    }
}
