//! Checks the shares against the sums of their groups, for tests.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;

use super::MemoryShares;
use super::groups::DemandSums;
use super::share::{ShareId, StreamEnd};

impl MemoryShares {
    /// Returns the number of shares.
    pub(crate) fn count(&self) -> usize {
        debug_assert!(self.free.len() <= self.shares.len(), "a share is free twice");
        self.shares.len() - self.free.len()
    }

    /// Returns true if a stream has this share.
    pub(crate) fn has(&self, id: ShareId) -> bool {
        self.shares.get(id.0 as usize).is_some_and(|share| share.is_there)
    }

    /// Checks that the sums of each group match its streams.
    pub(crate) fn assert_consistent(&self) {
        let mut sums = vec![DemandSums::default(); self.groups.len()];
        let mut far = BTreeMap::new();
        let in_line: BTreeSet<u32> = self.last_pages.numbers().collect();
        for share in self.shares.iter().filter(|share| share.is_there) {
            sums[usize::from(share.group)].add(&share.counted);
            let (device, wanted) = share.far_counted.device();
            *far.entry(device).or_insert(0) += wanted;
            let (ceiling, distance) = (share.ceiling, share.distance);
            let most = share.at_most.max(share.read);
            assert!(ceiling <= most, "a ceiling of {ceiling} is above {most}");
            assert!(distance <= ceiling, "{distance} pages ahead of windows of {ceiling}");
            if let StreamEnd::Ahead(number) = share.end {
                assert!(in_line.contains(&number), "last page {number} is never looked at");
            }
        }
        for (group, sums) in sums.iter().enumerate() {
            let counted = self.groups.sums(group);
            assert!(counted == sums, "group {group} counts {counted:?}, and its streams {sums:?}");
        }
        for (device, wanted) in far {
            let counted = self.far.wanted(device);
            assert!(counted == wanted, "device {device} counts {counted}, its streams {wanted}");
        }
        let there = self.shares.iter().filter(|share| share.is_there).count();
        assert!(there == self.count(), "{there} shares are there, and {} counted", self.count());
    }
}
