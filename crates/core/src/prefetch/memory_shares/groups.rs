//! Divides the memory: among submitters by weight, and among their streams by rate.
//!
//! In:    what each stream adds to the sums of its submitter.
//! Out:   the memory of a submitter, and of a stream its window and its distance ([`GroupMemory`]).
//! Never: a list of streams. The sums are all there is.

use alloc::vec::Vec;

use crate::sched::Submitter;
use crate::units::Pages;

/// The submitters with a weight of their own, and all others together.
#[derive(Debug)]
pub(super) struct SubmitterGroups {
    /// The first is the common one.
    groups: Vec<SubmitterGroup>,
}

#[derive(Clone, Debug, Default)]
struct SubmitterGroup {
    submitter: Option<Submitter>,
    weight: u32,
    sums: DemandSums,
    /// Its memory, as it was last shared out.
    budget: u64,
    is_settled: bool,
}

/// What one stream adds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct ShareDemand {
    /// One, or none if it is as good as gone.
    pub(super) streams: u64,
    /// The root of its rate.
    pub(super) weight: u64,
    /// Whether that was seen.
    pub(super) is_known: bool,
    /// What it can use at most: two windows as large as make sense.
    pub(super) demand: u64,
    pub(super) distance: u64,
    pub(super) is_capped: bool,
    pub(super) ceiling: u64,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct DemandSums {
    streams: u64,
    /// Of those that are not at their ceiling.
    weight: u64,
    /// Windows of those that are.
    capped: u64,
    /// Of those whose rate was seen, how many they are and what they weigh.
    known: u64,
    known_weight: u64,
    demand: u64,
    distance: u64,
}

/// The memory of one group, and what its streams make of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupMemory {
    memory: u64,
    sums: DemandSums,
}

impl SubmitterGroups {
    pub(super) const fn new() -> Self {
        Self { groups: Vec::new() }
    }

    /// The one of all submitters without a weight of their own.
    pub(super) const COMMON: u8 = 0;

    /// Gives a submitter a weight of its own; false if there is no room for another one.
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

    /// A submitter has no weight of its own any more; says where its streams were counted.
    pub(super) fn forget(&mut self, submitter: Submitter) -> Option<u8> {
        let at = self.groups.iter().position(|group| group.submitter == Some(submitter))?;
        assert!(at > 0, "the common group has no submitter of its own");
        self.groups[at].submitter = None;
        Some(u8::try_from(at).expect("there are at most MOST_WEIGHTS groups and one"))
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// What the streams of a group add up to.
    pub(super) fn sums(&self, group: usize) -> &DemandSums {
        &self.groups[group].sums
    }

    fn begin(&mut self) {
        if self.groups.is_empty() {
            self.groups.push(SubmitterGroup { weight: 1, ..SubmitterGroup::default() });
        }
    }

    /// Where the streams of a submitter are counted.
    pub(super) fn of(&mut self, submitter: Submitter) -> u8 {
        self.begin();
        let own = self.groups.iter().position(|group| group.submitter == Some(submitter));
        u8::try_from(own.unwrap_or(0)).expect("there are at most MOST_WEIGHTS groups and one")
    }

    /// A stream adds something else now, or elsewhere.
    pub(super) fn change(&mut self, from: u8, before: ShareDemand, to: u8, after: ShareDemand) {
        self.groups[usize::from(from)].sums.take(&before);
        self.groups[usize::from(to)].sums.add(&after);
    }

    /// The mean weight of its streams, if that of any was seen.
    pub(super) fn known_weight(&self, group: u8) -> Option<u64> {
        let sums = &self.groups[usize::from(group)].sums;
        (sums.known > 0).then(|| sums.mean_weight())
    }

    /// How much a stream weighs of which nothing is known: as much as one of the middle.
    pub(super) fn mean_weight(&self, group: u8) -> u64 {
        self.groups[usize::from(group)].sums.mean_weight()
    }

    /// What is there for one group.
    pub(super) fn room(&mut self, group: u8, memory: Pages) -> GroupMemory {
        let memory = memory.0 - memory.0 / SPARE_DENOM;
        if self.groups.len() == 1 {
            return GroupMemory { memory, sums: self.groups[0].sums };
        }
        self.share_out(memory);
        let group = &self.groups[usize::from(group)];
        GroupMemory { memory: group.budget, sums: group.sums }
    }

    /// Shares the memory out by weight; what a group cannot use goes to the others.
    ///
    /// ```text
    ///   weights 1, 1, 2; the first can use little
    ///   fair         |=======|=======|===============|
    ///   it becomes   |==|=========|==================|
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
        // A group without streams may begin with one: it has a right to its weight.
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
    /// Whether there is not enough for all streams to have two windows as large as make sense.
    pub(super) fn is_short(&self) -> bool {
        self.sums.demand > self.memory
    }

    /// What it is like without one of its streams: but for the distances, which are of all.
    pub(super) fn without(mut self, part: &ShareDemand) -> Self {
        let distance = self.sums.distance;
        self.sums.take(part);
        self.sums.distance = distance;
        self
    }

    /// The same with one more stream.
    pub(super) fn with_one_more(mut self, ceiling: Pages) -> Self {
        self.sums.demand += 2 * ceiling.0;
        self
    }

    pub(super) fn mean_weight(&self) -> u64 {
        self.sums.mean_weight()
    }

    /// The window of one more stream of this weight.
    ///
    /// A window is there whole when it was read, and gone when the next is asked for: on average it
    /// holds half of its pages, and all windows together are twice what there is room for.
    pub(super) fn window_of(&self, weight: u64) -> Pages {
        debug_assert!(self.all_distances() <= self.memory, "distances have a part of the memory");
        let spare = self.memory - self.all_distances();
        let spare = (2 * spare).saturating_sub(self.sums.capped);
        let weights = u128::from(self.sums.weight) + u128::from(weight);
        let window = u128::from(spare) * u128::from(weight) / weights.max(1);
        Pages(u64::try_from(window).expect("a part of the memory fits the number of its pages"))
    }

    /// All distances together: a quarter of the memory at most, or a device that is too slow would
    /// make of all windows distances.
    fn all_distances(&self) -> u64 {
        self.sums.distance.min(self.memory / DISTANCES_DENOM)
    }

    /// What a stream gets of the distance that it wants.
    pub(super) fn distance_of(&self, distance: u32) -> Pages {
        let distance = u128::from(distance) * u128::from(self.all_distances());
        let distance = distance.checked_div(u128::from(self.sums.distance)).unwrap_or(0);
        Pages(u64::try_from(distance).expect("a part of the memory fits the number of its pages"))
    }
}

/// One in 24 pages is left out of the sums: windows are whole pages, rates are guesses, and
/// what is consumed is not found at once. With half as much, more windows are cut.
const SPARE_DENOM: u64 = 24;

/// A quarter of the memory for all prefetch distances; windows get the rest.
const DISTANCES_DENOM: u64 = 4;

/// So many submitters have a weight of their own: each question goes through them all.
pub(super) const MOST_WEIGHTS: usize = 16;

/// A hundred times as much as another is enough, and a thousand more so.
const MOST_WEIGHT: u32 = 1000;
