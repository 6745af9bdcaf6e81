//! The identities of sources: which of them are the same file.
//!
//! In:    the identity that a source states.
//! Out:   one address for each identity that is in use.
//! Never: a name kept after its last file is closed, but for the table's own room.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::contract::Source;
use super::errors::LastError;
use super::identity::SourceIdentity;

/// A source that is open.
pub(crate) struct OpenSource {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) errors: Arc<LastError>,
    /// Shared by all that have the same.
    identity: Arc<SourceIdentity>,
    /// The number of what it lies on with others, if it says so: not that of a disk.
    pub(crate) disk: Option<u64>,
}

impl OpenSource {
    /// Asks the source what it lies on: not under the mutex of an engine.
    pub(super) fn new(source: impl Source, identity: Arc<SourceIdentity>) -> Self {
        let disk = source.device().map(|device| {
            let mut hasher = DefaultHasher::new();
            device.hash(&mut hasher);
            hasher.finish() | 1 << 63
        });
        Self { source: Arc::new(source), errors: Arc::default(), identity, disk }
    }

    /// A number that no other identity in use has.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.identity).addr()
    }
}

impl fmt::Debug for OpenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSource").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The identities that are in use.
#[derive(Debug, Default)]
pub(crate) struct SourceNames(Mutex<HashMap<SourceIdentity, Weak<SourceIdentity>>>);

impl SourceNames {
    /// The one that all sources of this identity share.
    pub(super) fn shared(&self, identity: SourceIdentity) -> Arc<SourceIdentity> {
        // Nothing panics while it holds this lock.
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = names.get(&identity).and_then(Weak::upgrade) {
            return shared;
        }
        if names.len() == names.capacity() {
            names.retain(|_, shared| shared.strong_count() > 0);
        }
        let shared = Arc::new(identity.clone());
        names.insert(identity, Arc::downgrade(&shared));
        shared
    }
}
