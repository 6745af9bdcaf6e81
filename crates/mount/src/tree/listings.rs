//! A cache of listings, with a lifetime and a memory limit.
//!
//! The limit includes evicted listings that are still in use. A directory is listed by one request
//! at a time; if it fails, the waiting threads fail as well.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::log::DamageLog;
use crate::tree::FileTree;
use crate::tree::listing::{DirectoryListing, FIXED_BYTES, ListingBuilder, MemoryCharge};

/// Cache of listings.
pub(super) struct ListingCache {
    tree: Arc<dyn FileTree>,
    lifetime: Duration,
    limit: usize,
    /// Bytes of all listings, including evicted ones that are still in use.
    live: Arc<AtomicUsize>,
    state: Mutex<KnownListings>,
    changed: Condvar,
    log: Arc<DamageLog>,
}

#[derive(Debug, Default)]
struct KnownListings {
    known: HashMap<Arc<str>, KnownListing>,
    /// Order of examination for eviction.
    order: VecDeque<Arc<str>>,
}

#[derive(Debug)]
enum KnownListing {
    Coming(Arc<ListingRequest>),
    There { listing: Arc<DirectoryListing>, is_used: bool },
}

impl KnownListings {
    /// Removes duplicates: a directory that is listed again is queued twice, and the queue must not
    /// grow.
    fn bound_order(&mut self) {
        if self.order.len() > 2 * self.known.len() + SPARE {
            let (known, mut seen) = (&self.known, HashSet::new());
            self.order.retain(|name| known.contains_key(name) && seen.insert(Arc::clone(name)));
        }
    }
}

/// Result of a request, for all threads that wait for it.
type ListingRequest = OnceLock<Result<Arc<DirectoryListing>, (io::ErrorKind, String)>>;

impl ListingCache {
    pub(super) fn new(
        tree: Arc<dyn FileTree>,
        lifetime: Duration,
        limit: usize,
        log: Arc<DamageLog>,
    ) -> Self {
        let (live, state, changed) = (Arc::default(), Mutex::default(), Condvar::new());
        Self { tree, lifetime, limit, live, state, changed, log }
    }

