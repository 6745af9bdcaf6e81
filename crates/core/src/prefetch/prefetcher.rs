//! The prefetcher of an `IoPath`: turns a miss or a marker into a [`Plan`].
//!
//! It frees frames for a plan before deciding it, because a window that is cut afterwards has its
//! marker in the wrong place. `page_in` carries the plan out and reports the result
//! ([`Prefetcher::submitted`]).
//!
//! ```text
//!   question --> its stream's share: window, distance --> cache: frames that can be freed
//!                                                             |
//!                         policy  <-- the smaller of the two -'
//!                           |
//!                           '--> plan --> (frames, requests) --> submitted
//! ```
//!
//! Only `adaptive` divides the memory among streams; the other policies skip that step.

use alloc::vec::Vec;
use core::fmt;

use super::decision::{Allotment, Residency, WindowLimits};
use super::hinted_frames::HintedFrames;
use super::known_runs::KnownRuns;
use super::learnt_device::LearntDevice;
use super::memory_shares::{MemoryShares, ShareId};
use super::plan::{Plan, PolicyMemory, RuledPolicy};
use super::policy::Policy;
use super::policy::rules::{AdaptivePart, Rules};
use super::question::Question;
use super::stream_state::Advice;
use super::streams::Streams;
use super::window_estimator::{EndedRead, KnownDisks, WindowEstimator};
use crate::cache::{FileResidency, PageCache};
use crate::device_model::{DeviceEstimator, DeviceModel};
use crate::geometry::Geometry;
use crate::sched::Submitter;
use crate::table::FileSlot;
use crate::units::{Nanos, PageIndex, Pages};

/// Error: too many submitters already have weights.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooManyWeights;

/// Decides the read-ahead for all files of an `IoPath`.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    pub(super) policy: Policy,
    pub(super) rules: Rules,
    /// Largest window that was configured; ignored while the window is learnt.
    pub(super) max_window: Pages,
    /// The largest window is learnt for each device.
    pub(super) is_window_learnt: bool,
    /// Upper bound of any window: the most pages that one read may hold.
    pub(super) largest_read: Pages,
    pub(super) shares: MemoryShares,
    /// Share of the last question, until the outcome of its plan is reported.
    pub(super) pending: Option<PendingShare>,
    /// Stream tables of the policies that find streams by position, by file slot. A table has some
    /// bytes for a file with few streams and no random reads, and at most [`Streams::BYTES_MAX`].
    pub(super) files: Vec<Streams>,
    /// Indexed by device number.
    pub(super) estimators: Vec<WindowEstimator>,
    pub(super) disks: KnownDisks,
    pub(super) runs: KnownRuns,
    pub(crate) hints: HintedFrames,
}

/// A share with an answered question, until the outcome is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingShare {
    /// None for a stream that is not remembered.
    pub(super) share: Option<ShareId>,
    /// Size of the window before a clip or the stagger shortened it.
    pub(super) unclipped: Option<Pages>,
}

impl Prefetcher {
    /// Creates a prefetcher without files and devices. `max_window` is None if it is to be learnt.
    pub(crate) fn new(
        policy: Policy,
        rules: Rules,
        max_window: Option<Pages>,
        largest_read: Pages,
    ) -> Self {
        assert!(largest_read > Pages::ZERO, "a read may hold at least one page");
        Self {
            policy,
            rules,
            max_window: max_window.unwrap_or(largest_read).min(largest_read),
            is_window_learnt: max_window.is_none(),
            largest_read,
            shares: MemoryShares::new(),
            pending: None,
            files: Vec::new(),
            estimators: Vec::new(),
            disks: KnownDisks::default(),
            runs: KnownRuns::default(),
            hints: HintedFrames::default(),
        }
    }

