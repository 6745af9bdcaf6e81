//! An object of a store as a source of the engine: fetches the ranges that the engine requests, all
//! of one version.
//!
//! Each range is requested once, apart from retries and hedged copies.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use foreread::Pages;
use foreread::{LearntCost, LearntDevice};
use foreread::{Reply, Source, SourceIdentity};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::attributes::{AttributesRequest, ObjectAttributes};
use crate::counters::StoreCounters;
use crate::error::ObjectError;
use crate::last_failure::LastFailure;
use crate::object_state::ObjectState;
use crate::options::StoreOptions;
use crate::pinned_version::PinnedVersion;
use crate::redirects::FoundAt;
use crate::retries::Deadline;
use crate::traffic::StoreTraffic;
use crate::transfer;

/// Counters of a store's requests, and the gate that admits them.
pub(crate) type CountedTraffic = (Arc<StoreCounters>, Arc<StoreTraffic>);

/// Creates counters and traffic for a store whose requests bypass this crate's client.
pub(crate) fn uncounted(options: StoreOptions) -> CountedTraffic {
    let counters = Arc::<StoreCounters>::default();
    let traffic = StoreTraffic::new(&options, Arc::clone(&counters));
    (counters, traffic)
}

/// An object of a store, in the version found at opening.
///
/// It is a [`Source`]: [`Engine::open_source`](foreread::Engine::open_source) makes it a file. If
/// the object is replaced while it is open, cache misses fail with [`ObjectError::Changed`].
#[derive(Clone)]
pub struct Object(Arc<ObjectState>);

impl Object {
    /// Fetches the attributes of an object, usually by one request, and blocks until they arrive.
    /// Errors name the object by its `url`. Objects of one `device`, such as a bucket, share the
    /// engine's model of its speed.
    ///
    /// [`Stores::open`](crate::Stores::open) does this for a URL.
    ///
    /// # Errors
    ///
    /// If the object does not exist, or the store does not identify its version.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use foreread_object::object_store::{ObjectStoreExt as _, memory::InMemory, path::Path};
    /// use foreread_object::{Object, StoreOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let store = Arc::new(InMemory::new());
    /// let key = Path::from("greeting");
    /// runtime.block_on(store.put(&key, "hello".into()))?;
    /// let options = StoreOptions::default();
    /// let object = Object::open(store, &key, "memory:greeting", "memory", options)?;
    /// let file = foreread::Engine::builder().memory(4 << 20).build()?.open_source(object)?;
    /// let mut bytes = [0; 5];
    /// file.read_at(&mut bytes, 0)?;
    /// assert_eq!(&bytes, b"hello");
    /// # Ok(()) }
    /// ```
    pub fn open(
        store: Arc<dyn ObjectStore>,
        location: &Path,
        url: &str,
        device: &str,
        options: StoreOptions,
    ) -> Result<Self, ObjectError> {
        let counted = uncounted(options);
        let (owner, name) = (counted.1.owner, (url.to_owned(), device.to_owned()));
        let asked = Self::ask(store, location.clone(), name, options, counted);
        let opened = owner.wait(asked);
        opened.map_err(|error| ObjectError::of_process(url, &error))?
    }

    /// Opens an object from a task of the runtime, with shared counters.
    pub(crate) async fn ask(
        store: Arc<dyn ObjectStore>,
        location: Path,
        name: (String, String),
        options: StoreOptions,
        counted: CountedTraffic,
    ) -> Result<Self, ObjectError> {
        let (url, deadline) = (name.0.clone(), Deadline::of(&options));
        let (failure, found_at) = (LastFailure::default(), FoundAt::default());
        let request = AttributesRequest {
            store: &*store,
            location: &location,
            options: &options,
            deadline: &deadline,
            failure: &failure,
            found_at: &found_at,
        };
        let answered = match deadline.bound(request.ask()).await {
            Some(Ok(answered)) => answered,
            Some(Err(error)) => return Err(ObjectError::of(&url, None, &error)),
            None => {
                let (deadline, last_failure) = (options.deadline, failure.text());
                return Err(ObjectError::TimedOut { url, range: None, deadline, last_failure });
            }
        };
        Self::of_attributes(store, answered, name, options, counted, found_at).ok_or_else(|| {
            let why = "the server sends neither ETag nor Last-Modified, so a change of the object \
                       would go unnoticed; copy it to a file";
            ObjectError::Failed { url, range: None, why: why.into() }
        })
    }

