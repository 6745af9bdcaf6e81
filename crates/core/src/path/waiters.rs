//! Who waits for which frame.
//!
//! In:    a read that needs a frame which is being filled.
//! Out:   all such reads, once the frame is filled or failed.
//! Never: a search. Each frame has a list of its own.

use alloc::vec;
use alloc::vec::Vec;

use super::ReadId;
use crate::table::Frame;

#[derive(Debug)]
pub(super) struct Waiters {
    /// Per frame, its first node plus one; 0 for none, so that untouched memory means nobody.
    first: Vec<u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    read: ReadId,
    next: u32,
}

impl Waiters {
    /// What each frame costs here. Reads that wait cost more, but only as many as wait.
    pub(super) const BYTES_PER_FRAME: u64 = size_of::<u32>() as u64;

    pub(super) fn new(frames: u32) -> Self {
        Self { first: vec![0; frames as usize], nodes: Vec::new(), free: Vec::new() }
    }

    pub(super) fn add(&mut self, frame: Frame, read: ReadId) {
        let first = &mut self.first[frame.0 as usize];
        let node = Node { read, next: *first };
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
        *first = index + 1;
    }

    pub(super) fn is_waited_for(&self, frame: Frame) -> bool {
        self.first[frame.0 as usize] != 0
    }

    /// Takes one of the reads that wait for the frame.
    pub(super) fn take(&mut self, frame: Frame) -> Option<ReadId> {
        let index = self.first[frame.0 as usize].checked_sub(1)?;
        let node = self.nodes[index as usize];
        self.first[frame.0 as usize] = node.next;
        self.free.push(index);
        Some(node.read)
    }
}
