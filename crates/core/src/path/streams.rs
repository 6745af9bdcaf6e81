//! Streams: they begin, are told what their owner knows, and end.
//!
//! In:    a file that is open, advice.
//! Out:   ids.
//! Never: a search among the streams of other files: each file leads to its own.
//!
//! ```text
//!   file --newest--> stream <--newer, older--> stream <--newer, older--> stream
//! ```

use super::{FileId, IoPath, PathStream, StreamId};
use crate::prefetch::{Advice, StreamState};
use crate::replay::{PathCall, PathOutput};
use crate::sched::Submitter;

impl IoPath {
    /// Begins a stream: each reader of a file, in each thread, has one of its own.
    pub fn stream(&mut self, file: FileId) -> StreamId {
        self.log().did(|| PathCall::Stream { file });
        let state = self.files.get_mut(file).expect("the file is open");
        assert!(!state.is_closing, "{file:?} is closed");
        let older = state.newest_stream;
        let id = self.streams.insert(PathStream { older, ..PathStream::new(file) });
        state.newest_stream = Some(id);
        if let Some(older) = older.and_then(|older| self.streams.get_mut(older)) {
            older.newer = Some(id);
        }
        self.log().gave(|| PathOutput::Stream(id));
        id
    }

    /// Sets what the stream's owner says of it, from its next question on. Of a closed stream:
    /// nothing.
    pub fn advise(&mut self, stream: StreamId, advice: Advice) {
        self.log().did(|| PathCall::Advise { stream, advice });
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.advice = advice;
        }
    }

    /// Sets whether the pages that this stream uses are left to the cache as if they would not be
    /// used again: its uses never make a page active. Of a closed stream: nothing.
    ///
    /// Holds for reads that come here. A caller that serves hits does the same with
    /// [`Found::touch`](crate::table::Found::touch).
    pub fn set_no_reuse(&mut self, stream: StreamId, no_reuse: bool) {
        self.log().did(|| PathCall::SetNoReuse { stream, no_reuse });
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.no_reuse = no_reuse;
        }
    }

    /// Sets the submitter that the stream reads for: some schedulers are fair to submitters. At
    /// first all streams are of the same. Of a closed stream: nothing.
    pub fn set_submitter(&mut self, stream: StreamId, submitter: Submitter) {
        self.log().did(|| PathCall::SetSubmitter { stream, submitter });
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.submitter = submitter;
        }
    }

    /// The stream's next read follows an explicit seek: only the rule `lseek` looks at that. Of a
    /// closed stream: nothing.
    pub fn seeked(&mut self, stream: StreamId) {
        self.log().did(|| PathCall::Seeked { stream });
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.state.seeked = true;
        }
    }

    /// Ends a stream. One of a closed file may be ended too, or not.
    pub fn close_stream(&mut self, stream: StreamId) {
        self.log().did(|| PathCall::CloseStream { stream });
        let Some(PathStream { file, newer, older, .. }) = self.streams.remove(stream) else {
            return;
        };
        if let Some(older) = older.and_then(|older| self.streams.get_mut(older)) {
            older.newer = newer;
        }
        match newer.and_then(|newer| self.streams.get_mut(newer)) {
            Some(newer) => newer.older = older,
            None => {
                let state = self.files.get_mut(file).expect("a file ends with its streams");
                state.newest_stream = older;
            }
        }
    }

    /// Ends all streams of a file.
    pub(super) fn close_streams(&mut self, newest: Option<StreamId>) {
        let mut next = newest;
        while let Some(stream) = next.and_then(|id| self.streams.remove(id)) {
            next = stream.older;
        }
    }
}

impl PathStream {
    pub(super) fn new(file: FileId) -> Self {
        Self {
            file,
            state: StreamState::default(),
            advice: Advice::default(),
            no_reuse: false,
            submitter: Submitter::default(),
            blocked_ns: 0,
            newer: None,
            older: None,
        }
    }
}
