//! An object store that wraps another one and reads through an engine.
//!
//! In:    calls of programs that read object stores, such as parquet readers.
//! Out:   bytes from the engine's cache. Writes, and reads that the cache cannot serve, go to the
//!        wrapped store.
//! Never: bytes of a version that a write through this store has replaced. Writes are not cached.
//!
//! ```text
//!   get, get_range, get_ranges, head --> attributes known? --> engine: cache, read-ahead, planner
//!   conditions that fail, versions  ------------------------------> the store below
//!   put, copy, rename, delete  --> the store below, then forgotten here
//! ```

mod body;
mod errors;
mod open_objects;
mod uploads;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use foreread::{Engine, File};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, Extensions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions,
};

use self::body::Body;
use self::errors::{failed, generic};
use self::open_objects::{OpenObject, OpenObjects};
use self::uploads::ForgettingUpload;
use crate::options::StoreOptions;
use crate::pinned_version::PinnedVersion;

/// An [`ObjectStore`] that wraps any other one and adds the cache, read-ahead and range planner of
/// an engine.
///
/// Reads of an object are reads of a file of the engine: a cache hit costs no request, sequential
/// readers get read-ahead, and [`get_ranges`](ObjectStore::get_ranges) merges and splits its ranges
/// according to the measured speed of the store. Writes go to the wrapped store and drop the cached
/// pages of the object. Clones share everything.
///
/// Attributes of an object stay valid for [`Self::with_lifetime`], 60 s by default. Within that
/// time, a reader served entirely from the cache may miss a replacement by another program. Bytes
/// of two versions are never mixed in one object.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use foreread_object::CachedStore;
/// use foreread_object::object_store::{ObjectStoreExt as _, memory::InMemory, path::Path};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let engine = foreread::Engine::builder().memory(64 << 20).learn_max_window().build()?;
/// let store = CachedStore::new(Arc::new(InMemory::new()), engine);
/// let key = Path::from("table");
/// store.put(&key, "0123456789".into()).await?;
/// assert_eq!(&store.get_range(&key, 2..5).await?[..], b"234");
/// # Ok(()) }) }
/// ```
#[derive(Clone)]
pub struct CachedStore {
    inner: Arc<dyn ObjectStore>,
    objects: Arc<OpenObjects>,
}

