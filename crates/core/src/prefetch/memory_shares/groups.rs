//! Divides the memory among submitters by weight, and among their streams by rate.
//!
//! It keeps sums only, no list of streams.

use alloc::vec::Vec;

use crate::sched::Submitter;
use crate::units::Pages;

/// Submitters with weights, and one common group for all others.
#[derive(Debug)]
pub(super) struct SubmitterGroups {
    /// The first is the common group.
    groups: Vec<SubmitterGroup>,
}

#[derive(Clone, Debug, Default)]
struct SubmitterGroup {
    submitter: Option<Submitter>,
    weight: u32,
    sums: DemandSums,
    /// Memory of the group when it was last divided.
    budget: u64,
    is_settled: bool,
}

/// Contribution of one stream to the sums.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct ShareDemand {
    /// 1, or 0 if the stream is as good as gone.
    pub(super) streams: u64,
    /// Square root of its rate.
    pub(super) weight: u64,
    /// The rate was measured.
    pub(super) is_known: bool,
    /// Upper bound of its memory: two windows of the largest useful size.
    pub(super) demand: u64,
    pub(super) distance: u64,
    pub(super) is_capped: bool,
    pub(super) ceiling: u64,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct DemandSums {
    streams: u64,
    /// Sum over the streams below their ceiling.
    weight: u64,
    /// Sum of the windows of the streams at their ceiling.
    capped: u64,
    /// Number of streams with a measured rate.
    known: u64,
    known_weight: u64,
    demand: u64,
    distance: u64,
}

/// Memory of one group and the sums of its streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupMemory {
    memory: u64,
    sums: DemandSums,
}

impl SubmitterGroups {
    pub(super) const fn new() -> Self {
        Self { groups: Vec::new() }
    }

    /// The group of all submitters without a weight.
    pub(super) const COMMON: u8 = 0;

    /// Sets the weight of a submitter. Returns false if there are too many.
    pub(super) fn set_weight(&mut self, submitter: Submitter, weight: u32) -> bool {
        self.begin();
        let (submitter, weight) = (Some(submitter), weight.clamp(1, MOST_WEIGHT));
        let own = self.groups.iter().position(|group| group.submitter == submitter);
        let free = || self.groups[1..].iter().position(|group| group.submitter.is_none());
        if let Some(at) = own.or_else(|| free().map(|at| at + 1)) {
            (self.groups[at].submitter, self.groups[at].weight) = (submitter, weight);
            return true;
        }
        debug_assert!(self.groups[0].submitter.is_none(), "the first group is the common one");
        let has_room = self.groups.len() <= MOST_WEIGHTS;
        if has_room {
            self.groups.push(SubmitterGroup { submitter, weight, ..SubmitterGroup::default() });
        }
        has_room
    }

    /// Removes the weight of a submitter. Returns the group of its streams.
    pub(super) fn forget(&mut self, submitter: Submitter) -> Option<u8> {
        let at = self.groups.iter().position(|group| group.submitter == Some(submitter))?;
        assert!(at > 0, "the common group has no submitter of its own");
        self.groups[at].submitter = None;
        Some(u8::try_from(at).expect("there are at most MOST_WEIGHTS groups and one"))
    }

    /// Returns the number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns the sums of a group.
    pub(super) fn sums(&self, group: usize) -> &DemandSums {
        &self.groups[group].sums
    }

    fn begin(&mut self) {
        if self.groups.is_empty() {
            self.groups.push(SubmitterGroup { weight: 1, ..SubmitterGroup::default() });
        }
    }

    /// Returns the group of a submitter.
    pub(super) fn of(&mut self, submitter: Submitter) -> u8 {
        self.begin();
        let own = self.groups.iter().position(|group| group.submitter == Some(submitter));
        u8::try_from(own.unwrap_or(0)).expect("there are at most MOST_WEIGHTS groups and one")
    }

    /// Replaces a stream's contribution, or moves it to another group.
    pub(super) fn change(&mut self, from: u8, before: ShareDemand, to: u8, after: ShareDemand) {
        self.groups[usize::from(from)].sums.take(&before);
        self.groups[usize::from(to)].sums.add(&after);
    }

    /// Returns the mean weight of its streams, if any of them has a measured rate.
    pub(super) fn known_weight(&self, group: u8) -> Option<u64> {
        let sums = &self.groups[usize::from(group)].sums;
        (sums.known > 0).then(|| sums.mean_weight())
    }

    /// Returns the weight of a stream without a measured rate: the mean.
    pub(super) fn mean_weight(&self, group: u8) -> u64 {
        self.groups[usize::from(group)].sums.mean_weight()
    }

    /// Returns the memory and the sums of one group.
    pub(super) fn room(&mut self, group: u8, memory: Pages) -> GroupMemory {
        let memory = memory.0 - memory.0 / SPARE_DENOM;
        if self.groups.len() == 1 {
            return GroupMemory { memory, sums: self.groups[0].sums };
        }
        self.share_out(memory);
        let group = &self.groups[usize::from(group)];
        GroupMemory { memory: group.budget, sums: group.sums }
    }

