//! Tracks the sectors below the end of complete appends that an earlier append has not written.
//!
//! In:    appends that grow the file, fill it, and end.
//! Out:   sectors that a flush must not leave as zeros.
//! Never: zeros that a caller requested, by a length or before a write past the end.

use std::collections::BTreeMap;

use foreread_core::path::WriteId;

/// The appends of one file, in sectors.
#[derive(Debug, Default)]
pub(super) struct AppendOrder {
    /// Sectors added for an append that has not written them.
    unwritten: BTreeMap<usize, WriteId>,
    /// Unfinished appends that have grown the file, with the lowest end since.
    grown: Vec<(WriteId, usize)>,
    /// End of the highest complete append.
    end: usize,
}

impl AppendOrder {
    /// Records that the file has grown for an append.
    pub(super) fn grow(&mut self, append: WriteId, sectors: std::ops::Range<usize>) {
        self.unwritten.extend(sectors.map(|at| (at, append)));
        self.grown.push((append, usize::MAX));
    }

    /// Records that an append is written in full.
    pub(super) fn complete(&mut self, append: WriteId, end: usize) {
        if let Some((_, limit)) = self.grown.iter().find(|(it, _)| *it == append) {
            self.end = self.end.max(end.min(*limit));
        }
    }

    /// Releases the sectors that an append has not written.
    pub(super) fn forget(&mut self, append: WriteId) {
        self.grown.retain(|(it, _)| *it != append);
        self.unwritten.retain(|_, it| *it != append);
    }

    /// Records that a sector was written, cut off, or may hold anything.
    pub(super) fn settle(&mut self, at: usize) {
        self.unwritten.remove(&at);
    }

    /// Records that the file was cut, or that its owner has accepted its length.
    pub(super) fn cut(&mut self, len: usize) {
        self.end = self.end.min(len);
        self.grown.iter_mut().for_each(|(_, limit)| *limit = len.min(*limit));
    }

    pub(super) fn forget_all(&mut self) {
        self.unwritten.clear();
    }

    /// Returns the sectors that a flush beginning now covers and no append has written.
    pub(super) fn below_complete(&self) -> Vec<usize> {
        self.unwritten.range(..self.end).map(|(at, _)| *at).collect()
    }

    /// Returns the first sector that another append has not written yet.
    pub(super) fn first_unwritten(&self) -> Option<usize> {
        self.unwritten.keys().next().copied()
    }
}