    /// Returns the largest number of pages that one read may hold.
    pub(crate) fn largest_read(&self) -> Pages {
        self.largest_read
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Returns the largest window: the configured one, or the limit of one read.
    pub(crate) fn max_window(&self) -> Pages {
        self.max_window
    }

    /// Returns true if the largest window is learnt for each device.
    pub(crate) fn is_window_learnt(&self) -> bool {
        self.is_window_learnt
    }

    /// Sets the largest window; None to learn it.
    pub(crate) fn set_max_window(&mut self, window: Option<Pages>) {
        self.is_window_learnt = window.is_none();
        self.max_window = window.map_or(self.largest_read, |window| window.min(self.largest_read));
    }

    /// Returns true if a part of `adaptive` is switched off.
    pub(super) fn is_without(&self, part: AdaptivePart) -> bool {
        self.rules.without.has(part)
    }

    /// Returns true if prefetched pages are kept for their readers, which only a policy that limits
    /// their number can afford.
    pub(crate) fn keeps_unread(&self) -> bool {
        self.policy == Policy::Adaptive && !self.is_without(AdaptivePart::Clip)
    }

    /// Returns true if prefetch requests are held back behind demand reads.
    pub(crate) fn defers_ahead(&self) -> bool {
        self.policy == Policy::Adaptive && !self.is_without(AdaptivePart::Order)
    }

    /// Returns the number of resident pages between two missing ones that are worth reading again
    /// to save a request.
    pub(crate) fn bridge(&self, device: u32) -> Pages {
        let is_on = self.policy == Policy::Adaptive && !self.is_without(AdaptivePart::Gaps);
        if is_on { self.runs.bridge(device) } else { Pages::ZERO }
    }

    /// Sets the weight of a submitter's streams relative to others.
    pub(crate) fn set_weight(
        &mut self,
        submitter: Submitter,
        weight: u32,
    ) -> Result<(), TooManyWeights> {
        self.shares.set_weight(submitter, weight).then_some(()).ok_or(TooManyWeights)
    }

    /// Adds a device. Its estimate starts from the known one of its disk, if any.
    pub(crate) fn add_device(&mut self, device: u32, geometry: &Geometry, disk: Option<u64>) {
        let known = disk.and_then(|disk| self.disks.get(disk));
        let estimator = known.unwrap_or_else(|| WindowEstimator::new(geometry));
        self.runs.add_device(device);
        let index = device as usize;
        assert!(index <= self.estimators.len(), "devices are numbered without gaps");
        if index < self.estimators.len() {
            self.estimators[index] = estimator;
        } else {
            self.estimators.push(estimator);
        }
    }

    /// Restores the estimate of an earlier run, unless this run already knows the disk.
    pub(crate) fn restore_device(
        &mut self,
        device: u32,
        geometry: &Geometry,
        disk: Option<u64>,
        learnt: &LearntDevice,
    ) {
        if disk.is_some_and(|disk| self.disks.get(disk).is_some()) {
            return;
        }
        let estimator = WindowEstimator::restored(geometry, learnt);
        self.estimators[device as usize] = estimator;
        if let Some(disk) = disk {
            self.disks.set(disk, estimator);
        }
    }

    /// Returns the values of a device to remember for the next run.
    pub(crate) fn learnt_device(&self, device: u32) -> Option<LearntDevice> {
        self.estimators.get(device as usize).filter(|_| self.is_window_learnt)?.learnt()
    }

    /// Returns the cost of a device's reads, as measured in this run or an earlier one.
    pub(crate) fn device_model(
        &self,
        device: u32,
        estimator: Option<&DeviceEstimator>,
    ) -> Option<DeviceModel> {
        let unused = DeviceEstimator::new();
        self.estimators.get(device as usize)?.model(estimator.unwrap_or(&unused))
    }

    /// Records a completed read request.
    pub(crate) fn read_ended(&mut self, device: u32, disk: Option<u64>, read: &EndedRead<'_>) {
        self.runs.read_ended(device, read.estimator);
        let estimator = &mut self.estimators[device as usize];
        let has_learnt = estimator.read_ended(read);
        if let Some(disk) = disk.filter(|_| has_learnt) {
            self.disks.set(disk, *estimator);
        }
    }

    /// Adds a file, without any streams yet.
    pub(crate) fn open_file(&mut self, file: FileSlot) {
        let index = file.0 as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, Streams::default);
        }
        assert!(self.files[index].is_empty(), "a closed file's streams were forgotten");
    }

    /// Drops a file and its streams.
    pub(crate) fn close_file(&mut self, file: FileSlot) {
        let streams = &mut self.files[file.0 as usize];
        streams.shares().for_each(|share| self.shares.end(share));
        streams.clear();
        self.runs.forget_file(file);
        debug_assert!(streams.is_empty(), "a closed file's streams are forgotten");
    }

    /// Returns true if a page was prefetched for a reader that may still come.
    pub(crate) fn is_live(&self, now: Nanos, file: FileSlot, page: PageIndex) -> bool {
        let is_live = |share| self.shares.is_live(now, share);
        self.files.get(file.0 as usize).is_some_and(|streams| streams.has_ahead(page, is_live))
    }

    /// Makes room in the cache for a hint of `missing` pages; keeps the pages of live streams.
    pub(crate) fn make_room_for_hint(&mut self, now: Nanos, missing: Pages, cache: &mut PageCache) {
        let room = cache.reclaim(missing, |file, page| self.is_live(now, file, page));
        self.hints.set_room(Some(room));
    }

    /// Returns the pages to read for a page that the reader met.
    pub(crate) fn plan(
        &mut self,
        question: &mut Question<'_>,
        cache: &mut PageCache,
    ) -> Option<Plan> {
        assert!(self.pending.is_none(), "the last question was reported");
        let (ask, end) = (question.ask, question.file_end);
        let ruled = RuledPolicy { policy: self.policy, rules: self.rules };
        let common = self.common_limits(question);
        let limits = ruled.limits_of(ask, common);
        let Question { reader, .. } = question;
        let before = ruled.without_policy(&reader.stream, ask, reader.advice, limits);
        let decision = before.or_else(|| {
            let allotment = if self.policy == Policy::Adaptive {
                self.allot(question, limits.max, common.max, cache)
            } else {
                Allotment::whole(limits.max, None)
            };
            let file = &mut self.files[question.file.0 as usize];
            let memory = PolicyMemory { stream: &mut question.reader.stream, file };
            ruled.decide(memory, ask, limits, allotment, end, &cache.residency(question.file))
        });
        let stream = &mut question.reader.stream;
        let plan = decision.map(|decision| ruled.plan(stream, ask, decision, end));
        debug_assert!(
            plan.iter().all(|plan| plan.pages.is_empty() || plan.pages.end <= end),
            "a plan ends with its file"
        );
        plan
    }

    /// Reports the outcome of a plan, or of the answer to read nothing: `pages` were requested, and
    /// none from `cut_at` on, if that is given.
    pub(crate) fn submitted(
        &mut self,
        asked: &mut Question<'_>,
        pages: Pages,
        cut_at: Option<PageIndex>,
        cache: &mut PageCache,
    ) {
        asked.reader.stream.submitted(pages);
        let pending = self.pending.take();
        if self.policy != Policy::Adaptive {
            return;
        }
        self.count_runs(asked, cache);
        let file = &mut self.files[asked.file.0 as usize];
        while let Some(share) = file.take_dropped() {
            self.shares.end(share);
        }
        let Some(PendingShare { share: known, unclipped }) = pending else { return };
        if let Some(end) = cut_at {
            file.cut_latest(end, &cache.residency(asked.file));
        }
        // The next window grows from the full size of this one.
        if let Some(pace) = unclipped {
            file.quicken_latest(pace);
        }
        let mut is_unread = |file, page| cache.is_unread(file, page) == Some(true);
        let met = file.latest(asked.ask.page, asked.file_end, |page| is_unread(asked.file, page));
        let Some(met) = met else { return };
        let share = if met.share == ShareId::NONE {
            let share = self.shares.begin(asked, met.position);
            file.set_share(share);
            share
        } else if known == Some(met.share) {
            met.share
        } else {
            return;
        };
        let last_page = met.last_page.map(|page| (asked.file, page));
        self.shares.set_ahead(asked.now, share, met.ahead, last_page);
        self.shares.look_at_ends(asked.now, is_unread);
    }

    /// Checks that each stream's share is counted once, and that the sums match the shares.
    pub(crate) fn assert_consistent(&self) {
        let mut shares = 0;
        for streams in &self.files {
            streams.assert_consistent();
            for share in streams.shares() {
                assert!(self.shares.has(share), "a stream has {share:?}, which has ended");
                shares += 1;
            }
        }
        self.shares.assert_consistent();
        let counted = self.shares.count();
        assert!(shares == counted, "{shares} streams have a share, and {counted} are counted");
        assert!(self.max_window <= self.largest_read, "a window is no larger than a read");
    }

    /// Returns the window limits of small reads.
    fn common_limits(&self, question: &Question<'_>) -> WindowLimits {
        let advice = question.reader.advice;
        let largest = self.largest_read;
        let is_learnt = self.is_window_learnt;
        let max = if is_learnt {
            self.estimators[question.device as usize].window().min(largest)
        } else {
            self.max_window
        };
        // A sequential stream gets twice this maximum, so the maximum is halved to stay within one
        // read and the largest useful window. Half of one page would be none.
        let max = match advice {
            Advice::Sequential if is_learnt => Pages((max.0 / 2).max(1)),
            Advice::Sequential => max.min(Pages(largest.0 / 2)),
            Advice::Normal | Advice::Random => max,
        };
        advice.limits(WindowLimits { max, io_pages: question.max_io.min(largest) })
    }
}

impl Residency for FileResidency<'_> {
    #[inline]
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        FileResidency::history(self, page, limit)
    }

    #[inline]
    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        FileResidency::next_hole(self, page, limit)
    }
}

impl TooManyWeights {
    /// Largest number of submitters with weights.
    pub const MOST: usize = MemoryShares::MOST_WEIGHTS;
}

impl fmt::Display for TooManyWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = Self::MOST;
        write!(f, "{most} submitters have a weight: give one of them 0 to make room for another")
    }
}

impl core::error::Error for TooManyWeights {}
