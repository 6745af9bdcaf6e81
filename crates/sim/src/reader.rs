//! A reader: one process's open file.
//!
//! In:    reads.
//! Out:   how much each came to, when it is there.
//! Never: other hits than the real engine's. What is resident is used, and its marker taken, before
//!        the path hears of the rest; a full hit takes no time.

use std::cell::Cell;
use std::rc::Rc;

use foreread_core::path::{Fault, IoPath, StreamId};
use foreread_core::prefetch::Advice;
use foreread_core::sched::Submitter;
use foreread_core::units::{ByteCount, PageIndex, Pages};

use crate::process::Process;
use crate::run::{RunState, SimFile};
use crate::world::{SimWorld, TaskCompletion};

/// An open file of a process, with a stream of its own, or one that it shares.
#[derive(Debug)]
pub struct SimReader {
    process: Process,
    file: SimFile,
    stream: Rc<SimStream>,
    submitter: Cell<Submitter>,
}

/// What readers share that are one open file in several processes.
#[derive(Debug)]
struct SimStream {
    shared: Rc<RunState>,
    id: StreamId,
    prev_pos: Cell<Option<ByteCount>>,
    advice: Cell<Advice>,
}

impl SimReader {
    pub(crate) fn new(process: Process, file: SimFile) -> Self {
        let (submitter, shared) = (Cell::new(process.submitter()), Rc::clone(&process.shared));
        let id = process.world(|world| world.new_stream(file.id, process.meter));
        let (prev_pos, advice) = (Cell::new(None), Cell::new(Advice::Normal));
        let stream = Rc::new(SimStream { shared, id, prev_pos, advice });
        Self { process, file, stream, submitter }
    }

    /// The same open file in the hands of another process: what one reads, the other follows.
    #[must_use]
    pub fn shared_with(&self, process: &Process) -> Self {
        let (process, submitter) = (process.clone(), Cell::new(process.submitter()));
        Self { process, file: self.file, stream: Rc::clone(&self.stream), submitter }
    }

    /// How long the file is.
    #[must_use]
    pub fn len(&self) -> ByteCount {
        self.file.len
    }

    /// Whether it has nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.file.len == ByteCount::ZERO
    }

    /// Says how it will read, from now on.
    pub fn advise(&self, advice: Advice) {
        self.stream.advice.set(advice);
        self.process.world(|world| world.path.advise(self.stream.id, advice));
    }

    /// Says that the next read follows a seek.
    pub fn seeked(&self) {
        self.process.world(|world| world.path.seeked(self.stream.id));
    }

    /// Says for whom it reads, if not for its process.
    pub fn set_submitter(&self, submitter: Submitter) {
        self.submitter.set(submitter);
    }

    /// How many pages the device was asked for that it had been asked for before, by a reader that
    /// reads from the start of its file on and leaves nothing out.
    #[must_use]
    pub fn read_twice(&self) -> Pages {
        self.process.world(|world| world.read_twice(self.stream.id))
    }

    /// Asks for a range that will be read, and does not wait for it.
    pub fn will_need(&self, pos: ByteCount, len: ByteCount) {
        let (start, end) = (pos.page(), PageIndex((pos + len).pages_up().0));
        self.process.world(|world| {
            world.path.will_need(world.now(), self.file.id, start, end - start);
            world.pump();
        });
    }

    /// Whether the page at `pos` is cached and can be used at once.
    #[must_use]
    pub fn is_resident(&self, pos: ByteCount) -> bool {
        let slot = IoPath::slot(self.file.id);
        self.process.world(|world| {
            let found = world.table.look_up(slot, pos.page());
            found.is_some_and(|found| found.entry().is_up_to_date())
        })
    }

    /// Forgets what is cached of a range: its whole pages.
    pub fn forget(&self, pos: ByteCount, len: ByteCount) {
        let (start, end) = (PageIndex(pos.pages_up().0), (pos + len).page());
        self.process.world(|world| {
            world.path.invalidate(world.now(), self.file.id, start..end.max(start));
            world.pump();
        });
    }

    /// Forgets the pages that a read came to the end of.
    pub fn forget_read(&self, pos: ByteCount, got: ByteCount) {
        let start = pos.page().offset();
        self.forget(start, pos + got - start);
    }

    /// Reads, and says how many bytes the file had of it. The process's meter counts it.
    ///
    /// # Errors
    ///
    /// What went wrong.
    pub async fn read(&self, pos: ByteCount, len: ByteCount) -> Result<ByteCount, Fault> {
        let began = self.process.now();
        let wanted = len.min(self.file.len.saturating_sub(pos));
        let mut done = self.process.world(|world| self.hit(world, pos, wanted, len));
        while done < wanted {
            let (pos, rest) = (pos + done, len - done);
            self.process.world(|world| {
                let (now, prev_pos) = (world.now(), self.stream.prev_pos.get());
                world.path.set_submitter(self.stream.id, self.submitter.get());
                let id = world.path.read(now, self.stream.id, pos, rest, prev_pos);
                world.expect_read(id, self.process.task);
                world.pump();
            });
            let TaskCompletion::Read(ready) = self.process.answer().await else {
                panic!("it asked for a read")
            };
            self.process.world(|world| {
                world.path.release(world.now(), ready.id);
                world.pump();
            });
            if let Some(fault) = ready.fault {
                return Err(fault);
            }
            assert!(ready.len > ByteCount::ZERO, "a file does not shrink here");
            done += ready.len;
        }
        if wanted > ByteCount::ZERO {
            self.stream.prev_pos.set(Some(pos + wanted));
        }
        self.process.meter(|meter, now| {
            meter.op(began, now, wanted);
            // A hit takes no time: whatever passed was spent waiting.
            meter.waited_ns += now.0 - began.0;
        });
        Ok(wanted)
    }

    /// Uses what is resident from the start of a read on, and says how much that was. The markers
    /// on it are told to the path.
    fn hit(
        &self,
        world: &mut SimWorld,
        pos: ByteCount,
        wanted: ByteCount,
        len: ByteCount,
    ) -> ByteCount {
        let slot = IoPath::slot(self.file.id);
        let asked_end = PageIndex((pos + len).pages_up().0);
        let mut markers = [None; MOST_MARKERS];
        let mut met = 0;
        let mut page = pos.page();
        let mut done = ByteCount::ZERO;
        let mut continues = page.offset() < pos && self.stream.prev_pos.get() == Some(pos);
        while done < wanted {
            let Some(found) = world.table.look_up(slot, page) else { break };
            if !found.entry().is_up_to_date() {
                break;
            }
            found.touch(continues);
            let takes_markers = self.stream.advice.get() != Advice::Random && met < MOST_MARKERS;
            if takes_markers && found.take_marker() {
                markers[met] = Some(page);
                met += 1;
            }
            page = page + Pages(1);
            done = (page.offset() - pos).min(wanted);
            continues = false;
        }
        if met > 0 {
            world.path.set_submitter(self.stream.id, self.submitter.get());
        }
        for page in markers.into_iter().flatten() {
            let (now, prev_pos) = (world.now(), self.stream.prev_pos.get());
            world.path.marker(now, self.stream.id, page, asked_end - page, prev_pos);
        }
        if met > 0 {
            world.pump();
        }
        done
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        // A run that ends drops its processes while the world is not borrowed.
        if let Ok(mut world) = self.shared.world.try_borrow_mut() {
            world.path.close_stream(self.id);
        }
    }
}

/// As the engine: a read clears so many markers and leaves any others for the next.
const MOST_MARKERS: usize = 8;
