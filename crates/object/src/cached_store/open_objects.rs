//! The objects of a cached store that are open in its engine.
//!
//! In:    keys; writes that make what is known of a key old.
//! Out:   files of the engine with their attributes, asked for again when they are old.
//! Never: more than [`OPEN_MAX`] of them: the one used longest ago is closed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foreread::{Engine, File};
use object_store::path::Path;
use object_store::{Attributes, ObjectMeta, ObjectStore};
use tokio::time::Instant;

use super::errors::generic;
use crate::attributes::{AttributesRequest, FirstAsk, ObjectAttributes};
use crate::error::ObjectError;
use crate::last_failure::LastFailure;
use crate::object::{CountedTraffic, Object, uncounted};
use crate::options::StoreOptions;
use crate::redirects::FoundAt;
use crate::retries::Deadline;

/// The objects that are open.
pub(super) struct OpenObjects {
    store: Arc<dyn ObjectStore>,
    engine: Engine,
    /// What their names begin with, in the engine.
    name: String,
    lifetime: Duration,
    options: StoreOptions,
    counted: CountedTraffic,
    table: Mutex<ObjectTable>,
}

/// An object, with what the store says of it.
#[derive(Clone)]
pub(super) struct OpenObject {
    pub(super) file: File,
    pub(super) meta: ObjectMeta,
    pub(super) attributes: Attributes,
}

#[derive(Default)]
struct ObjectTable {
    open: HashMap<Path, KnownObject>,
    /// Of uses, so that they have an order.
    uses: u64,
    /// Of writes: an answer from before one is not kept.
    writes: u64,
}

struct KnownObject {
    object: OpenObject,
    /// When the store was asked; None: it has to be asked again.
    asked: Option<Instant>,
    used: u64,
}

impl OpenObjects {
    pub(super) fn new(store: Arc<dyn ObjectStore>, engine: Engine, name: String) -> Self {
        let (lifetime, options) = (LIFETIME, StoreOptions::default());
        let counted = uncounted(options);
        Self { store, engine, name, lifetime, options, counted, table: Mutex::default() }
    }

    /// The same with nothing open.
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

    /// Opens an object, or finds it; None if it cannot be pinned to a version.
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
        // A date has a resolution of a second, in which a write may replace the object.
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
        // It may be the last handle, and closes a file of the engine.
        drop(closed);
        Ok(Some(object))
    }

    /// Asks for the attributes of an object, within the deadline. The request runs on this crate's
    /// runtime, as those for ranges do: its connection, which they use afterwards, works on also
    /// while the caller's runtime stands still.
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
            deadline.bound(request.ask(FirstAsk::Head)).await
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

    /// What is known of a key is to be asked for again; its pages stay if it is the same version.
    pub(super) fn expire(&self, location: &Path) {
        if let Some(known) = self.lock().open.get_mut(location) {
            known.asked = None;
        }
    }

    /// Forgets a key when a write of it is over: with success, an error, after which it may be
    /// there all the same, or because the caller gave it up.
    pub(super) fn forget_at_end(&self, location: &Path) -> ForgetAtEnd<'_> {
        ForgetAtEnd { objects: self, location: location.clone() }
    }

    /// What is known of a key is old.
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

/// A write that is on its way.
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
        // It stays in the table: if it is the same version still, its pages stay, too.
        let is_believed = known.asked.is_some_and(|asked| asked.elapsed() < lifetime);
        is_believed.then(|| known.object.clone())
    }

    /// Returns what has to be closed for it.
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

/// How long attributes are believed.
const LIFETIME: Duration = Duration::from_secs(60);

/// The files of a large table, at some KiB each.
const OPEN_MAX: usize = 1024;
