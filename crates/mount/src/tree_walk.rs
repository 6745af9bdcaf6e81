//! Detects directory walks, and predicts the directories that a program enters next.
//!
//! The prediction grows with the walk's observed use of it. Memory is bounded: beyond the limit
//! everything is forgotten and learnt again. No clock, device or inode is involved.
//!
//! ```text
//!               root                       a walk, by name or by place: each directory in front of
//!        .-------+-------.                 those in it, then its next sibling
//!        a       b       c
//!     .--+--.    |                         here: a/y, after a/x
//!     x  y  z    k                         next: a/z, b, b/k (once b is known), c
//!        ^
//! ```
//!
//! A walk is detected at a directory whose predecessor was entered just before it. A program that
//! enters a single directory is looking for a file.

use std::collections::HashMap;

/// Order of names in a walk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NameOrder {
    /// On-disk order: programs that list directories and proceed as they find names.
    Listed,
    /// Byte order: programs with a sorted list of names, such as git.
    Named,
}

/// Limits on directories that were fetched but not entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AheadLimits {
    /// Upper limit.
    pub(crate) most: usize,
    /// Lower limit, once a fetched directory was entered.
    pub(crate) sure: usize,
}

/// Directories of a tree, as far as they are known.
#[derive(Debug)]
pub(crate) struct TreeWalkDetector {
    directories: HashMap<u32, Directory>,
    /// Maximum number of directories.
    limit: usize,
    /// Prefetch distance, in directories.
    ahead: usize,
}

#[derive(Debug, Default)]
struct Directory {
    /// Parent, and the index in it by each order; None if unknown.
    parent: Option<(u32, [usize; 2])>,
    /// Subdirectories by each order; None if unknown.
    inside: Option<[Box<[u32]>; 2]>,
    /// Subdirectories entered last. Several programs may walk.
    last: [u32; LAST],
    is_fetched: bool,
    is_entered: bool,
    /// True if a walk entered it.
    is_walked: bool,
}