    /// Creates an object with known attributes. Returns None if they identify no version.
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        meta: ObjectMeta,
        name: (String, String),
        options: StoreOptions,
        counted: CountedTraffic,
    ) -> Option<Self> {
        let pinned = PinnedVersion::of(&meta)?;
        Some(Self::pinned(store, (meta, pinned), name, options, counted, FoundAt::default()))
    }

    /// Creates an object with the attributes that the store reported. Returns None if they identify
    /// no version.
    pub(crate) fn of_attributes(
        store: Arc<dyn ObjectStore>,
        answered: ObjectAttributes,
        name: (String, String),
        options: StoreOptions,
        counted: CountedTraffic,
        found_at: FoundAt,
    ) -> Option<Self> {
        let pinned = PinnedVersion::of_dated(&answered.meta, answered.states_date)?;
        Some(Self::pinned(store, (answered.meta, pinned), name, options, counted, found_at))
    }

    fn pinned(
        store: Arc<dyn ObjectStore>,
        (meta, pinned): (ObjectMeta, PinnedVersion),
        (url, device): (String, String),
        options: StoreOptions,
        (counters, traffic): CountedTraffic,
        found_at: FoundAt,
    ) -> Self {
        let refuses_conditions = AtomicBool::new(false);
        Self(Arc::new(ObjectState {
            store,
            url,
            meta,
            pinned,
            options,
            counters,
            traffic,
            device,
            found_at,
            refuses_conditions,
        }))
    }

    pub(crate) fn state(&self) -> &Arc<ObjectState> {
        &self.0
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Returns the attributes of the pinned version: length, `ETag`, date.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        &self.0.meta
    }
}

impl Object {
    /// Reads exactly `to.len()` bytes at `offset` by one request, bypassing the cache, and blocks
    /// until they arrive.
    ///
    /// # Errors
    ///
    /// If the range extends past the end of the object, and as reads through the engine do.
    pub fn read_exact_at(&self, to: &mut [u8], offset: u64) -> Result<(), ObjectError> {
        let end = offset.checked_add(to.len() as u64).filter(|end| *end <= self.0.pinned.size);
        let Some(end) = end else {
            let (url, size) = (self.0.url.clone(), self.0.pinned.size);
            let why = format!("{} bytes at {offset} exceed its size of {size}", to.len());
            return Err(ObjectError::Failed { url, range: None, why });
        };
        if to.is_empty() {
            return Ok(());
        }
        let range = offset..end;
        let (state, wanted) = (Arc::clone(&self.0), range.clone());
        let owner = self.0.traffic.owner;
        let read = owner.wait(async move { transfer::read(&state, wanted).await });
        let bytes = read.map_err(|error| ObjectError::of_process(&self.0.url, &error))??;
        to.copy_from_slice(&bytes);
        Ok(())
    }

    /// Returns the name of the device that the object shares its speed with: its bucket, at its
    /// endpoint.
    #[must_use]
    pub fn device_name(&self) -> &str {
        &self.0.device
    }
}

impl Source for Object {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new(self.0.url.clone(), self.0.pinned.text())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.pinned.size)
    }

    fn fetch(&self, range: Range<u64>, reply: Reply) {
        match self.0.traffic.owner.runtime() {
            Ok(runtime) => {
                runtime.spawn(transfer::run(Arc::clone(&self.0), range, reply));
            }
            Err(error) => reply.fail(error),
        }
    }

    fn device(&self) -> Option<String> {
        Some(self.0.device.clone())
    }

    fn expected_device(&self) -> Option<LearntDevice> {
        Some(FAR_STORE)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectState { url, pinned, .. } = &*self.0;
        f.debug_struct("Object").field("url", url).field("pinned", pinned).finish_non_exhaustive()
    }
}

/// Initial model of a store across a network: the first byte takes tens of milliseconds, and each
/// connection is slower than a program can read, so reads need many connections at once. A stream
/// that probed each window size one request at a time would spend its first gigabyte on that. A
/// store in the next room is at least four times as fast, and its model grows from small windows.
const FAR_STORE: LearntDevice = LearntDevice {
    // 32 MiB: 32 requests of 1 MiB.
    window: Pages(1 << 13),
    cost: Some(LearntCost {
        per_request_ns: 40e6,
        // 66 MB/s.
        per_kib_ns: 15_500.0,
        parallel: None,
        min_parallel: 32,
    }),
};

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;

    use super::*;
    use crate::runtime::OwnerProcess;

    /// An offset near 2^64 panicked, and an empty range was an error of the store.
    #[test]
    fn a_range_past_the_end_is_an_error_and_an_empty_one_is_read() {
        let store = Arc::new(InMemory::new());
        let (below, key) = (Arc::clone(&store), Path::from("key"));
        let to = key.clone();
        let here = OwnerProcess::here();
        here.wait(async move { below.put(&to, "0123456789".into()).await }).unwrap().unwrap();
        let object = Object::open(store, &key, "memory:key", "memory", StoreOptions::default());
        let object = object.unwrap();
        for offset in [7, 10, 11, u64::MAX - 3, u64::MAX] {
            let error = object.read_exact_at(&mut [0; 4], offset).unwrap_err().to_string();
            assert!(error.contains(&format!("4 bytes at {offset} exceed")), "{error}");
        }
        let mut bytes = [0; 4];
        object.read_exact_at(&mut bytes, 6).unwrap();
        assert_eq!(&bytes, b"6789");
        object.read_exact_at(&mut [], 10).unwrap();
    }
}
