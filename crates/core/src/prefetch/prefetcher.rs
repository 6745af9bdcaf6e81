//! The prefetcher of a path: one question, one answer.
//!
//! In:    a reader that misses a page or met a marker ([`Asker`]), and the cache's room.
//! Out:   a [`Plan`]; frames made free for it before it is decided.
//! Never: a request, a fill. What the plan says is done by the page-in part, which then reports it
//!        ([`Prefetcher::submitted`]).
//!
//! ```text
//!   question --> its stream's share: window, distance --> cache: so many frames can be had
//!                                                             |
//!                         policy  <-- the smaller of the two -'
//!                           |
//!                           '--> plan --> (frames, requests) --> submitted
//! ```
//!
//! Why frames before the decision: a window that is cut afterwards has its marker in the wrong
//! place. Only `adaptive` shares the memory out; the other policies are asked at once.

use alloc::vec::Vec;
use core::fmt;

use super::asker::{Asker, PendingShare};
use super::decision::{Residency, Trigger, WindowLimits};
use super::hinted_frames::HintedFrames;
use super::known_runs::KnownRuns;
use super::learnt_device::LearntDevice;
use super::memory_shares::{MemoryShares, ShareId, ShareQuestion};
use super::policy::Policy;
use super::policy::rules::{AdaptivePart, Rules};
use super::stream_state::Advice;
use super::streams::Streams;
use super::walk::{Plan, PolicyMemory, ReadWalk};
use super::window_estimator::{EndedRead, KnownDisks, WindowEstimator};
use crate::cache::{FileResidency, PageCache};
use crate::device_model::{DeviceEstimator, DeviceModel};
use crate::geometry::Geometry;
use crate::sched::Submitter;
use crate::table::FileSlot;
use crate::units::{Nanos, PageIndex, Pages};

/// A submitter cannot have a weight of its own, because too many others have one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooManyWeights;

/// Decides what is read ahead, for all files of a path.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    pub(super) policy: Policy,
    pub(super) rules: Rules,
    /// The largest window that was set. Not looked at while it is learnt.
    pub(super) max_window: Pages,
    /// Whether the largest window is what is of use on its device.
    pub(super) is_window_learnt: bool,
    /// No window is larger: what one read may hold.
    pub(super) largest_read: Pages,
    pub(super) shares: MemoryShares,
    /// What policies remember that find streams by position, by the file's slot. Some bytes for a
    /// file without random reads and with few streams; at most [`Streams::BYTES_MAX`].
    pub(super) files: Vec<Streams>,
    /// By the device's number.
    pub(super) estimators: Vec<WindowEstimator>,
    pub(super) disks: KnownDisks,
    pub(super) runs: KnownRuns,
    pub(crate) hints: HintedFrames,
}

