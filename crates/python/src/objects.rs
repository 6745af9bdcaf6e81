//! Objects of stores, opened by URL without Python: S3-compatible, Google, Azure, web servers.
//! Settings have the names of `object_store`, and override the environment. Store threads never
//! attach to the interpreter, and Ctrl-C interrupts every wait.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foreread_object::{Object, StoreCounts, StoreOptions, Stores};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::blocking_call::wait_for_call;
use crate::errors::{self, EngineForkedError};
use crate::fork::ProcessStamp;
use crate::shutdown::detached;
use crate::waiting::wait;

/// `ETag` of an object, its version, and its modification time in seconds since 1970.
pub(crate) type ObjectVersion = (Option<String>, Option<String>, i64);

/// A name under a prefix and its length. The length is None for a prefix, which ends with `/`, and
/// for a key that no request can name.
pub(crate) type ListedObject = (String, Option<u64>);

type Settings = Vec<(String, String)>;

/// Stores that an engine reads from, with separate clients for each set of settings.
pub(crate) struct EngineStores {
    of_environment: Stores,
    /// Stores with explicit settings, the most recently used one last.
    of_settings: Mutex<VecDeque<(Settings, Stores)>>,
    process: ProcessStamp,
}

impl EngineStores {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        let mut options = StoreOptions::default();
        if let Some(timeout) = timeout {
            options.deadline = timeout;
        }
        let (of_environment, process) = (Stores::new(options), ProcessStamp::now());
        Self { of_environment, of_settings: Mutex::default(), process }
    }

    /// Opens an object of a store.
    pub(crate) fn open(
        &self,
        py: Python<'_>,
        url: &str,
        settings: Settings,
        timeout: Option<Duration>,
    ) -> PyResult<(Object, ObjectVersion)> {
        self.check_process(url)?;
        let refused = |error| errors::of_object(url, error);
        // The first use of a bucket creates its client, which loads the system's certificates.
        let opening = detached(py, || self.of(settings).open_async(url));
        let opening = pin!(opening.map_err(refused)?);
        let object = wait(py, url.as_ref(), opening, timeout)?.map_err(refused)?;
        let meta = object.meta();
        let seconds = meta.last_modified.timestamp();
        let version = (meta.e_tag.clone(), meta.version.clone(), seconds);
        Ok((object, version))
    }

    /// Lists the direct children of a prefix, or all keys that begin with it, sorted.
    pub(crate) fn list(
        &self,
        py: Python<'_>,
        url: &str,
        settings: Settings,
        is_deep: bool,
    ) -> PyResult<Vec<ListedObject>> {
        self.check_process(url)?;
        let (stores, prefix) = (self.of(settings), url.to_owned());
        let list = move || stores.list(&prefix, is_deep);
        let listed = wait_for_call(py, url.as_ref(), list, None)?;
        let listing = listed.map_err(|error| errors::of_object(url, error))?;
        if listing.is_cut {
            let why = "the prefix has too many names for one listing: list a longer prefix";
            return Err(PyOSError::new_err((libc::E2BIG, why, url.to_owned())));
        }
        let listed = listing.names.into_iter().map(|listed| {
            let size = listed.meta.map(|meta| meta.size);
            (listed.name, size)
        });
        // Unreadable names stay in the list; opening one reports the reason.
        let unreadable = listing.unreadable.into_iter().map(|name| (name, None));
        let mut all: Vec<_> = listed.chain(unreadable).collect();
        all.sort();
        Ok(all)
    }

    fn check_process(&self, url: &str) -> PyResult<()> {
        if self.process.is_here() {
            return Ok(());
        }
        let why = "the engine was created before this process was forked: create another one here";
        Err(EngineForkedError::new_err((libc::EOPNOTSUPP, why, url.to_owned())))
    }

    /// Returns the stores with these settings.
    fn of(&self, settings: Settings) -> Stores {
        if settings.is_empty() {
            return self.of_environment.clone();
        }
        // Nothing panics while it holds this lock.
        let mut all = self.of_settings.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().position(|(of, _)| *of == settings);
        let entry = known.and_then(|known| all.remove(known)).unwrap_or_else(|| {
            let stores = self.of_environment.with_settings(settings.clone());
            (settings, stores)
        });
        let stores = entry.1.clone();
        all.push_back(entry);
        if all.len() > SETTINGS_MAX {
            all.pop_front();
        }
        stores
    }

    /// Returns the totals over all stores.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 6] {
        let StoreCounts { requests, retried, hedged, throttled, failed, bytes } =
            self.of_environment.counters();
        [
            ("store_requests", requests),
            ("store_retried", retried),
            ("store_hedged", hedged),
            ("store_throttled", throttled),
            ("store_failed", failed),
            ("store_bytes", bytes),
        ]
    }
}

/// Limit of cached settings: expiring keys are new settings each time. An open file keeps its
/// client.
const SETTINGS_MAX: usize = 64;
