//! Determines whether a path leads to a mount, or to another one mounted over it or above it.
//!
//! The order of the list is not used, because moved mounts make it unreliable.
//!
//! ```text
//!   1 /         2 on 1 /srv        3 on 2 /srv/a        then  4 on 1 /srv
//!
//!   /srv/a leads from 1 to 4, not to 2: so 2 and 3 are hidden
//! ```

use std::collections::{HashMap, HashSet};

use crate::sysfs::MountEntry;

/// Mounts of a machine, by number and by parent mount.
pub(super) struct MountTree<'a> {
    by_id: HashMap<u32, &'a MountEntry>,
    /// Mounts on each mount, by mount point. A hash map, because a Kubernetes node has thousands.
    on: HashMap<(u32, &'a str), u32>,
}

impl<'a> MountTree<'a> {
    pub(super) fn new(mounts: &'a [MountEntry]) -> Self {
        let by_id = mounts.iter().map(|entry| (entry.id.0, entry)).collect();
        let on = mounts.iter().filter(|entry| entry.id.0 != entry.id.1);
        let on = on.map(|entry| ((entry.id.1, entry.point.as_str()), entry.id.0)).collect();
        Self { by_id, on }
    }

    /// Returns whether the path leads to this mount: no other mount covers it on the way.
    pub(super) fn is_visible(&self, entry: &MountEntry) -> bool {
        // On the mount itself, only one that covers all of it hides it.
        if self.on.contains_key(&(entry.id.0, entry.point.as_str())) {
            return false;
        }
        let (mut seen, mut next) = (HashSet::new(), entry);
        // The root mount is its own parent.
        while next.id.0 != next.id.1 && seen.insert(next.id.0) {
            let below = self.by_id.get(&next.id.1);
            let from = below.map_or(1, |below| below.point.len());
            // Of two mounts at one point of one parent, the later in the list is on top.
            let is_other = |point: &str| {
                let there = self.on.get(&(next.id.1, point));
                there.is_some_and(|id| *id != next.id.0)
            };
            if prefixes(&next.point).filter(|point| point.len() >= from).any(is_other) {
                return false;
            }
            let Some(below) = below else { return true };
            next = below;
        }
        true
    }
}

/// Returns all prefixes: for `/a/b` these are `/`, `/a` and `/a/b`.
fn prefixes(point: &str) -> impl Iterator<Item = &str> {
    let ends = point.match_indices('/').map(|(at, _)| at.max(1)).chain([point.len()]);
    let mut last = 0;
    ends.filter(move |end| std::mem::replace(&mut last, *end) != *end).map(|end| &point[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(lines: &[&str]) -> Vec<String> {
        let mounts: Vec<_> = lines
            .iter()
            .map(|line| MountEntry::parse(&format!("{line} rw - ext4 x rw")).expect("a mount"))
            .collect();
        let tree = MountTree::new(&mounts);
        let seen = mounts.iter().filter(|entry| tree.is_visible(entry));
        seen.map(|entry| entry.id.0.to_string()).collect()
    }

    #[test]
    fn a_path_has_its_prefixes() {
        assert_eq!(prefixes("/a/bc").collect::<Vec<_>>(), ["/", "/a", "/a/bc"]);
        assert_eq!(prefixes("/").collect::<Vec<_>>(), ["/"]);
    }

    #[test]
    fn what_another_is_mounted_over_is_hidden() {
        let root = "1 0 8:1 / /";
        assert_eq!(visible(&[root, "2 1 8:2 / /srv", "3 2 8:3 / /srv/a"]), ["1", "2", "3"]);
        // Over its folder, from the mount that has it and from itself.
        let over = [root, "2 1 8:2 / /srv", "3 2 8:3 / /srv/a", "4 1 8:4 / /srv"];
        assert_eq!(visible(&over), ["1", "4"]);
        let over = [root, "2 1 8:2 / /srv", "3 2 8:3 / /srv/a", "4 2 8:4 / /srv"];
        assert_eq!(visible(&over), ["1", "4"]);
        // Above it, later.
        let above = [root, "2 1 8:2 / /srv/a/b", "3 1 8:3 / /srv"];
        assert_eq!(visible(&above), ["1", "3"]);
        let beside = [root, "2 1 8:2 / /srv/a", "3 1 8:3 / /srv/ab", "4 1 8:4 / /sr"];
        assert_eq!(visible(&beside), ["1", "2", "3", "4"]);
    }

    /// An initial file system mounts /proc and moves it into the root that it found: the list has
    /// it before its root, whose number is larger.
    #[test]
    fn the_order_of_the_list_says_nothing() {
        let moved = ["22 28 0:21 / /sys", "23 28 0:22 / /proc", "28 1 254:0 / /"];
        assert_eq!(visible(&moved), ["22", "23", "28"]);
        // The root lies on the file system that it was started from.
        let first = ["1 1 0:2 / /", "28 1 254:0 / /", "30 28 8:1 / /home"];
        assert_eq!(visible(&first), ["28", "30"]);
    }
}