impl TreeWalkDetector {
    /// Creates an empty detector. It uses at most this much memory, or slightly more than one
    /// directory needs.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        let limit = usize::try_from(memory_bytes / DIRECTORY_BYTES).unwrap_or(usize::MAX);
        Self { directories: HashMap::new(), limit: limit.min(DIRECTORIES), ahead: 0 }
    }

    /// Returns whether the subdirectories of this directory are unknown.
    pub(crate) fn is_new(&self, directory: u32) -> bool {
        self.directories.get(&directory).is_none_or(|it| it.inside.is_none())
    }

    /// Returns whether a walk entered this directory.
    pub(crate) fn is_walked(&self, directory: u32) -> bool {
        self.directories.get(&directory).is_some_and(|it| it.is_walked)
    }

    /// Records the subdirectories of a directory: names and numbers, in on-disk order.
    pub(crate) fn learn(&mut self, directory: u32, inside: &[(Vec<u8>, u32)]) {
        if self.directories.len() + inside.len() > self.limit {
            self.directories.clear();
        }
        let listed: Box<[u32]> = inside.iter().map(|(_, number)| *number).collect();
        let mut order: Vec<usize> = (0..inside.len()).collect();
        order.sort_by(|&a, &b| inside[a].0.cmp(&inside[b].0));
        for (by_name, &by_place) in order.iter().enumerate() {
            let child = self.directories.entry(listed[by_place]).or_default();
            // A directory inside itself, or inside two others, is damaged, and keeps its first
            // parent.
            child.parent.get_or_insert((directory, [by_place, by_name]));
        }
        let named = order.iter().map(|&at| listed[at]).collect();
        self.directories.entry(directory).or_default().inside = Some([listed, named]);
    }

    /// Records that a directory is entered, and returns the directories to fetch now, all in one
    /// batch.
    ///
    /// ```text
    ///   in order, or fetched before: go on         each use of one that was fetched: twice as
    ///                                              many, and no fewer than a round trip is worth
    ///   fetched before, and its neighbours, too,
    ///     which are skipped                        half as many
    ///   otherwise                                  nothing
    /// ```
    pub(crate) fn enter(
        &mut self,
        directory: u32,
        order: NameOrder,
        limits: AheadLimits,
    ) -> Vec<u32> {
        let this = self.directories.entry(directory).or_default();
        let (was_fetched, was_entered) = (this.is_fetched, this.is_entered);
        this.is_entered = true;
        if was_entered && order == NameOrder::Listed {
            self.again(directory);
        }
        if was_fetched && !was_entered {
            let is_skipping = self.skipped(directory, order) > 0;
            self.ahead =
                if is_skipping { self.ahead / 2 } else { (self.ahead * 2).max(limits.sure) };
        }
        let is_walk = was_fetched || self.is_in_order(directory, order);
        self.directories.entry(directory).or_default().is_walked = is_walk;
        self.remember(directory);
        if is_walk { self.next(directory, order, limits) } else { Vec::new() }
    }

    /// Returns the directories to fetch after more became known: none while half of the prefetch
    /// distance is covered, so that fetches are batched.
    pub(crate) fn next(
        &mut self,
        directory: u32,
        order: NameOrder,
        limits: AheadLimits,
    ) -> Vec<u32> {
        self.ahead = self.ahead.clamp(FIRST, limits.most.max(FIRST));
        let mut next = self.upcoming(directory, order, self.ahead);
        let is_known = |number: &u32| self.directories.get(number).is_some_and(|it| it.is_fetched);
        if next.iter().take(self.ahead.div_ceil(2)).all(is_known) {
            return Vec::new();
        }
        next.retain(|number| !is_known(number));
        for number in &next {
            self.directories.entry(*number).or_default().is_fetched = true;
        }
        next
    }

    /// Handles a directory that is listed again, because its contents may have been evicted.
    fn again(&mut self, directory: u32) {
        let inside = self.directories.get(&directory).and_then(|it| it.inside.as_ref());
        for number in inside.map(|[listed, _]| listed.clone()).unwrap_or_default() {
            let child = self.directories.entry(number).or_default();
            (child.is_fetched, child.is_entered) = (false, false);
        }
    }

    /// Returns whether the preceding neighbours were entered recently: one, or the parent, if names
    /// are listed; two if names are looked up, because one of a few may be coincidence.
    fn is_in_order(&self, directory: u32, order: NameOrder) -> bool {
        let Some((above, place)) = self.place(directory, order) else { return false };
        let signs = match order {
            NameOrder::Listed if place == 0 => return self.is_entered(above),
            NameOrder::Listed => 1,
            NameOrder::Named => 2,
        };
        let last = self.directories.get(&above).map_or([0; LAST], |it| it.last);
        let before = place.checked_sub(signs).map(|from| &self.inside(above, order)[from..place]);
        before.is_some_and(|before| before.iter().all(|number| last.contains(number)))
    }

    /// Records in the parent that this directory was entered.
    fn remember(&mut self, directory: u32) {
        let above = self.directories.get(&directory).and_then(|it| it.parent);
        if let Some(above) = above.and_then(|(above, _)| self.directories.get_mut(&above)) {
            above.last.rotate_right(1);
            above.last[0] = directory;
        }
    }

    /// Returns the number of preceding neighbours that were fetched and not entered; each counts
    /// once.
    fn skipped(&mut self, directory: u32, order: NameOrder) -> usize {
        let Some((above, place)) = self.place(directory, order) else { return 0 };
        let before: Vec<u32> = self.inside(above, order)[..place]
            .iter()
            .rev()
            .take_while(|&&it| !self.is_entered(it))
            .copied()
            .collect();
        let mut skipped = 0;
        for number in before {
            let neighbour = self.directories.entry(number).or_default();
            if neighbour.is_fetched {
                neighbour.is_entered = true;
                skipped += 1;
            }
        }
        skipped
    }

    /// Returns the next directories of a walk that is here.
    fn upcoming(&self, directory: u32, order: NameOrder, count: usize) -> Vec<u32> {
        let mut next = Vec::with_capacity(count);
        self.below(directory, order, count, &mut next);
        let mut here = directory;
        // Up to the root; the limit ends a cycle of parents.
        for _ in 0..DEPTH {
            let Some((above, place)) = self.place(here, order) else { break };
            for &sibling in &self.inside(above, order)[place + 1..] {
                if next.len() >= count {
                    return next;
                }
                next.push(sibling);
                self.below(sibling, order, count, &mut next);
            }
            here = above;
        }
        next
    }

    /// Adds the known directories below a directory, in pre-order.
    fn below(&self, directory: u32, order: NameOrder, count: usize, next: &mut Vec<u32>) {
        let mut ahead = vec![self.inside(directory, order).iter()];
        while let Some(level) = ahead.last_mut() {
            if next.len() >= count {
                return;
            }
            match level.next() {
                Some(&number) => {
                    next.push(number);
                    if ahead.len() < DEPTH {
                        ahead.push(self.inside(number, order).iter());
                    }
                }
                None => drop(ahead.pop()),
            }
        }
    }

    /// Returns the parent, and the index in it.
    fn place(&self, directory: u32, order: NameOrder) -> Option<(u32, usize)> {
        let (above, places) = self.directories.get(&directory)?.parent?;
        let place = places[order as usize];
        // It may differ in a damaged tree, or be forgotten.
        (self.inside(above, order).get(place) == Some(&directory)).then_some((above, place))
    }

    fn inside(&self, directory: u32, order: NameOrder) -> &[u32] {
        let known = self.directories.get(&directory).and_then(|it| it.inside.as_ref());
        known.map_or(&[], |orders| &orders[order as usize])
    }

    fn is_entered(&self, directory: u32) -> bool {
        self.directories.get(&directory).is_some_and(|it| it.is_entered)
    }
}

/// Number of directories fetched at the first sign of a walk.
const FIRST: usize = 8;

/// Number of distinguishable walks through one directory.
const LAST: usize = 4;

/// Maximum number of known directories, and the memory of each, including its entry in the parent's
/// list.
const DIRECTORIES: usize = 1 << 16;
const DIRECTORY_BYTES: u64 = 200;