impl CachedStore {
    /// Creates a store that reads from `inner` through `engine`. Other files may use the same
    /// engine.
    #[must_use]
    pub fn new(inner: Arc<dyn ObjectStore>, engine: Engine) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);

        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let objects = OpenObjects::new(Arc::clone(&inner), engine, format!("store-{number}"));
        Self { inner, objects: Arc::new(objects) }
    }

    /// Returns this store with no object open, and with this lifetime for attributes. A lifetime of
    /// zero revalidates the attributes before each read.
    #[must_use]
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        Self { objects: Arc::new(self.objects.anew(Some(lifetime), None)), ..self }
    }

    /// Returns this store with no object open, and with this deadline for each request. Retries
    /// remain up to the wrapped store.
    #[must_use]
    pub fn with_options(self, options: StoreOptions) -> Self {
        Self { objects: Arc::new(self.objects.anew(None, Some(options))), ..self }
    }

    /// Streams the remaining chunks of a body. If a chunk fails, the next read revalidates the
    /// object.
    fn rest(
        &self,
        body: Option<Body>,
        location: &Path,
    ) -> BoxStream<'static, object_store::Result<Bytes>> {
        let (objects, location) = (Arc::clone(&self.objects), location.clone());
        let next = move |body: Option<Body>| {
            let (objects, location) = (Arc::clone(&objects), location.clone());
            async move {
                let Some(body) = body else { return Ok(None) };
                let next = body.next().await.inspect_err(|_| objects.expire(&location));
                next.map(Some).map_err(failed)
            }
        };
        futures_util::stream::try_unfold(body, next).boxed()
    }

    /// Opens an object as a file of the engine. Returns None if it cannot be pinned to a version.
    async fn open(&self, location: &Path) -> object_store::Result<Option<OpenObject>> {
        self.objects.open(location).await
    }

    /// Reads from an open object. If the object has changed since, it is reopened once. Returns
    /// None if it changes again: an object that changes so often is left to the wrapped store.
    async fn first_read<T, F: Future<Output = Result<T, foreread::ReadError>>>(
        &self,
        location: &Path,
        object: OpenObject,
        read: impl Fn(File) -> F,
    ) -> object_store::Result<Option<T>> {
        let error = match read(object.file.clone()).await {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        let Some(newer) = self.newer(location, &object).await? else {
            return Err(failed(error));
        };
        match read(newer.file.clone()).await {
            Ok(value) => Ok(Some(value)),
            Err(error) => match self.newer(location, &newer).await? {
                Some(_) => Ok(None),
                None => Err(failed(error)),
            },
        }
    }

    /// Reopens an object after a failed read, if its version has changed. Returns None for the same
    /// version, which would fail again.
    async fn newer(
        &self,
        location: &Path,
        read: &OpenObject,
    ) -> object_store::Result<Option<OpenObject>> {
        self.objects.expire(location);
        let now = self.open(location).await?;
        Ok(now.filter(|now| PinnedVersion::of(&now.meta) != PinnedVersion::of(&read.meta)))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for CachedStore {
    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        if options.version.is_some() {
            return self.inner.get_opts(location, options).await;
        }
        let opened = match self.open(location).await {
            // Attributes may be readable although the bytes are not: a caller who asks for them
            // alone gets the answer to HEAD.
            Err(error) if options.head && is_refused(&error) => None,
            opened => opened?,
        };
        let Some(mut object) = opened else {
            return self.inner.get_opts(location, options).await;
        };
        let mut is_opened_again = false;
        loop {
            // The known attributes may be stale, so only the wrapped store may fail the
            // precondition.
            if options.check_preconditions(&object.meta).is_err() {
                self.objects.forget(location);
                return self.inner.get_opts(location, options).await;
            }
            let size = object.meta.size;
            let range = match options.range.as_ref().map_or(Ok(0..size), |it| it.as_range(size)) {
                Ok(range) => range,
                Err(error) if is_opened_again => return Err(generic(error.to_string())),
                Err(error) => {
                    // The object may have grown since its attributes were fetched.
                    let newer = self.newer(location, &object).await?;
                    object = newer.ok_or_else(|| generic(error.to_string()))?;
                    is_opened_again = true;
                    continue;
                }
            };
            let wanted = if options.head { 0..0 } else { range.clone() };
            // Reads the first bytes before handing out the attributes: this proves that the object
            // still has this version.
            match Body::start(&object.file, wanted).await {
                Ok(body) => {
                    let payload = GetResultPayload::Stream(self.rest(body, location));
                    let OpenObject { meta, attributes, .. } = object;
                    let extensions = Extensions::default();
                    return Ok(GetResult { payload, meta, range, attributes, extensions });
                }
                Err(error) => {
                    let newer = self.newer(location, &object).await?;
                    object = newer.ok_or_else(|| failed(error))?;
                    if is_opened_again {
                        return self.inner.get_opts(location, options).await;
                    }
                    is_opened_again = true;
                }
            }
        }
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> object_store::Result<Vec<Bytes>> {
        let Some(object) = self.open(location).await? else {
            return self.inner.get_ranges(location, ranges).await;
        };
        let (object, wanted) = match within(ranges, object.meta.size) {
            Ok(wanted) => (object, wanted),
            Err(error) => {
                // The object may have grown since its attributes were fetched.
                let newer = self.newer(location, &object).await?.ok_or(error)?;
                let wanted = within(ranges, newer.meta.size)?;
                (newer, wanted)
            }
        };
        let read = |file: File| {
            let wanted = &wanted;
            async move { file.read_ranges_async(wanted).await }
        };
        match self.first_read(location, object, read).await? {
            Some(parts) => Ok(parts.into_iter().map(Bytes::from).collect()),
            None => self.inner.get_ranges(location, ranges).await,
        }
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let _forgotten = self.objects.forget_at_end(location);
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let upload = self.inner.put_multipart_opts(location, options).await?;
        let objects = Arc::clone(&self.objects);
        Ok(Box::new(ForgettingUpload { upload, objects, location: location.clone() }))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let (before, after) = (Arc::clone(&self.objects), Arc::clone(&self.objects));
        let named = locations.inspect(move |location| {
            if let Ok(location) = location {
                before.forget(location);
            }
        });
        let deleted = self.inner.delete_stream(named.boxed());
        let forgotten = deleted.inspect(move |location| {
            if let Ok(location) = location {
                after.forget(location);
            }
        });
        forgotten.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        let _forgotten = self.objects.forget_at_end(to);
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(
        &self,
        from: &Path,
        to: &Path,
        options: RenameOptions,
    ) -> object_store::Result<()> {
        let _forgotten = (self.objects.forget_at_end(from), self.objects.forget_at_end(to));
        self.inner.rename_opts(from, to, options).await
    }
}

/// Returns true if the store refuses the bytes of an object: they are forbidden, or archived.
fn is_refused(error: &Error) -> bool {
    matches!(
        error,
        Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::AlreadyExists { .. }
    )
}

/// Clips ranges to an object of this size. Fails if a range begins at or behind the end.
fn within(ranges: &[Range<u64>], size: u64) -> object_store::Result<Vec<Range<u64>>> {
    let within = |range: &Range<u64>| {
        let range = GetRange::Bounded(range.clone()).as_range(size);
        range.map_err(|error| generic(error.to_string()))
    };
    ranges.iter().map(within).collect()
}

impl fmt::Display for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedStore({})", self.inner)
    }
}

impl fmt::Debug for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}
