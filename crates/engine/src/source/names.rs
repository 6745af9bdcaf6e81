//! The table of source identities in use, by which sources of the same identity share one file. A
//! name is dropped after its last file is closed, except that the table keeps its capacity.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::contract::Source;
use super::errors::LastError;
use super::identity::SourceIdentity;

/// An open source.
pub(crate) struct OpenSource {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) errors: Arc<LastError>,
    /// Shared by all sources with the same identity.
    identity: Arc<SourceIdentity>,
    /// The number of the device that it shares with other sources, if it names one: unrelated to
    /// disk numbers.
    pub(crate) disk: Option<u64>,
}

impl OpenSource {
    /// Queries the source for its device. Must not run under an engine's mutex.
    pub(super) fn new(source: impl Source, identity: Arc<SourceIdentity>) -> Self {
        let disk = source.device().map(|device| {
            let mut hasher = DefaultHasher::new();
            device.hash(&mut hasher);
            hasher.finish() | 1 << 63
        });
        Self { source: Arc::new(source), errors: Arc::default(), identity, disk }
    }

    /// Returns a number that is unique among the identities in use.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.identity).addr()
    }
}

impl fmt::Debug for OpenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSource").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The identities in use.
#[derive(Debug, Default)]
pub(crate) struct SourceNames(Mutex<HashMap<SourceIdentity, Weak<SourceIdentity>>>);

impl SourceNames {
    /// Returns the instance that all sources of this identity share.
    pub(super) fn shared(&self, identity: SourceIdentity) -> Arc<SourceIdentity> {
        // No code panics while it holds this lock.
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
