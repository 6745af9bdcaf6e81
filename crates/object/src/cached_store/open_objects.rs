//! Objects of a cached store that are open in its engine, with their attributes.
//!
//! Expired attributes are fetched again. At most [`OPEN_MAX`] objects are open; beyond that the
//! least recently used one is closed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foreread::{Engine, File};
use object_store::path::Path;
use object_store::{Attributes, ObjectMeta, ObjectStore};
use tokio::time::Instant;

use super::errors::generic;
use crate::attributes::{AttributesRequest, ObjectAttributes};
use crate::error::ObjectError;
use crate::last_failure::LastFailure;
use crate::object::{CountedTraffic, Object, uncounted};
use crate::options::StoreOptions;
use crate::redirects::FoundAt;
use crate::retries::Deadline;

/// Table of open objects.
pub(super) struct OpenObjects {
    store: Arc<dyn ObjectStore>,
    engine: Engine,
    /// Prefix of their names in the engine.
    name: String,
    lifetime: Duration,
    options: StoreOptions,
    counted: CountedTraffic,
    table: Mutex<ObjectTable>,
}

/// An open object with the attributes that the store reported.
#[derive(Clone)]
pub(super) struct OpenObject {
    pub(super) file: File,
    pub(super) meta: ObjectMeta,
    pub(super) attributes: Attributes,
}

#[derive(Default)]
struct ObjectTable {
    open: HashMap<Path, KnownObject>,
    /// Number of uses so far: the clock of the LRU order.
    uses: u64,
    /// Number of writes so far. An answer to a request from before a write is discarded.
    writes: u64,
}

struct KnownObject {
    object: OpenObject,
    /// Time of the last request for the attributes. None forces the next read to revalidate.
    asked: Option<Instant>,
    used: u64,
}

impl OpenObjects {
    pub(super) fn new(store: Arc<dyn ObjectStore>, engine: Engine, name: String) -> Self {
        let (lifetime, options) = (LIFETIME, StoreOptions::default());
        let counted = uncounted(options);
        Self { store, engine, name, lifetime, options, counted, table: Mutex::default() }
    }

    /// Returns a copy of this table with no object open.
    pub(super) fn anew(&self, lifetime: Option<Duration>, options: Option<StoreOptions>) -> Self {
        let options = options.unwrap_or(self.options);
        Self {
            store: Arc::clone(&self.store),
            engine: self.engine.clone(),
            name: self.name.clone(),
            lifetime: lifetime.unwrap_or(self.lifetime),
            options,
            counted: uncounted(options),
            table: Mutex::default(),
        }
    }

    /// Returns the open object, or opens it. Returns None if it cannot be pinned to a version.
    pub(super) async fn open(&self, location: &Path) -> object_store::Result<Option<OpenObject>> {
        let writes = {
            let mut table = self.lock();
            if let Some(object) = table.find(location, self.lifetime) {
                return Ok(Some(object));
            }
            table.writes
        };
        let asked = Instant::now();
        let (found, found_at) = self.ask(location).await?;
        let (meta, attributes) = (found.meta.clone(), found.attributes.clone());
        let store = Arc::clone(&self.store);
        // A date has a resolution of one second; a write within that second may replace the object.
        let epoch = if meta.e_tag.is_some() { String::new() } else { format!("#{writes}") };
        let (url, device) = (format!("{}{epoch}/{location}", self.name), self.name.clone());
        let (name, counted) = ((url, device), self.counted.clone());
        let object = Object::of_attributes(store, found, name, self.options, counted, found_at);
        let Some(object) = object else { return Ok(None) };
        let opened = self.engine.open_source(object);
        let file = opened.map_err(|error| generic(error.to_string()))?;
        let object = OpenObject { file, meta, attributes };
        let mut table = self.lock();
        let closed = if table.writes == writes {
            table.keep(location.clone(), object.clone(), asked)
        } else {
            None
        };
        drop(table);
        // This may drop the last handle, which closes a file of the engine; so the lock is not held
        // here.
        drop(closed);
        Ok(Some(object))
    }