    /// Divides the memory by weight; a group's surplus goes to the others.
    ///
    /// ```text
    ///   weights 1, 1, 2; the first needs little
    ///   by weight    |=======|=======|===============|
    ///   result       |==|=========|==================|
    /// ```
    fn share_out(&mut self, memory: u64) {
        let mut left = memory;
        let mut weights = 0;
        for group in &mut self.groups {
            group.is_settled = group.sums.streams == 0;
            group.budget = 0;
            weights += if group.is_settled { 0 } else { u64::from(group.weight) };
        }
        let mut has_changed = true;
        while has_changed && weights > 0 {
            has_changed = false;
            for group in self.groups.iter_mut().filter(|group| !group.is_settled) {
                let weight = u64::from(group.weight);
                if group.sums.demand * weights <= left * weight {
                    group.budget = group.sums.demand;
                    group.is_settled = true;
                    left -= group.budget;
                    weights -= weight;
                    has_changed = true;
                }
            }
        }
        let open = |group: &&mut SubmitterGroup| !group.is_settled;
        for group in self.groups.iter_mut().filter(open) {
            group.budget = left * u64::from(group.weight) / weights;
        }
        let shared: u64 = self.groups.iter().map(|group| group.budget).sum();
        debug_assert!(shared <= memory, "{shared} pages of {memory} are shared out");
        // A group without streams may start one: it is entitled to its weight.
        let all = self.groups.iter().filter(|group| group.sums.streams > 0);
        let all: u64 = all.map(|group| u64::from(group.weight)).sum();
        for group in self.groups.iter_mut().filter(|group| group.sums.streams == 0) {
            let weight = u64::from(group.weight);
            group.budget = memory * weight / (all + weight);
        }
    }
}

impl DemandSums {
    pub(super) fn add(&mut self, part: &ShareDemand) {
        self.streams += part.streams;
        self.demand += part.demand;
        self.distance += part.distance;
        if part.is_known {
            self.known += 1;
            self.known_weight += part.weight;
        }
        if part.is_capped {
            self.capped += part.ceiling;
        } else {
            self.weight += part.weight;
        }
    }

    fn take(&mut self, part: &ShareDemand) {
        self.streams -= part.streams;
        self.demand -= part.demand;
        self.distance -= part.distance;
        if part.is_known {
            self.known -= 1;
            self.known_weight -= part.weight;
        }
        if part.is_capped {
            self.capped -= part.ceiling;
        } else {
            self.weight -= part.weight;
        }
    }

    fn mean_weight(&self) -> u64 {
        self.known_weight.checked_div(self.known).unwrap_or(0).max(1)
    }
}

impl GroupMemory {
    /// Returns true if the memory does not suffice for two full windows of every stream.
    pub(super) fn is_short(&self) -> bool {
        self.sums.demand > self.memory
    }

    /// Returns the group without one of its streams, except for the sum of distances, which covers
    /// all.
    pub(super) fn without(mut self, part: &ShareDemand) -> Self {
        let distance = self.sums.distance;
        self.sums.take(part);
        self.sums.distance = distance;
        self
    }

    /// Returns the group with one more stream.
    pub(super) fn with_one_more(mut self, ceiling: Pages) -> Self {
        self.sums.demand += 2 * ceiling.0;
        self
    }

    pub(super) fn mean_weight(&self) -> u64 {
        self.sums.mean_weight()
    }

    /// Returns the window of one more stream of this weight.
    ///
    /// A window is full when it was read and empty when the next is requested, so it holds half of
    /// its pages on average: all windows together may be twice the memory.
    pub(super) fn window_of(&self, weight: u64) -> Pages {
        debug_assert!(self.all_distances() <= self.memory, "distances have a part of the memory");
        let spare = self.memory - self.all_distances();
        let spare = (2 * spare).saturating_sub(self.sums.capped);
        let weights = u128::from(self.sums.weight) + u128::from(weight);
        let window = u128::from(spare) * u128::from(weight) / weights.max(1);
        Pages(u64::try_from(window).expect("a part of the memory fits the number of its pages"))
    }

    /// Returns the memory for all distances: at most a quarter, or a very slow device would turn
    /// all windows into distances.
    fn all_distances(&self) -> u64 {
        self.sums.distance.min(self.memory / DISTANCES_DENOM)
    }

    /// Returns a stream's part of the prefetch distance that it requested.
    pub(super) fn distance_of(&self, distance: u32) -> Pages {
        let distance = u128::from(distance) * u128::from(self.all_distances());
        let distance = distance.checked_div(u128::from(self.sums.distance)).unwrap_or(0);
        Pages(u64::try_from(distance).expect("a part of the memory fits the number of its pages"))
    }
}

/// One page in 24 is spare: windows are whole pages, rates are estimates, and consumed pages are
/// found with a delay. With half as much, more windows are cut.
const SPARE_DENOM: u64 = 24;

/// Distances get a quarter of the memory at most; windows get the rest.
const DISTANCES_DENOM: u64 = 4;

/// Largest number of submitters with weights. Each question scans them all.
pub(super) const MOST_WEIGHTS: usize = 16;

/// A ratio of a hundred is plenty, a thousand all the more.
const MOST_WEIGHT: u32 = 1000;
