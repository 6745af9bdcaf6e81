//! An object store around another one: its reads go through an engine.
//!
//! In:    calls of programs that read object stores, such as parquet readers.
//! Out:   bytes from the engine's cache; all else, and what the cache cannot answer, from the
//!        store below.
//! Never: bytes of a version that a write through this store has replaced. A write that is cached.
//!
//! ```text
//!   get, get_range, get_ranges, head --> attributes known? --> engine: cache, read-ahead, planner
//!   conditions that fail, versions  ------------------------------> the store below
//!   put, copy, rename, delete  --> the store below, then forgotten here
//! ```

mod errors;
mod open_objects;
mod uploads;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use foreread::{Engine, File};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Extensions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
};

use self::errors::{failed, generic};
use self::open_objects::{OpenObject, OpenObjects};
use self::uploads::ForgettingUpload;
use crate::options::StoreOptions;

/// An [`ObjectStore`] around any other one, with the cache, the read-ahead and the range planner
/// of an engine.
///
/// Reads of an object are reads of a file of the engine: what is cached costs no request,
/// sequential readers are read ahead for, and [`get_ranges`](ObjectStore::get_ranges) merges and
/// splits its ranges by what was learnt of the store. Writes go to the store below, and what is
/// cached of the object is forgotten. Clones share everything.
///
/// Attributes of an object are believed for [`Self::with_lifetime`], 60 s by default: for so long a
/// replacement by another program may go unnoticed if all that is read is cached. Bytes of two
/// versions are never mixed in one object.
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
    /// Returns a store that reads from `inner` through `engine`, which other files may use, too.
    #[must_use]
    pub fn new(inner: Arc<dyn ObjectStore>, engine: Engine) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);

        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let objects = OpenObjects::new(Arc::clone(&inner), engine, format!("store-{number}"));
        Self { inner, objects: Arc::new(objects) }
    }

    /// Returns the same with nothing in its tables, and attributes that are believed for this long;
    /// zero asks the store below before each read.
    #[must_use]
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        Self { objects: Arc::new(self.objects.anew(Some(lifetime), None)), ..self }
    }

    /// Returns the same with nothing in its tables, and this deadline for each request. Retries are
    /// those of the store below.
    #[must_use]
    pub fn with_options(self, options: StoreOptions) -> Self {
        Self { objects: Arc::new(self.objects.anew(None, Some(options))), ..self }
    }

    /// An object as a file of the engine; None if it cannot be pinned to a version.
    async fn open(&self, location: &Path) -> object_store::Result<Option<OpenObject>> {
        self.objects.open(location).await
    }

    /// A read of an object that is open. If it has changed since, it is opened once more.
    async fn first_read<T, F: Future<Output = Result<T, foreread::ReadError>>>(
        &self,
        location: &Path,
        object: OpenObject,
        read: impl Fn(File) -> F,
    ) -> object_store::Result<T> {
        let error = match read(object.file.clone()).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.objects.forget(location);
        let again = self.open(location).await?;
        // The same version fails again: once is enough.
        let Some(again) = again.filter(|it| it.meta.e_tag != object.meta.e_tag) else {
            return Err(failed(error));
        };
        read(again.file).await.map_err(failed)
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
        let Some(object) = self.open(location).await? else {
            return self.inner.get_opts(location, options).await;
        };
        // What is known here may be old: only the store below says no.
        if options.check_preconditions(&object.meta).is_err() {
            self.objects.forget(location);
            return self.inner.get_opts(location, options).await;
        }
        let size = object.meta.size;
        let range = match &options.range {
            Some(range) => range.as_range(size).map_err(|error| generic(error.to_string()))?,
            None => 0..size,
        };
        let wanted = if options.head { 0..0 } else { range.clone() };
        let (meta, attributes) = (object.meta.clone(), object.attributes.clone());
        let payload = GetResultPayload::Stream(chunks(&object.file, wanted));
        let extensions = Extensions::default();
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> object_store::Result<Vec<Bytes>> {
        let Some(object) = self.open(location).await? else {
            return self.inner.get_ranges(location, ranges).await;
        };
        let size = object.meta.size;
        let checked: Result<Vec<_>, _> = ranges
            .iter()
            .map(|range| object_store::GetRange::Bounded(range.clone()).as_range(size))
            .collect();
        let wanted = checked.map_err(|error| generic(error.to_string()))?;
        let read = |file: File| {
            let wanted = &wanted;
            async move { file.read_ranges_async(wanted).await }
        };
        let parts = self.first_read(location, object, read).await?;
        Ok(parts.into_iter().map(Bytes::from).collect())
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let result = self.inner.put_opts(location, payload, options).await;
        // Also after an error: it may be there all the same.
        self.objects.forget(location);
        result
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
        let result = self.inner.copy_opts(from, to, options).await;
        self.objects.forget(to);
        result
    }

    async fn rename_opts(
        &self,
        from: &Path,
        to: &Path,
        options: RenameOptions,
    ) -> object_store::Result<()> {
        let result = self.inner.rename_opts(from, to, options).await;
        self.objects.forget(from);
        self.objects.forget(to);
        result
    }
}

/// The bytes of a range, a part at a time: as far as its reader asks, and read ahead by the engine.
fn chunks(file: &File, range: Range<u64>) -> BoxStream<'static, object_store::Result<Bytes>> {
    let stream = file.stream();
    let next = move |(stream, range): (foreread::ReadStream, Range<u64>)| async move {
        let len = (range.end - range.start).min(CHUNK);
        if len == 0 {
            return Ok(None);
        }
        let buffer = vec![0; usize::try_from(len).expect("a chunk is a megabyte at most")];
        let read = stream.read_owned(buffer, range.start);
        let mut on_its_way = Some((read, stream));
        // It owns both: a stream may move to another thread, but not be shared with one.
        let over = std::future::poll_fn(move |context| {
            let (read, stream) = on_its_way.as_mut().expect("it is not polled after its end");
            let got = ready!(read.poll(stream, context));
            let (read, stream) = on_its_way.take().expect("it was there a moment ago");
            Poll::Ready((got, read.into_buffer(), stream))
        });
        let (got, mut buffer, stream) = over.await;
        buffer.truncate(got.map_err(failed)?);
        if buffer.is_empty() {
            return Err(generic("the object ended early".to_owned()));
        }
        let start = range.start + buffer.len() as u64;
        Ok(Some((Bytes::from(buffer), (stream, start..range.end))))
    };
    futures_util::stream::try_unfold((stream, range), next).boxed()
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

/// As much of a body as is handed out at once: a request of the engine.
const CHUNK: u64 = 1 << 20;
