//! A reader: an open file of a process. Hits follow the engine: the reader uses resident pages and
//! takes their markers before it calls the path for the rest. A full hit takes no time.

use std::cell::Cell;
use std::rc::Rc;

use foreread_core::path::{Fault, IoPath, StreamId};
use foreread_core::prefetch::Advice;
use foreread_core::sched::Submitter;
use foreread_core::units::{ByteCount, PageIndex, Pages, SECTOR_SIZE};

use crate::process::Process;
use crate::run_state::{RunState, SimFile};
use crate::world::{SimWorld, TaskCompletion};

/// An open file of a process, with a private or a shared stream.
#[derive(Debug)]
pub struct SimReader {
    process: Process,
    file: SimFile,
    stream: Rc<SimStream>,
    submitter: Cell<Submitter>,
}

/// Stream of an open file; readers of several processes may share it.
#[derive(Debug)]
struct SimStream {
    state: Rc<RunState>,
    id: StreamId,
    prev_pos: Cell<Option<ByteCount>>,
    advice: Cell<Advice>,
}

impl Process {
    /// Opens a file with a new stream.
    #[must_use]
    pub fn open(&self, file: SimFile) -> SimReader {
        SimReader::new(self.clone(), file)
    }
}

impl SimReader {
    fn new(process: Process, file: SimFile) -> Self {
        let (submitter, state) = (Cell::new(process.submitter()), Rc::clone(process.state()));
        let id = process.world(|world| world.new_stream(file.id, process.meter_index()));
        let (prev_pos, advice) = (Cell::new(None), Cell::new(Advice::Normal));
        let stream = Rc::new(SimStream { state, id, prev_pos, advice });
        Self { process, file, stream, submitter }
    }

    /// Creates a reader for another process on the same open file: both continue one stream.
    #[must_use]
    pub fn shared_with(&self, process: &Process) -> Self {
        let (process, submitter) = (process.clone(), Cell::new(process.submitter()));
        Self { process, file: self.file, stream: Rc::clone(&self.stream), submitter }
    }

    /// Returns the length of the file.
    #[must_use]
    pub fn len(&self) -> ByteCount {
        self.file.len
    }