    /// Returns the number of bytes in listings.
    pub(super) fn bytes(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Returns the names in a directory. Lists it if the listing is missing or expired.
    pub(super) fn of(&self, directory: &str, now: Instant) -> io::Result<Arc<DirectoryListing>> {
        let mut state = self.lock();
        let request = match state.known.get_mut(directory) {
            Some(KnownListing::There { listing, is_used }) if listing.expires > now => {
                *is_used = true;
                return Ok(Arc::clone(listing));
            }
            Some(KnownListing::Coming(request)) => {
                let request = Arc::clone(request);
                while request.get().is_none() {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                drop(state);
                return ended(&request);
            }
            Some(KnownListing::There { .. }) | None => Arc::new(ListingRequest::new()),
        };
        let directory: Arc<str> = directory.into();
        let coming = KnownListing::Coming(Arc::clone(&request));
        let before = state.known.insert(Arc::clone(&directory), coming);
        drop(state);
        drop(before);
        // Notifies the waiting threads even if the tree panics.
        let end = RequestEnd { cache: self, directory: &directory, request: &request };
        let listed = self.listed(&directory, now);
        end.with(listed);
        ended(&request)
    }

    /// Marks a listing as expired.
    pub(super) fn expire(&self, directory: &str) {
        let mut state = self.lock();
        let is_there = matches!(state.known.get(directory), Some(KnownListing::There { .. }));
        let expired = if is_there { state.known.remove(directory) } else { None };
        drop(state);
        drop(expired);
    }

    fn listed(&self, directory: &str, now: Instant) -> io::Result<DirectoryListing> {
        let mut builder = ListingBuilder::new();
        let mut charge = MemoryCharge::new(Arc::clone(&self.live));
        let (mut page, mut empty) = (None, 0);
        // A store that returns a token twice would send pages endlessly.
        let mut tokens = HashSet::new();
        loop {
            let listed = self.tree.list(directory, page)?;
            empty = if listed.names.is_empty() { empty + 1 } else { 0 };
            listed.names.into_iter().for_each(|name| builder.add(name));
            listed.left_out.into_iter().for_each(|line| builder.leave_out(line));
            charge.set(FIXED_BYTES + builder.bytes());
            self.make_room(directory)?;
            let Some(next) = &listed.next else { break };
            if !tokens.insert(next.clone()) || empty > EMPTY_MAX {
                let why = format!("{}: the listing does not end", shown(directory));
                return Err(io::Error::other(why));
            }
            page = listed.next;
        }
        let expires = now.checked_add(self.lifetime).unwrap_or(now);
        let (listing, left_out) = builder.finish(expires, charge);
        for line in left_out {
            let slash = if directory.is_empty() { "" } else { "/" };
            self.log.say_once(format!("{directory}{slash}{line}"));
        }
        Ok(listing)
    }

    /// Evicts listings until the remaining ones fit the memory limit.
    fn make_room(&self, directory: &str) -> io::Result<()> {
        let mut state = self.lock();
        while self.bytes() > self.limit {
            let Some(oldest) = state.order.pop_front() else {
                let limit = self.limit >> 20;
                let why = format!(
                    "{}: its listing and others in progress need more than {limit} MiB; raise \
                     --memory, or mount a longer prefix",
                    shown(directory)
                );
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
            };
            match state.known.get_mut(&oldest) {
                Some(KnownListing::There { is_used, .. }) if *is_used => {
                    *is_used = false;
                    state.order.push_back(oldest);
                }
                Some(KnownListing::There { .. }) => {
                    state.known.remove(&oldest);
                }
                // It is queued again once it is complete.
                Some(KnownListing::Coming(_)) | None => {}
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, KnownListings> {
        // No code panics while it holds this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that others may wait for. Dropped without a result, it has failed.
struct RequestEnd<'r> {
    cache: &'r ListingCache,
    directory: &'r Arc<str>,
    request: &'r Arc<ListingRequest>,
}

impl RequestEnd<'_> {
    fn with(self, listed: io::Result<DirectoryListing>) {
        let result = listed.map(Arc::new).map_err(|error| (error.kind(), error.to_string()));
        let _ = self.request.set(result);
    }
}

impl Drop for RequestEnd<'_> {
    fn drop(&mut self) {
        let failed = || Err((io::ErrorKind::Other, "a listing has panicked".to_owned()));
        let result = self.request.get_or_init(failed);
        let mut state = self.cache.lock();
        if let Ok(listing) = result {
            let there = KnownListing::There { listing: Arc::clone(listing), is_used: true };
            state.known.insert(Arc::clone(self.directory), there);
            state.order.push_back(Arc::clone(self.directory));
            state.bound_order();
        } else {
            state.known.remove(&**self.directory);
        }
        drop(state);
        self.cache.changed.notify_all();
    }
}

fn ended(request: &ListingRequest) -> io::Result<Arc<DirectoryListing>> {
    let result = request.get().expect("it is waited for until it has ended");
    result.clone().map_err(|(kind, text)| io::Error::new(kind, text))
}

/// Duplicates tolerated in the queue, beyond twice the number of directories.
const SPARE: usize = 64;

/// Most consecutive pages without a name: a server might send them endlessly.
const EMPTY_MAX: usize = 1000;

/// Returns the directory for display; the root's name is empty.
fn shown(directory: &str) -> &str {
    if directory.is_empty() { "/" } else { directory }
}

impl fmt::Debug for ListingCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lifetime, limit, .. } = self;
        let mut debug = f.debug_struct("ListingCache");
        debug.field("lifetime", lifetime).field("limit", limit).field("bytes", &self.bytes());
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
