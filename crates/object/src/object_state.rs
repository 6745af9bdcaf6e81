//! What requests of one object have in common.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use object_store::{ObjectMeta, ObjectStore};

use crate::counters::StoreCounters;
use crate::options::StoreOptions;
use crate::pinned_version::PinnedVersion;
use crate::redirects::FoundAt;
use crate::traffic::StoreTraffic;

/// An open object, as its requests share it.
pub(crate) struct ObjectState {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// Its name in errors.
    pub(crate) url: String,
    pub(crate) meta: ObjectMeta,
    pub(crate) pinned: PinnedVersion,
    pub(crate) options: StoreOptions,
    pub(crate) counters: Arc<StoreCounters>,
    /// The requests of its store.
    pub(crate) traffic: Arc<StoreTraffic>,
    /// What it shares its speed with.
    pub(crate) device: String,
    /// Where it was found behind redirects.
    pub(crate) found_at: FoundAt,
    /// Whether the server refuses conditions that hold: then versions are compared by responses
    /// alone.
    pub(crate) refuses_conditions: AtomicBool,
}
