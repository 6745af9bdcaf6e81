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
use object_store::{Attributes, GetOptions, ObjectMeta, ObjectStore};
use tokio::time::Instant;

use super::errors::generic;
use crate::object::Object;
use crate::options::StoreOptions;

/// The objects that are open.
pub(super) struct OpenObjects {
    store: Arc<dyn ObjectStore>,
    engine: Engine,
    /// What their names begin with, in the engine.
    name: String,
    lifetime: Duration,
    options: StoreOptions,
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
    asked: Instant,
    used: u64,
}

impl OpenObjects {
    pub(super) fn new(store: Arc<dyn ObjectStore>, engine: Engine, name: String) -> Self {
        let (lifetime, options) = (LIFETIME, StoreOptions::default());
        Self { store, engine, name, lifetime, options, table: Mutex::default() }
    }

    /// The same with nothing open.
    pub(super) fn anew(&self, lifetime: Option<Duration>, options: Option<StoreOptions>) -> Self {
        Self {
            store: Arc::clone(&self.store),
            engine: self.engine.clone(),
            name: self.name.clone(),
            lifetime: lifetime.unwrap_or(self.lifetime),
            options: options.unwrap_or(self.options),
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
        let head = GetOptions { head: true, ..GetOptions::default() };
        let response = self.store.get_opts(location, head).await?;
        let (meta, attributes) = (response.meta, response.attributes);
        let store = Arc::clone(&self.store);
        let (url, device) = (format!("{}/{location}", self.name), self.name.clone());
        let Some(object) = Object::of_meta(store, meta.clone(), (url, device), self.options) else {
            return Ok(None);
        };
        let opened = self.engine.open_source(object);
        let file = opened.map_err(|error| generic(error.to_string()))?;
        let object = OpenObject { file, meta, attributes };
        let mut table = self.lock();
        let closed = if table.writes == writes {
            table.keep(location.clone(), object.clone())
        } else {
            None
        };
        drop(table);
        // It may be the last handle, and closes a file of the engine.
        drop(closed);
        Ok(Some(object))
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

impl ObjectTable {
    fn find(&mut self, location: &Path, lifetime: Duration) -> Option<OpenObject> {
        self.uses += 1;
        let known = self.open.get_mut(location)?;
        known.used = self.uses;
        // It stays in the table: if it is the same version still, its pages stay, too.
        (known.asked.elapsed() < lifetime).then(|| known.object.clone())
    }

    /// Returns what has to be closed for it.
    fn keep(&mut self, location: Path, object: OpenObject) -> Option<KnownObject> {
        let known = KnownObject { object, asked: Instant::now(), used: self.uses };
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