    /// Returns true if the file is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.file.len == ByteCount::ZERO
    }

    /// Advises the path on the access pattern of later reads.
    pub fn advise(&self, advice: Advice) {
        self.stream.advice.set(advice);
        self.process.world(|world| world.path.advise(self.stream.id, advice));
    }

    /// Names its stream in the picture of the run, if one is recorded.
    pub(crate) fn name_in_picture(&self, thread: u32, file: u32) {
        let (slot, start) = (IoPath::slot(self.file.id), self.file.start.0 * SECTOR_SIZE);
        self.process.world(|world| {
            if let Some(picture) = &mut world.picture {
                picture.name(self.stream.id, (thread, file), slot, start);
            }
        });
    }

    /// Notifies the path that the next read follows a seek.
    pub fn seeked(&self) {
        self.process.world(|world| world.path.seeked(self.stream.id));
    }

    /// Sets the submitter of its reads, if it is not the process.
    pub fn set_submitter(&self, submitter: Submitter) {
        self.submitter.set(submitter);
    }

    /// Returns the number of pages requested twice from the device, for a reader that reads its
    /// file from the start without gaps.
    #[must_use]
    pub fn read_twice(&self) -> Pages {
        self.process.world(|world| world.read_twice(self.stream.id))
    }

    /// Requests a range that will be read, without waiting.
    pub fn will_need(&self, pos: ByteCount, len: ByteCount) {
        let (start, end) = (pos.page(), PageIndex((pos + len).pages_up().0));
        self.process.world(|world| {
            world.path.will_need(world.now(), self.file.id, start, end - start);
            world.pump();
        });
    }

    /// Returns true if the page at `pos` is cached and up to date.
    #[must_use]
    pub fn is_resident(&self, pos: ByteCount) -> bool {
        let slot = IoPath::slot(self.file.id);
        self.process.world(|world| {
            let found = world.table.look_up(slot, pos.page());
            found.is_some_and(|found| found.entry().is_up_to_date())
        })
    }

    /// Drops the whole pages of a range from the cache.
    pub fn forget(&self, pos: ByteCount, len: ByteCount) {
        let (start, end) = (PageIndex(pos.pages_up().0), (pos + len).page());
        self.process.world(|world| {
            let pages = start..end.max(start);
            if let Some(external) = &mut world.external {
                external.forget(IoPath::slot(self.file.id), pages.clone());
            }
            world.path.invalidate(world.now(), self.file.id, pages);
            world.pump();
        });
    }

    /// Drops the pages that a read has consumed completely.
    pub fn forget_read(&self, pos: ByteCount, got: ByteCount) {
        let start = pos.page().offset();
        self.forget(start, pos + got - start);
    }

    /// Reads and returns the number of bytes, less than `len` at the end of the file. The meter of
    /// the process counts the read.
    ///
    /// # Errors
    ///
    /// The device's fault.
    ///
    /// # Panics
    ///
    /// If another read or request of the process is in flight.
    pub async fn read(&self, pos: ByteCount, len: ByteCount) -> Result<ByteCount, Fault> {
        let began = self.process.now();
        let wanted = len.min(self.file.len.saturating_sub(pos));
        let mut done = self.process.world(|world| {
            if let Some(log) = &mut world.read_log {
                log.add(began, (self.file.device.index(), self.file.start), pos, wanted);
            }
            self.hit(world, pos, wanted, len)
        });
        while done < wanted {
            let (pos, rest) = (pos + done, len - done);
            self.process.world(|world| {
                let (now, prev_pos) = (world.now(), self.stream.prev_pos.get());
                let pages = pos.page()..PageIndex((pos + (wanted - done)).pages_up().0);
                if let Some(external) = &mut world.external {
                    external.note_uses(IoPath::slot(self.file.id), pages, &world.table);
                }
                world.path.set_submitter(self.stream.id, self.submitter.get());
                let id = world.path.read(now, self.stream.id, pos, rest, prev_pos);
                world.wait_for_read(id, self.process.task());
                world.pump();
            });
            let TaskCompletion::Read(ready) = self.process.completion().await else {
                unreachable!("the process waits for one request, which is a read")
            };
            self.process.world(|world| {
                world.path.release(world.now(), ready.id);
                world.pump();
            });
            if let Some(fault) = ready.fault {
                return Err(fault);
            }
            assert!(ready.len > ByteCount::ZERO, "a file of a run does not shrink");
            done += ready.len;
            debug_assert!(done <= wanted, "a read returns no more than was requested");
        }
        if wanted > ByteCount::ZERO {
            self.stream.prev_pos.set(Some(pos + wanted));
        }
        self.process.world(|world| {
            let now = world.now();
            if let Some(picture) = &mut world.picture {
                let slot = IoPath::slot(self.file.id);
                picture.end_read(now, slot, (pos, wanted), now > began);
            }
        });
        self.process.meter(|meter, now| {
            meter.op(began, now, wanted);
            // A hit takes no time, so any elapsed time was a wait.
            meter.waited_ns += now.0 - began.0;
        });
        Ok(wanted)
    }

    /// Consumes the resident pages at the start of a read, and returns their bytes. Reports their
    /// markers to the path.
    fn hit(
        &self,
        world: &mut SimWorld,
        pos: ByteCount,
        wanted: ByteCount,
        len: ByteCount,
    ) -> ByteCount {
        if let Some(picture) = &mut world.picture {
            picture.begin_read();
        }
        let slot = IoPath::slot(self.file.id);
        let requested_end = PageIndex((pos + len).pages_up().0);
        let mut markers = [None; MAX_MARKERS];
        let mut met = 0;
        let mut page = pos.page();
        let mut done = ByteCount::ZERO;
        let mut continues = page.offset() < pos && self.stream.prev_pos.get() == Some(pos);
        while done < wanted {
            let Some(found) = world.table.look_up(slot, page) else { break };
            if !found.entry().is_up_to_date() {
                break;
            }
            if let Some(picture) = world.picture.as_mut().filter(|_| found.entry().is_unused()) {
                picture.meet_unread(slot, page);
            }
            if let Some(external) = world.external.as_mut().filter(|_| !continues) {
                external.used(slot, page, found.entry().is_unused(), &world.table);
            }
            found.touch(continues);
            let takes_markers = self.stream.advice.get() != Advice::Random && met < MAX_MARKERS;
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
            world.path.marker(now, self.stream.id, page, requested_end - page, prev_pos);
        }
        if met > 0 {
            world.pump();
        }
        done
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        // The world is not borrowed when a run that ends drops its processes.
        if let Ok(mut world) = self.state.world.try_borrow_mut() {
            world.path.close_stream(self.id);
        }
    }
}

/// As in the engine: a read takes at most this many markers and leaves the rest for the next read.
const MAX_MARKERS: usize = 8;