/// Maximum depth that is followed.
const DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A root (2) with `tops` directories (100, 200, ..) of `leaves` each (101, 102, ..), whose
    /// names are in the order of their numbers, and lie in the same order.
    fn tree(tops: u32, leaves: u32) -> TreeWalkDetector {
        let mut walk = TreeWalkDetector::new(1 << 30);
        let name = |n: u32| (format!("{n:06}").into_bytes(), n);
        let named = |numbers: Vec<u32>| numbers.into_iter().map(name).collect::<Vec<_>>();
        walk.learn(2, &named((1..=tops).map(|top| top * 100).collect()));
        for top in 1..=tops {
            walk.learn(top * 100, &named((1..=leaves).map(|leaf| top * 100 + leaf).collect()));
        }
        walk
    }

    /// On a device that is near.
    fn near(most: usize) -> AheadLimits {
        AheadLimits { most, sure: 0 }
    }

    #[test]
    fn listing_one_directory_fetches_no_other() {
        let mut walk = tree(3, 5);
        assert!(walk.enter(2, NameOrder::Listed, near(64)).is_empty());
        let mut walk = tree(3, 5);
        assert!(walk.enter(203, NameOrder::Listed, near(64)).is_empty());
        assert!(walk.enter(203, NameOrder::Listed, near(64)).is_empty());
    }

    #[test]
    fn a_lookup_of_one_file_fetches_nothing_on_the_way() {
        let mut walk = tree(3, 5);
        for path in [[2, 100, 101], [2, 300, 304], [2, 200, 202]] {
            for directory in path {
                assert!(
                    walk.enter(directory, NameOrder::Named, near(64)).is_empty(),
                    "{directory}"
                );
            }
        }
    }

    #[test]
    fn a_walk_fetches_each_directory_once_and_ahead_of_itself() {
        for order in [NameOrder::Listed, NameOrder::Named] {
            let mut walk = tree(10, 20);
            let (mut fetched, mut late, mut batches) = (Vec::new(), 0, 0);
            let tops = (1..=10).flat_map(|top| (0..=20).map(move |leaf| top * 100 + leaf));
            for directory in [2].into_iter().chain(tops) {
                late += u32::from(!fetched.contains(&directory));
                let mut next = walk.enter(directory, order, near(64));
                batches += u32::from(!next.is_empty());
                fetched.append(&mut next);
            }
            let count = fetched.len();
            fetched.sort_unstable();
            fetched.dedup();
            assert_eq!(count, fetched.len(), "{order:?}");
            // The root and the first ones, before the walk is seen.
            assert!(late <= 5, "{order:?}: {late}");
            assert!(batches <= 16, "{order:?}: {batches}");
        }
    }

    #[test]
    fn a_walk_that_skips_directories_fetches_fewer() {
        let mut walk = tree(1, 400);
        walk.enter(2, NameOrder::Listed, near(64));
        let mut fetched = 0;
        for directory in [100, 101, 102, 103, 104, 105] {
            fetched += walk.enter(directory, NameOrder::Listed, near(64)).len();
        }
        assert!(walk.ahead >= 32, "{}", walk.ahead);
        for directory in [120, 140, 160, 180, 200] {
            fetched += walk.enter(directory, NameOrder::Listed, near(64)).len();
        }
        assert!(walk.ahead <= FIRST && fetched < 200, "{} {fetched}", walk.ahead);
    }

    /// On a far device, each round of few takes as long as one of many.
    #[test]
    fn a_walk_of_a_far_device_that_is_sure_fetches_what_a_round_trip_is_worth() {
        let far = AheadLimits { most: 512, sure: 64 };
        let mut walk = tree(1, 400);
        walk.enter(2, NameOrder::Listed, far);
        assert_eq!(walk.enter(100, NameOrder::Listed, far).len(), FIRST, "it may be chance");
        assert_eq!(walk.enter(101, NameOrder::Listed, far).len(), 64 - (FIRST - 1));
        // One that skips is not sure any more.
        walk.enter(120, NameOrder::Listed, far);
        walk.enter(150, NameOrder::Listed, far);
        assert!(walk.ahead < 64, "{}", walk.ahead);
    }

    #[test]
    fn a_directory_in_itself_has_an_end() {
        let mut walk = TreeWalkDetector::new(1 << 30);
        walk.learn(2, &[(b"a".to_vec(), 3), (b"b".to_vec(), 2)]);
        walk.learn(3, &[(b"c".to_vec(), 2), (b"d".to_vec(), 3)]);
        for directory in [2, 3, 2, 3, 3] {
            assert!(walk.enter(directory, NameOrder::Listed, near(1000)).len() <= 1000);
        }
        assert!(walk.upcoming(3, NameOrder::Named, 100).len() <= 100);
    }

    #[test]
    fn a_tree_of_any_size_is_kept_in_bounds() {
        let mut walk = TreeWalkDetector::new(1 << 30);
        for top in 0..3000_u32 {
            let inside: Vec<_> =
                (1..100_u32).map(|n| (n.to_le_bytes().to_vec(), top * 100 + n)).collect();
            walk.learn(top * 100, &inside);
            assert!(walk.directories.len() <= DIRECTORIES + 1);
        }
    }
}
