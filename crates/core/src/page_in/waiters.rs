//! Reads and writes that wait for each frame. Every frame has a list of its waiters, so waking them
//! needs no search.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::Waiter;
use crate::table::Frame;

/// The waiters of all frames.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// For each frame, its first node plus one; 0 for none, so that untouched memory means no
    /// waiter.
    first: Vec<u32>,
    nodes: Vec<WaiterNode>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct WaiterNode {
    waiter: Waiter,
    next: u32,
}

impl Waiters {
    /// Bytes for each frame; each waiter adds a node.
    pub(crate) const BYTES_PER_FRAME: u64 = size_of::<u32>() as u64;

    pub(crate) fn new(frames: u32) -> Self {
        Self { first: vec![0; frames as usize], nodes: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn add(&mut self, frame: Frame, waiter: Waiter) {
        let first = &mut self.first[frame.0 as usize];
        let node = WaiterNode { waiter, next: *first };
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 waits at a time")
            }
        };
        assert!(*first != index + 1, "a node that is taken is in no list");
        *first = index + 1;
    }

    /// Returns the number of waits for all frames.
    pub(crate) fn count(&self) -> usize {
        debug_assert!(self.free.len() <= self.nodes.len(), "a node is free twice");
        self.nodes.len() - self.free.len()
    }

    pub(crate) fn is_waited_for(&self, frame: Frame) -> bool {
        self.first[frame.0 as usize] != 0
    }

    /// Moves the waiters of `from` to `to`.
    pub(crate) fn move_to(&mut self, from: Frame, to: Frame) {
        assert!(from != to, "{from:?} would lose its waiters");
        let moved = core::mem::take(&mut self.first[from.0 as usize]);
        let Some(first) = moved.checked_sub(1) else { return };
        let mut last = first;
        while let Some(next) = self.nodes[last as usize].next.checked_sub(1) {
            last = next;
        }
        self.nodes[last as usize].next = self.first[to.0 as usize];
        self.first[to.0 as usize] = moved;
    }

    /// Removes and returns one of the frame's waiters.
    pub(crate) fn take(&mut self, frame: Frame) -> Option<Waiter> {
        let index = self.first[frame.0 as usize].checked_sub(1)?;
        let node = self.nodes[index as usize];
        self.first[frame.0 as usize] = node.next;
        self.free.push(index);
        debug_assert!(self.free.len() <= self.nodes.len(), "a node is free twice");
        Some(node.waiter)
    }
}