    /// Fetches the attributes of an object within the deadline. The request runs on this crate's
    /// runtime, like range requests, which reuse its connection: it stays driven even while the
    /// caller's runtime is blocked.
    async fn ask(&self, location: &Path) -> object_store::Result<(ObjectAttributes, FoundAt)> {
        let (store, key, options) = (Arc::clone(&self.store), location.clone(), self.options);
        let runtime = self.counted.1.owner.runtime();
        let runtime = runtime.map_err(|error| generic(format!("{location}: {error}")))?;
        let (failure, found_at) = (LastFailure::default(), FoundAt::default());
        let (noted, found) = (failure.clone(), found_at.clone());
        let asked = runtime.spawn(async move {
            let deadline = Deadline::of(&options);
            let request = AttributesRequest {
                store: &*store,
                location: &key,
                options: &options,
                deadline: &deadline,
                failure: &noted,
                found_at: &found,
            };
            deadline.bound(request.ask()).await
        });
        match asked.await.map_err(|error| generic(format!("{location}: {error}")))? {
            Some(answered) => Ok((answered?, found_at)),
            None => {
                let (url, last_failure) = (format!("{}/{location}", self.name), failure.text());
                let deadline = options.deadline;
                let error = ObjectError::TimedOut { url, range: None, deadline, last_failure };
                Err(generic(error.to_string()))
            }
        }
    }

    /// Forces the next read to fetch the attributes again. Cached pages stay if the version is
    /// unchanged.
    pub(super) fn expire(&self, location: &Path) {
        if let Some(known) = self.lock().open.get_mut(location) {
            known.asked = None;
        }
    }

    /// Returns a guard that forgets a key when a write of it ends: successfully, with an error
    /// (after which the object may exist all the same), or because the caller dropped it.
    pub(super) fn forget_at_end(&self, location: &Path) -> ForgetAtEnd<'_> {
        ForgetAtEnd { objects: self, location: location.clone() }
    }

    /// Drops the entry of a key.
    pub(super) fn forget(&self, location: &Path) {
        let mut table = self.lock();
        table.writes += 1;
        let closed = table.open.remove(location);
        drop(table);
        drop(closed);
    }

    fn lock(&self) -> MutexGuard<'_, ObjectTable> {
        // Nothing panics while it holds this lock.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write in flight.
pub(super) struct ForgetAtEnd<'a> {
    objects: &'a OpenObjects,
    location: Path,
}

impl Drop for ForgetAtEnd<'_> {
    fn drop(&mut self) {
        self.objects.forget(&self.location);
    }
}

impl ObjectTable {
    fn find(&mut self, location: &Path, lifetime: Duration) -> Option<OpenObject> {
        self.uses += 1;
        let known = self.open.get_mut(location)?;
        known.used = self.uses;
        // The entry stays in the table: if the version is unchanged, its pages stay, too.
        let is_believed = known.asked.is_some_and(|asked| asked.elapsed() < lifetime);
        is_believed.then(|| known.object.clone())
    }

    /// Inserts an object and returns the evicted one, which the caller closes after unlocking.
    fn keep(&mut self, location: Path, object: OpenObject, asked: Instant) -> Option<KnownObject> {
        let known = KnownObject { object, asked: Some(asked), used: self.uses };
        if let Some(before) = self.open.insert(location, known) {
            return Some(before);
        }
        if self.open.len() <= OPEN_MAX {
            return None;
        }
        let oldest = self.open.iter().min_by_key(|(_, known)| known.used);
        let oldest = oldest.map(|(location, _)| location.clone());
        oldest.and_then(|location| self.open.remove(&location))
    }
}

/// Default lifetime of attributes.
const LIFETIME: Duration = Duration::from_secs(60);

/// Enough for the files of a large table, at some KiB each.
const OPEN_MAX: usize = 1024;
