//! A set of half-open byte ranges. Ranges that touch are merged.

use std::collections::BTreeMap;
use std::ops::Range;

/// Maps each start to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals(BTreeMap<u64, u64>);

impl Intervals {
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&before, &its_end)) = self.0.range(..=end).next_back() {
            if its_end < start {
                break;
            }
            (start, end) = (start.min(before), end.max(its_end));
            self.0.remove(&before);
        }
        self.0.insert(start, end);
    }

    /// Returns the parts of `range` that are in the set.
    pub(crate) fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let before = self.0.range(..range.start).next_back();
        let among = self.0.range(range.start..range.end);
        let clipped = before
            .into_iter()
            .chain(among)
            .map(|(&start, &end)| start.max(range.start)..end.min(range.end));
        clipped.filter(|part| part.start < part.end).collect()
    }

    /// Returns the parts of `range` that are not in the set.
    pub(crate) fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut at = range.start;
        let mut gaps = Vec::new();
        for part in self.within(range).into_iter().chain(std::iter::once(range.end..range.end)) {
            if at < part.start {
                gaps.push(at..part.start);
            }
            at = part.end;
        }
        gaps
    }

    pub(crate) fn bytes_within(&self, range: &Range<u64>) -> u64 {
        self.within(range).into_iter().map(|part| part.end - part.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_bytes(
            ranges in prop::collection::vec((0_u64..100, 0_u64..30), 0..20),
            (start, len) in (0_u64..100, 0_u64..60),
        ) {
            let mut set = Intervals::default();
            let mut bytes = BTreeSet::new();
            for (start, len) in ranges {
                set.insert(start..start + len);
                bytes.extend(start..start + len);
            }
            let asked = start..start + len;
            let wanted = bytes.range(asked.clone()).count() as u64;
            prop_assert_eq!(set.bytes_within(&asked), wanted);
            let gaps: u64 = set.gaps(&asked).iter().map(|gap| gap.end - gap.start).sum();
            prop_assert_eq!(gaps + wanted, len);
            for (end, next) in set.0.values().zip(set.0.keys().skip(1)) {
                prop_assert!(end < next);
            }
        }
    }
}
