//! Run lengths of streams, by file and by device, and the cost of a request in pages of transfer.
//!
//! [`super::run_ends`] derives windows from them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::run_lengths::{CountedRun, RunEnd, RunLengths, RunWay};
use super::streams::{StreamDirection, StreamEntry};
use crate::device_model::DeviceEstimator;
use crate::table::FileSlot;
use crate::units::{PAGE_SIZE, Pages};

/// Known run lengths.
#[derive(Debug, Default)]
pub(super) struct KnownRuns {
    /// Indexed by file slot; None until one of the file's streams has ended.
    pub(super) files: Vec<Option<Box<RunLengths>>>,
    /// Indexed by device number.
    pub(super) devices: Vec<DeviceRuns>,
}

/// Run lengths of one device.
#[derive(Debug, Default)]
pub(super) struct DeviceRuns {
    /// None until a stream with read-ahead has ended.
    pub(super) lengths: Option<Box<RunLengths>>,
    /// Cost of a request in pages of transfer, if known.
    pub(super) request: Option<f32>,
    /// Largest gap that is cheaper to read through than to skip: its transfer costs a busy device
    /// no more than one more request.
    pub(super) bridge: Pages,
    /// Reads completed since the costs were computed.
    ended: u8,
}

impl KnownRuns {
    /// Adds a device.
    pub(super) fn add_device(&mut self, device: u32) {
        let index = device as usize;
        if index < self.devices.len() {
            self.devices[index] = DeviceRuns::default();
        } else {
            self.devices.push(DeviceRuns::default());
        }
    }

    /// Drops the run lengths of a file that was closed or is new.
    pub(super) fn forget_file(&mut self, file: FileSlot) {
        if let Some(known) = self.files.get_mut(file.0 as usize) {
            *known = None;
        }
    }

    /// Records a completed read.
    pub(super) fn read_ended(&mut self, device: u32, estimator: Option<&DeviceEstimator>) {
        let known = &mut self.devices[device as usize];
        known.ended += 1;
        if known.ended >= LOOK_EVERY {
            known.ended = 0;
            known.request = estimator.and_then(request_pages).or(known.request);
            known.bridge = bridge_pages(known.request, estimator);
        }
    }

    /// Returns the number of pages whose transfer costs no more than a request of the device.
    pub(super) fn bridge(&self, device: u32) -> Pages {
        self.devices[device as usize].bridge
    }

    fn of_file(&mut self, file: FileSlot) -> &mut Option<Box<RunLengths>> {
        let index = file.0 as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, || None);
        }
        &mut self.files[index]
    }

    /// Takes back a counted stream that continues.
    pub(super) fn take_back(&mut self, device: u32, file: FileSlot, counted: CountedRun) {
        if counted.is_of_device()
            && let Some(known) = &mut self.devices[device as usize].lengths
        {
            known.take_back(counted);
        }
        if let Some(known) = self.of_file(file) {
            known.take_back(counted);
        }
    }

    /// Counts a stream. Only streams with read-ahead count for the device: random reads are
    /// different, and where they are frequent no window would ever begin.
    pub(super) fn add(
        &mut self,
        device: u32,
        file: FileSlot,
        entry: &StreamEntry,
        end: RunEnd,
    ) -> CountedRun {
        if !entry.is_random() {
            self.add_to_device(device, end);
        }
        let own = self.of_file(file).get_or_insert_default();
        match entry.way {
            _ if entry.is_random() => {}
            StreamDirection::FORWARDS => own.add_way(RunWay::Forwards),
            StreamDirection::BACKWARDS => own.add_way(RunWay::Backwards),
            _ => own.add_way(RunWay::Mixed),
        }
        let counted = own.add(end);
        if entry.is_random() { counted.of_file_only() } else { counted }
    }

    pub(super) fn add_to_device(&mut self, device: u32, end: RunEnd) {
        self.devices[device as usize].lengths.get_or_insert_default().add(end);
    }
}

/// Returns the cost of a request in pages of transfer. The parallelism of the device cancels out.
#[expect(clippy::cast_possible_truncation, reason = "a ratio")]
fn request_pages(estimator: &DeviceEstimator) -> Option<f32> {
    let known = estimator.model().or_else(|| estimator.busy_model())?;
    let page_ns = known.per_kib_ns? * (PAGE_SIZE / 1024) as f64;
    let request_ns = known.per_request_ns.max(ASKING_NS);
    Some((request_ns / page_ns.max(1.0)).min(REQUEST_MAX) as f32)
}

/// Returns the number of pages worth transferring in vain to save a request. If the device serves
/// several requests at once, a saved request is worth only its share of the time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few pages")]
fn bridge_pages(request: Option<f32>, estimator: Option<&DeviceEstimator>) -> Pages {
    let parallel = estimator.map_or(1, DeviceEstimator::min_parallel);
    Pages((request.unwrap_or(0.0) / parallel.max(1) as f32) as u64)
}

/// Reads between two updates; devices change slowly.
const LOOK_EVERY: u8 = 8;

/// A few system calls.
const ASKING_NS: f64 = 5_000.0;

/// Upper bound: a request costs no more than a transfer of 1 GiB.
const REQUEST_MAX: f64 = (1 << 18) as f64;