impl Prefetcher {
    /// Without files and devices. `max_window` is None if it is to be learnt.
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
            files: Vec::new(),
            estimators: Vec::new(),
            disks: KnownDisks::default(),
            runs: KnownRuns::default(),
            hints: HintedFrames::default(),
        }
    }

    /// The most pages that one read may hold.
    pub(crate) fn largest_read(&self) -> Pages {
        self.largest_read
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// The largest window: what was set, or what one read may hold.
    pub(crate) fn max_window(&self) -> Pages {
        self.max_window
    }

    /// Whether the largest window is what is of use on each device.
    pub(crate) fn is_window_learnt(&self) -> bool {
        self.is_window_learnt
    }

    /// Sets the largest window; None: it is learnt.
    pub(crate) fn set_max_window(&mut self, window: Option<Pages>) {
        self.is_window_learnt = window.is_none();
        self.max_window = window.map_or(self.largest_read, |window| window.min(self.largest_read));
    }

    /// Whether a part of `adaptive` is left out.
    pub(super) fn is_without(&self, part: AdaptivePart) -> bool {
        self.rules.without.has(part)
    }

    /// Whether pages that were read ahead are kept for their readers: only where the policy says
    /// how many there are.
    pub(crate) fn keeps_unread(&self) -> bool {
        self.policy == Policy::Adaptive && !self.is_without(AdaptivePart::Clip)
    }

    /// Whether its requests wait until no demand read does.
    pub(crate) fn defers_ahead(&self) -> bool {
        self.policy == Policy::Adaptive && !self.is_without(AdaptivePart::Order)
    }

    /// So many resident pages between two that are missing are read again, if that saves a request.
    pub(crate) fn bridge(&self, device: u32) -> Pages {
        let is_on = self.policy == Policy::Adaptive && !self.is_without(AdaptivePart::Gaps);
        if is_on { self.runs.bridge(device) } else { Pages::ZERO }
    }

    /// Sets the weight of a submitter's streams beside those of others.
    pub(crate) fn set_weight(
        &mut self,
        submitter: Submitter,
        weight: u32,
    ) -> Result<(), TooManyWeights> {
        self.shares.set_weight(submitter, weight).then_some(()).ok_or(TooManyWeights)
    }

    /// A device was added; what is known of its disk is where its estimate begins.
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

    /// What another run has learnt of a device is where its estimate begins, unless this one knows
    /// its disk.
    pub(crate) fn restore_device(
        &mut self,
        device: u32,
        (geometry, disk): (&Geometry, Option<u64>),
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

    /// What the next run should know of a device.
    pub(crate) fn learnt_device(&self, device: u32) -> Option<LearntDevice> {
        self.estimators.get(device as usize).filter(|_| self.is_window_learnt)?.learnt()
    }

    /// What reads of a device cost, as far as this run or another one knows.
    pub(crate) fn device_model(
        &self,
        device: u32,
        estimator: Option<&DeviceEstimator>,
    ) -> Option<DeviceModel> {
        let unused = DeviceEstimator::new();
        self.estimators.get(device as usize)?.model(estimator.unwrap_or(&unused))
    }

    /// A read request of a device has ended.
    pub(crate) fn read_ended(&mut self, device: u32, disk: Option<u64>, read: &EndedRead<'_>) {
        self.runs.read_ended(device, read.estimator);
        let estimator = &mut self.estimators[device as usize];
        let has_learnt = estimator.read_ended(read);
        if let Some(disk) = disk.filter(|_| has_learnt) {
            self.disks.set(disk, *estimator);
        }
    }

    /// A file was opened: nothing is known of its streams.
    pub(crate) fn open_file(&mut self, file: FileSlot) {
        let index = file.0 as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, Streams::default);
        }
        assert!(self.files[index].is_empty(), "a closed file's streams were forgotten");
    }

    /// A file is forgotten, and with it its streams.
    pub(crate) fn close_file(&mut self, file: FileSlot) {
        let streams = &mut self.files[file.0 as usize];
        streams.shares().for_each(|share| self.shares.end(share));
        streams.clear();
        self.runs.forget_file(file);
        debug_assert!(streams.is_empty(), "a closed file's streams are forgotten");
    }

    /// Whether a page was read ahead for a reader that may still come.
    pub(crate) fn is_live(&self, now: Nanos, file: FileSlot, page: PageIndex) -> bool {
        let is_live = |share| self.shares.is_live(now, share);
        self.files.get(file.0 as usize).is_some_and(|streams| streams.has_ahead(page, is_live))
    }

    /// Makes room in the cache for a hint of `missing` pages; pages of live streams stay.
    pub(crate) fn make_room_for_hint(&mut self, now: Nanos, missing: Pages, cache: &mut PageCache) {
        let room = cache.reclaim(missing, |file, page| self.is_live(now, file, page));
        self.hints.set_room(Some(room));
    }

    /// What is to be read because of a page that was met; `set_aside` frames are for the pages of
    /// the read itself that are still missing.
    pub(crate) fn plan(
        &mut self,
        asker: &mut Asker<'_>,
        (page, count, trigger): (PageIndex, Pages, Trigger),
        set_aside: Pages,
        cache: &mut PageCache,
    ) -> Option<Plan> {
        assert!(asker.pending.is_none(), "the last question was reported");
        let walk = self.walk_of(asker);
        let ask = walk.question(&mut asker.reader.stream, page, count, trigger);
        let decision = walk.without_policy(&asker.reader.stream, ask).or_else(|| {
            let limits = walk.window_limits(ask);
            let is_shared = self.policy == Policy::Adaptive;
            let ceilings = (limits.max, walk.common_limits().max);
            let allotment = is_shared.then(|| self.allot(asker, ask, ceilings, set_aside, cache));
            let file = &mut self.files[asker.file.0 as usize];
            let memory = PolicyMemory { stream: &mut asker.reader.stream, file };
            walk.ask_policy(memory, ask, limits, allotment, &cache.residency(asker.file))
        });
        let plan = decision.map(|decision| walk.plan(&mut asker.reader.stream, ask, decision));
        debug_assert!(
            plan.iter().all(|plan| plan.pages.is_empty() || plan.pages.end <= asker.file_end),
            "a plan ends with its file"
        );
        plan
    }

    /// What came of a plan, or of the answer that nothing is to be read: `pages` were requested; of
    /// those from `cut_at` on, if there is one, nothing.
    pub(crate) fn submitted(
        &mut self,
        asker: &mut Asker<'_>,
        pages: Pages,
        cut_at: Option<PageIndex>,
        cache: &mut PageCache,
    ) {
        ReadWalk::submitted(&mut asker.reader.stream, pages);
        let pending = asker.pending.take();
        if self.policy != Policy::Adaptive {
            return;
        }
        self.count_runs(asker, cache);
        let file = &mut self.files[asker.file.0 as usize];
        while let Some(share) = file.take_dropped() {
            self.shares.end(share);
        }
        let Some(PendingShare { share: asked, question, page, unclipped }) = pending else {
            return;
        };
        if let Some(end) = cut_at {
            file.cut_latest(end, &cache.residency(asker.file));
        }
        // The next window grows from what this one would have been.
        if let Some(pace) = unclipped {
            file.quicken_latest(pace);
        }
        let mut is_unread = |file, page| cache.is_unread(file, page) == Some(true);
        let met = file.latest(page, asker.file_end, |page| is_unread(asker.file, page));
        let Some(met) = met else { return };
        let share = if met.share == ShareId::NONE {
            let question = ShareQuestion { page: met.position, ..question };
            let share = self.shares.begin(question);
            file.set_share(share);
            share
        } else if asked == Some(met.share) {
            met.share
        } else {
            return;
        };
        let last_page = met.last_page.map(|page| (asker.file, page));
        self.shares.set_ahead(asker.now, share, met.ahead, last_page);
        self.shares.look_at_ends(asker.now, is_unread);
    }

    /// Checks that each stream's share is counted once, and that sums and shares agree.
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

    /// What the policies need to know of the reader.
    fn walk_of(&self, asker: &Asker<'_>) -> ReadWalk {
        let advice = asker.reader.advice;
        let largest = self.largest_read;
        let is_learnt = self.is_window_learnt;
        let max = if is_learnt {
            self.estimators[asker.device as usize].window().min(largest)
        } else {
            self.max_window
        };
        // Twice as much for a sequential stream, but no more than one read may hold, and no more
        // than is of use. Where that is one page, half of it would be none.
        let max = match advice {
            Advice::Sequential if is_learnt => Pages((max.0 / 2).max(1)),
            Advice::Sequential => max.min(Pages(largest.0 / 2)),
            Advice::Normal | Advice::Random => max,
        };
        ReadWalk {
            policy: self.policy,
            limits: WindowLimits { max, io_pages: asker.max_io.min(largest) },
            prev_pos: asker.prev_pos,
            end: asker.file_end,
            advice,
            rules: self.rules,
        }
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
    /// So many submitters may have a weight of their own.
    pub const MOST: usize = MemoryShares::MOST_WEIGHTS;
}

impl fmt::Display for TooManyWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = Self::MOST;
        write!(f, "{most} submitters have a weight: give one of them 0 to make room for another")
    }
}

impl core::error::Error for TooManyWeights {}
