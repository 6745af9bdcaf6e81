//! The log of a run: what was asked for, and the results, without access to the path.
//!
//! In:    the steps of a path.
//! Out:   each device's dispatches in their order, and which of them each direct request was in.
//! Never: a look into the path: only what was said to it and what it said.

use std::collections::{BTreeMap, BTreeSet};

use foreread_core::path::{DeviceIo, DirectId, ReadId, Tag};
use foreread_core::replay::{LogStep, PathCall, PathOutput};
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos, Sector, Sectors};

/// What a run did, request by request.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) dispatches: Vec<Dispatch>,
    pub(crate) directs: Vec<Direct>,
    /// Direct requests that shared a dispatch with others.
    pub(crate) merged: u64,
    reads: Vec<Read>,
    in_flight: BTreeMap<Tag, usize>,
}

/// A request that a device got.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) at: Nanos,
    pub(crate) device: u32,
    pub(crate) op: Op,
    pub(crate) is_direct: bool,
    start: Sector,
    sectors: Sectors,
    /// The direct requests in it.
    serves: Vec<usize>,
}

/// A direct request.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) arrival: Nanos,
    /// How many dispatches there had been.
    pub(crate) came_after: usize,
    pub(crate) device: u32,
    pub(crate) op: Op,
    start: Sector,
    sectors: Sectors,
    /// Which dispatch it was in.
    pub(crate) dispatch: Option<usize>,
}

#[derive(Debug)]
struct Read {
    asked: ByteCount,
    became: Option<ByteCount>,
    is_released: bool,
}

impl Log {
    /// Reads the steps; each thing that ends must have begun, and not have ended before.
    pub(crate) fn of(steps: &[LogStep]) -> Self {
        let mut log = Self::default();
        let mut reads: BTreeMap<ReadId, usize> = BTreeMap::new();
        let mut directs: BTreeMap<DirectId, usize> = BTreeMap::new();
        let mut now = Nanos(0);
        let mut completed = None;
        for step in steps {
            match step {
                LogStep::Did(PathCall::Read { len, .. }) => {
                    log.reads.push(Read { asked: *len, became: None, is_released: false });
                }
                LogStep::Gave(PathOutput::Read(id)) => {
                    let before = reads.insert(*id, log.reads.len() - 1);
                    assert_eq!(before, None, "a read's name is free again when it is released");
                }
                LogStep::Gave(PathOutput::Ready(Some((ready, _)))) => {
                    assert_eq!(ready.fault, None, "no device fails here");
                    let read = &mut log.reads[reads[&ready.id]];
                    assert_eq!(read.became.replace(ready.len), None, "a read is ready once");
                    assert!(ready.len <= read.asked, "no more than was asked for");
                }
                LogStep::Did(PathCall::Release { id, .. }) => {
                    let read = &mut log.reads[reads.remove(id).expect("a read is released once")];
                    assert!(read.became.is_some(), "what is released was ready");
                    read.is_released = true;
                }
                LogStep::Did(PathCall::Direct { now, device, start, sectors, origin }) => {
                    log.directs.push(Direct {
                        arrival: *now,
                        came_after: log.dispatches.len(),
                        device: device.index(),
                        op: origin.op,
                        start: *start,
                        sectors: *sectors,
                        dispatch: None,
                    });
                }
                LogStep::Gave(PathOutput::Direct(id)) => {
                    let before = directs.insert(*id, log.directs.len() - 1);
                    assert_eq!(before, None, "a request's name is free again when it has ended");
                }
                LogStep::Did(PathCall::PollDispatch { now: at }) => now = *at,
                LogStep::Gave(PathOutput::Dispatched(Some((io, frames)))) => {
                    log.dispatched(now, *io, frames.is_empty());
                }
                LogStep::Did(PathCall::Complete { tag, .. }) => {
                    let index = log.in_flight.remove(tag);
                    completed = Some(index.expect("each request completes once"));
                }
                // They are polled after each completion, before the next.
                LogStep::Gave(PathOutput::Done(Some(done))) => {
                    assert_eq!(done.fault, None, "no device fails here");
                    let index = directs.remove(&done.id).expect("a direct request ends once");
                    let dispatch = completed.expect("it ends with its dispatch");
                    log.directs[index].dispatch = Some(dispatch);
                    log.dispatches[dispatch].serves.push(index);
                }
                LogStep::Full => panic!("there is room for all steps"),
                LogStep::Did(_) | LogStep::Saw(..) | LogStep::Gave(_) => {}
            }
        }
        log.merged =
            log.dispatches.iter().map(|each| each.serves.len().saturating_sub(1) as u64).sum();
        log
    }

    fn dispatched(&mut self, at: Nanos, io: DeviceIo, is_direct: bool) {
        let before = self.in_flight.insert(io.tag, self.dispatches.len());
        assert_eq!(before, None, "each request in flight has a name of its own");
        self.dispatches.push(Dispatch {
            at,
            device: io.device.index(),
            op: io.op,
            is_direct,
            start: Sector(io.offset.0 / 512),
            sectors: Sectors(io.len.0 / 512),
            serves: Vec::new(),
        });
    }

    /// What must hold when nothing is left to do.
    pub(crate) fn check(&self) {
        assert!(self.in_flight.is_empty(), "each request that was dispatched completes");
        for read in &self.reads {
            assert!(read.is_released, "each read is ready, and released: {read:?}");
        }
        for direct in &self.directs {
            assert!(direct.dispatch.is_some(), "each direct request ends: {direct:?}");
        }
        for dispatch in self.dispatches.iter().filter(|dispatch| dispatch.is_direct) {
            self.check_covers(dispatch);
        }
    }

    /// A merged request is its parts: they go its way, and together they are as long as it is.
    ///
    /// ```text
    ///   |== first ==|=== second ===|= third =|       in whatever order they came
    /// ```
    fn check_covers(&self, dispatch: &Dispatch) {
        let parts = dispatch.serves.iter().map(|&index| &self.directs[index]);
        let mut by_start = BTreeSet::new();
        let mut sum = Sectors::ZERO;
        for part in parts {
            assert_eq!((part.device, part.op), (dispatch.device, dispatch.op));
            assert!(part.arrival <= dispatch.at, "nothing is dispatched before it comes");
            by_start.insert((part.start, part.sectors));
            sum += part.sectors;
        }
        assert_eq!(sum, dispatch.sectors, "{dispatch:?}");
        let mut end = dispatch.start;
        for (start, sectors) in by_start {
            assert_eq!(start, end, "{dispatch:?} has a gap");
            end = start + sectors;
        }
    }
}
