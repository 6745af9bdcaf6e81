//! State shared by all requests of one object.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use object_store::{ObjectMeta, ObjectStore};

use crate::counters::StoreCounters;
use crate::options::StoreOptions;
use crate::pinned_version::PinnedVersion;
use crate::redirects::FoundAt;
use crate::traffic::StoreTraffic;

/// An open object, shared by its requests.
pub(crate) struct ObjectState {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// Name of the object in errors.
    pub(crate) url: String,
    pub(crate) meta: ObjectMeta,
    pub(crate) pinned: PinnedVersion,
    pub(crate) options: StoreOptions,
    pub(crate) counters: Arc<StoreCounters>,
    /// Traffic of its store.
    pub(crate) traffic: Arc<StoreTraffic>,
    /// The device that it shares its speed with.
    pub(crate) device: String,
    /// Location behind redirects, if it was found there.
    pub(crate) found_at: FoundAt,
    /// True if the server refuses conditions that hold. Versions are then compared by responses
    /// alone.
    pub(crate) refuses_conditions: AtomicBool,
}
