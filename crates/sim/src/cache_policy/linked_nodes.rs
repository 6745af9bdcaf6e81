//! Doubly linked queues of keys over one array of nodes, so that moving a key does not allocate.
//!
//! ```text
//!   head <-> node <-> node <-> tail        newest at the head, evicted from the tail
//! ```

use super::CacheKey;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// A key in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyNode {
    pub(super) key: CacheKey,
    prev: u32,
    next: u32,
    /// Per-policy mark: a bit or a count.
    pub(super) mark: u8,
    /// Queue that holds the node, for policies with several.
    pub(super) queue: u8,
}

/// The nodes of all queues of a cache.
#[derive(Debug, Default)]
pub(super) struct KeyNodes {
    nodes: Vec<KeyNode>,
    free: Vec<u32>,
}

/// One queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyQueue {
    head: u32,
    tail: u32,
    len: usize,
}

impl KeyNodes {
    /// Allocates a node that is in no queue, and returns its index.
    pub(super) fn add(&mut self, key: CacheKey) -> u32 {
        let node = KeyNode { key, prev: NONE, next: NONE, mark: 0, queue: 0 };
        if let Some(index) = self.free.pop() {
            self.nodes[index as usize] = node;
            return index;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("a cache has fewer than 2^32 keys")
    }

    /// Frees a node that is in no queue.
    pub(super) fn remove(&mut self, index: u32) {
        self.free.push(index);
    }

    pub(super) fn get(&self, index: u32) -> &KeyNode {
        &self.nodes[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut KeyNode {
        &mut self.nodes[index as usize]
    }

    /// Returns the next node towards the head.
    pub(super) fn newer(&self, index: u32) -> Option<u32> {
        let prev = self.get(index).prev;
        (prev != NONE).then_some(prev)
    }
}

impl KeyQueue {
    pub(super) fn new() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    pub(super) fn push_head(&mut self, nodes: &mut KeyNodes, index: u32) {
        let node = nodes.get_mut(index);
        (node.prev, node.next) = (NONE, self.head);
        if self.head == NONE {
            self.tail = index;
        } else {
            nodes.get_mut(self.head).prev = index;
        }
        self.head = index;
        self.len += 1;
    }

    pub(super) fn detach(&mut self, nodes: &mut KeyNodes, index: u32) {
        let KeyNode { prev, next, .. } = *nodes.get(index);
        if prev == NONE {
            self.head = next;
        } else {
            nodes.get_mut(prev).next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            nodes.get_mut(next).prev = prev;
        }
        assert!(self.len > 0, "a node is detached from its own queue");
        self.len -= 1;
    }

    pub(super) fn pop_tail(&mut self, nodes: &mut KeyNodes) -> Option<u32> {
        let tail = self.tail()?;
        self.detach(nodes, tail);
        Some(tail)
    }

    pub(super) fn move_to_head(&mut self, nodes: &mut KeyNodes, index: u32) {
        if self.head != index {
            self.detach(nodes, index);
            self.push_head(nodes, index);
        }
    }
}
