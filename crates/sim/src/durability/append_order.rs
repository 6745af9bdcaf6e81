//! Which sectors of a file appends have not written yet, below which appends that are complete.
//!
//! In:    appends that grow the file, fill it, and end.
//! Out:   the sectors that a flush must not leave as zeros.
//! Never: zeros that a caller has asked for: those of a length, or in front of a write past the
//!        end.

use std::collections::BTreeMap;

use foreread_core::path::WriteId;

/// The appends of one file, in sectors.
#[derive(Debug, Default)]
pub(super) struct AppendOrder {
    /// Sectors that the file has for an append, which has not written them.
    unwritten: BTreeMap<usize, WriteId>,
    /// Appends that have grown the file and are not over, and the lowest end since.
    grown: Vec<(WriteId, usize)>,
    /// The end of the highest append that is complete.
    end: usize,
}

impl AppendOrder {
    /// The file has grown for an append.
    pub(super) fn grow(&mut self, append: WriteId, sectors: std::ops::Range<usize>) {
        self.unwritten.extend(sectors.map(|at| (at, append)));
        self.grown.push((append, usize::MAX));
    }

    /// All of an append is written.
    pub(super) fn complete(&mut self, append: WriteId, end: usize) {
        if let Some((_, limit)) = self.grown.iter().find(|(it, _)| *it == append) {
            self.end = self.end.max(end.min(*limit));
        }
    }

    /// What an append has not written is not its own any more.
    pub(super) fn forget(&mut self, append: WriteId) {
        self.grown.retain(|(it, _)| *it != append);
        self.unwritten.retain(|_, it| *it != append);
    }

    /// A sector is written, cut off, or may hold anything.
    pub(super) fn settle(&mut self, at: usize) {
        self.unwritten.remove(&at);
    }

    /// The file was cut, or its owner has accepted the length that it has.
    pub(super) fn cut(&mut self, len: usize) {
        self.end = self.end.min(len);
        self.grown.iter_mut().for_each(|(_, limit)| *limit = len.min(*limit));
    }

    pub(super) fn forget_all(&mut self) {
        self.unwritten.clear();
    }

    /// The sectors that a flush that begins now covers, and that no append has written.
    pub(super) fn below_complete(&self) -> Vec<usize> {
        self.unwritten.range(..self.end).map(|(at, _)| *at).collect()
    }

    /// The first sector that another append has not written yet.
    pub(super) fn first_unwritten(&self) -> Option<usize> {
        self.unwritten.keys().next().copied()
    }
}
