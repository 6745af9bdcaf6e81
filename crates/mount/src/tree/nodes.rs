//! The nodes that the kernel knows: each is one version of the file at a path.
//!
//! Two versions of a file never share a number, so the kernel's cached pages of a number belong to
//! one version.
//!
//! ```text
//!   1 root <-- 7f3a.. a/ <-- 2b91.. a/x (412 bytes, "etag1")      number = hash(path, version)
//!                        <-- 90cc.. a/x (412 bytes, "etag2")      replaced: another node
//! ```

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::tree::TreeFile;

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct NodeTable(Mutex<Nodes>);

#[derive(Debug, Default)]
struct Nodes {
    known: HashMap<u64, TreeNode>,
    /// Oldest first, including removed ones for a while.
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct TreeNode {
    parent: u64,
    name: Box<str>,
    /// None for a directory.
    file: Option<TreeFile>,
    /// Lookups by the kernel that it has not yet forgotten.
    lookups: u64,
    /// Number of nodes with this parent.
    children: u32,
}

/// Number of the root.
pub(super) const ROOT: u64 = 1;

impl NodeTable {
    /// Returns the number of a looked-up name, and counts the lookup.
    pub(super) fn told(&self, parent: u64, path: &str, file: Option<&TreeFile>) -> u64 {
        let mut nodes = self.lock();
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut number = number(path, file);
        // If the hash of two paths is equal, the second gets the next number.
        while let Some(node) = nodes.known.get_mut(&number) {
            if node.parent == parent && *node.name == *name && node.file.as_ref() == file {
                node.lookups += 1;
                return number;
            }
            number = next(number);
        }
        if let Some(parent) = nodes.known.get_mut(&parent) {
            parent.children += 1;
        }
        let (name, file) = (name.into(), file.cloned());
        nodes.known.insert(number, TreeNode { parent, name, file, lookups: 1, children: 0 });
        nodes.order.push_back(number);
        number
    }

    /// Subtracts lookups that the kernel has forgotten.
    pub(super) fn forgotten(&self, number: u64, times: u64) {
        let mut nodes = self.lock();
        let Some(node) = nodes.known.get_mut(&number) else { return };
        node.lookups = node.lookups.saturating_sub(times);
        let mut number = number;
        while let Some(node) = nodes.known.get(&number) {
            if node.lookups > 0 || node.children > 0 {
                break;
            }
            let parent = node.parent;
            nodes.known.remove(&number);
            if let Some(parent) = nodes.known.get_mut(&parent) {
                parent.children = parent.children.saturating_sub(1);
            }
            number = parent;
        }
        if nodes.order.len() > 2 * nodes.known.len() + SPARE {
            let Nodes { known, order } = &mut *nodes;
            order.retain(|number| known.contains_key(number));
        }
    }

    /// Returns the path of a node; None for an unknown number.
    pub(super) fn path(&self, number: u64) -> Option<String> {
        let nodes = self.lock();
        let (mut names, mut at) = (Vec::new(), number);
        while at != ROOT {
            let node = nodes.known.get(&at)?;
            names.push(&*node.name);
            at = node.parent;
        }
        names.reverse();
        Some(names.join("/"))
    }

    /// Returns the parent, the name and the file of a node.
    pub(super) fn get(&self, number: u64) -> Option<(u64, String, Option<TreeFile>)> {
        if number == ROOT {
            return Some((ROOT, String::new(), None));
        }
        let nodes = self.lock();
        let node = nodes.known.get(&number)?;
        Some((node.parent, node.name.to_string(), node.file.clone()))
    }

    pub(super) fn len(&self) -> usize {
        self.lock().known.len()
    }

    /// Returns up to `count` of the oldest nodes, as parents and names, and moves them to the young
    /// end.
    pub(super) fn oldest(&self, count: usize) -> Vec<(u64, String)> {
        let mut nodes = self.lock();
        let mut oldest = Vec::new();
        for _ in 0..nodes.order.len() {
            if oldest.len() == count {
                break;
            }
            let Some(number) = nodes.order.pop_front() else { break };
            let Some(node) = nodes.known.get(&number) else { continue };
            oldest.push((node.parent, node.name.to_string()));
            nodes.order.push_back(number);
        }
        oldest
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        // No code panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number for a path and version. It is the same in each run, so that programs which
/// store it find the file again.
pub(super) fn number(path: &str, file: Option<&TreeFile>) -> u64 {
    if path.is_empty() {
        return ROOT;
    }
    let mut hasher = DefaultHasher::new();
    (path, file).hash(&mut hasher);
    next(hasher.finish())
}

/// Returns the next valid node number: neither 0, which means none, nor the root's, and positive
/// for programs that treat it as signed.
fn next(number: u64) -> u64 {
    let next = number.wrapping_add(1) & (u64::MAX >> 1);
    if next <= ROOT { ROOT + 1 } else { next }
}

/// Removed nodes tolerated in the queue, beyond the number of nodes.
const SPARE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn version(tag: &str) -> TreeFile {
        TreeFile { size: 5, modified: 6, version: tag.into() }
    }

    #[test]
    fn a_node_is_one_version_at_one_path_until_it_is_forgotten() {
        let nodes = NodeTable::default();
        let directory = nodes.told(ROOT, "a", None);
        let first = nodes.told(directory, "a/x", Some(&version("1")));
        let second = nodes.told(directory, "a/x", Some(&version("2")));
        assert_ne!(first, second);
        assert_eq!(nodes.told(directory, "a/x", Some(&version("1"))), first);
        assert_eq!(nodes.path(first).as_deref(), Some("a/x"));
        assert_eq!((nodes.path(ROOT).as_deref(), nodes.len()), (Some(""), 3));
        nodes.forgotten(directory, 1);
        assert_eq!(nodes.path(first).as_deref(), Some("a/x"), "its parent is kept for it");
        nodes.forgotten(first, 1);
        nodes.forgotten(second, 1);
        assert_eq!(nodes.len(), 2, "the first was told twice");
        nodes.forgotten(first, 1);
        assert_eq!((nodes.len(), nodes.path(first)), (0, None));
        assert!(nodes.get(ROOT).is_some(), "the root is always there");
    }

    #[test]
    fn paths_of_one_hash_have_numbers_of_their_own() {
        let nodes = NodeTable::default();
        let taken = number("b", None);
        let other =
            TreeNode { parent: ROOT, name: "c".into(), file: None, lookups: 1, children: 0 };
        nodes.lock().known.insert(taken, other);
        let told = nodes.told(ROOT, "b", None);
        assert_eq!(told, next(taken));
        assert_eq!(nodes.path(told).as_deref(), Some("b"));
        assert_eq!(nodes.told(ROOT, "b", None), told);
        assert_eq!(next(u64::MAX >> 1), ROOT + 1);
    }

    #[test]
    fn the_oldest_come_round_and_those_that_are_gone_do_not() {
        let nodes = NodeTable::default();
        let told: Vec<_> = (0..10).map(|n| nodes.told(ROOT, &format!("f{n}"), None)).collect();
        nodes.forgotten(told[1], 1);
        let names = |count| nodes.oldest(count).into_iter().map(|it| it.1).collect::<Vec<_>>();
        assert_eq!(names(2), ["f0", "f2"]);
        assert_eq!(names(8), ["f3", "f4", "f5", "f6", "f7", "f8", "f9", "f0"]);
        assert_eq!(names(100).len(), 9);
        for number in told {
            nodes.forgotten(number, 1);
        }
        assert_eq!((nodes.len(), names(1).len()), (0, 0));
    }
}
