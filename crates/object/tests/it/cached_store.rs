//! `CachedStore`: what every store has to do, and what it saves.
//!
//! In:    `object_store`'s own integration tests; a store below that counts.
//! Out:   how many requests reach it.
//! Never: a claim about time.

#![expect(clippy::cast_possible_truncation, reason = "small objects, and bytes of numbers")]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use foreread::Engine;
use foreread_object::object_store::integration;
use foreread_object::object_store::memory::InMemory;
use foreread_object::object_store::path::Path;
use foreread_object::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use foreread_object::{CachedStore, StoreOptions};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};

fn engine() -> Engine {
    Engine::builder().memory(32 << 20).learn_max_window().build().unwrap()
}

fn cached() -> CachedStore {
    CachedStore::new(Arc::new(InMemory::new()), engine())
}

#[tokio::test]
async fn the_cached_store_passes_the_tests_of_object_store() {
    let store = cached();
    integration::put_get_delete_list(&store).await;
    integration::get_opts(&store).await;
    integration::put_opts(&store, true).await;
    integration::put_get_attributes(&store).await;
    integration::list_uses_directories_correctly(&store).await;
    integration::list_with_delimiter(&store).await;
    integration::list_with_offset_exclusivity(&store).await;
    integration::rename_and_copy(&store).await;
    integration::copy_if_not_exists(&store).await;
    integration::copy_rename_nonexistent_object(&store).await;
    integration::stream_get(&store).await;
    integration::multipart_race_condition(&store, true).await;
    integration::multipart_out_of_order(&store).await;
    let missing = integration::get_nonexistent_object(&store, None).await;
    assert!(missing.is_err(), "{missing:?}");
}

/// A store in memory that counts.
#[derive(Debug, Default)]
struct CountingStore {
    inner: InMemory,
    gets: AtomicU64,
    heads: AtomicU64,
    bytes: AtomicU64,
    /// Attributes without `ETag`, and the same date for all of them, as of a plain web server
    /// within a second.
    is_untagged: AtomicBool,
    /// GETs are not answered.
    hangs_gets: AtomicBool,
    /// GETs are refused, HEADs are not: an archived object.
    refuses_gets: AtomicBool,
    /// Writes are done, and no answer comes.
    hangs_writes: AtomicBool,
}

impl CountingStore {
    async fn hang_if(&self, hangs: &AtomicBool) {
        if hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    fn counts(&self) -> (u64, u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        (count(&self.gets), count(&self.heads), count(&self.bytes))
    }
}

impl fmt::Display for CountingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountingStore")
    }
}

#[async_trait]
impl ObjectStore for CountingStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let is_untagged = self.is_untagged.load(Ordering::SeqCst);
        let mut options = options;
        if is_untagged {
            options.if_unmodified_since = None;
        }
        if !is_head && self.refuses_gets.load(Ordering::SeqCst) {
            let (path, source) = (location.to_string(), "InvalidObjectState".into());
            return Err(Error::PermissionDenied { path, source });
        }
        let mut result = self.inner.get_opts(location, options).await?;
        if is_untagged {
            result.meta.e_tag = None;
            result.meta.last_modified = (UNIX_EPOCH + Duration::from_secs(1_000_000_000)).into();
        }
        if is_head {
            self.heads.fetch_add(1, Ordering::SeqCst);
        } else {
            self.hang_if(&self.hangs_gets).await;
            self.gets.fetch_add(1, Ordering::SeqCst);
            self.bytes.fetch_add(result.range.end - result.range.start, Ordering::SeqCst);
        }
        Ok(result)
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let result = self.inner.put_opts(location, payload, options).await;
        self.hang_if(&self.hangs_writes).await;
        result
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let result = self.inner.copy_opts(from, to, options).await;
        self.hang_if(&self.hangs_writes).await;
        result
    }
}

/// A cached store around one that counts, with an object.
async fn with_object(len: usize) -> (CachedStore, Arc<CountingStore>, Path, Bytes) {
    let below = Arc::new(CountingStore::default());
    let key = Path::from("table");
    let bytes: Vec<u8> = (0..len).map(|at| (at / 3 + at / 4096) as u8).collect();
    let bytes = Bytes::from(bytes);
    below.put(&key, bytes.clone().into()).await.unwrap();
    (CachedStore::new(Arc::clone(&below) as Arc<dyn ObjectStore>, engine()), below, key, bytes)
}

#[tokio::test]
async fn a_second_read_sends_no_request() {
    let (store, below, key, bytes) = with_object(3_000_000).await;
    assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), bytes);
    let first = below.counts();
    assert_eq!((first.1, first.2), (0, 3_000_001), "no HEAD; a byte to open it, then each once");
    assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), bytes);
    assert_eq!(store.get_range(&key, 5..2_000_000).await.unwrap(), bytes.slice(5..2_000_000));
    assert_eq!(store.head(&key).await.unwrap().size, 3_000_000);
    assert_eq!(below.counts(), first);
}

/// `head` of an object that is open, or was read, cost a request, and one of an archived object was
/// an error once GET decided.
#[tokio::test]
async fn head_is_answered_from_what_is_known_and_below_if_the_bytes_are_refused() {
    let (store, below, key, bytes) = with_object(10_000).await;
    assert_eq!(store.head(&key).await.unwrap().size, 10_000);
    let opened = below.counts();
    assert_eq!((opened.0, opened.1), (1, 0), "a GET of a byte");
    assert_eq!(store.head(&key).await.unwrap().size, 10_000);
    assert_eq!(below.counts(), opened);
    assert_eq!(store.get_range(&key, 0..10).await.unwrap(), bytes.slice(0..10));
    assert_eq!(below.counts().0, 2, "the range, of the object that HEAD has opened");
    below.refuses_gets.store(true, Ordering::SeqCst);
    let store = store.with_lifetime(Duration::ZERO);
    assert_eq!(store.head(&key).await.unwrap().size, 10_000);
    assert_eq!(below.counts().1, 1);
    let refused = store.get_range(&key, 5000..5010).await.unwrap_err();
    assert!(matches!(refused, Error::PermissionDenied { .. }), "{refused:?}");
}

#[tokio::test]
async fn ranges_are_right_and_bring_no_more_than_their_pages() {
    let (store, below, key, bytes) = with_object(8_000_000).await;
    let ranges: Vec<Range<u64>> =
        vec![7_999_990..8_000_000, 0..1, 4_000_000..4_100_000, 4_050_000..4_060_000, 9..4096];
    let parts = store.get_ranges(&key, &ranges).await.unwrap();
    for (range, part) in ranges.iter().zip(&parts) {
        assert_eq!(*part, bytes.slice(range.start as usize..range.end as usize), "{range:?}");
    }
    let fetched = below.counts().2;
    assert!(fetched <= 1 + 100_000 + 4 * 4096, "{fetched} bytes");
    let outside = store.get_ranges(&key, &[0..9, 8_000_000..8_000_001]).await;
    assert!(outside.is_err(), "{outside:?}");
}

#[tokio::test]
async fn a_write_through_it_is_seen_at_once() {
    let (store, _, key, _) = with_object(100_000).await;
    let read = || async { store.get(&key).await.unwrap().bytes().await.unwrap() };
    assert_eq!(read().await.len(), 100_000);
    store.put(&key, "new".into()).await.unwrap();
    assert_eq!(&read().await[..], b"new");
    let other = Path::from("other");
    store.put(&other, "other".into()).await.unwrap();
    store.rename(&other, &key).await.unwrap();
    assert_eq!(&read().await[..], b"other");
    let mut upload = store.put_multipart(&key).await.unwrap();
    upload.put_part("in parts".into()).await.unwrap();
    upload.complete().await.unwrap();
    assert_eq!(&read().await[..], b"in parts");
    store.delete(&key).await.unwrap();
    assert!(store.get(&key).await.is_err(), "it is gone");
}

/// The attributes are old, and what is cached of the object before its replacement must not be
/// mixed with what comes.
#[tokio::test]
async fn a_write_past_it_is_seen_when_the_attributes_are_old() {
    let (store, below, key, bytes) = with_object(100_000).await;
    let store = store.with_lifetime(Duration::ZERO);
    assert_eq!(store.get_range(&key, 0..10).await.unwrap(), bytes.slice(0..10));
    below.put(&key, vec![9; 200_000].into()).await.unwrap();
    let got = store.get(&key).await.unwrap().bytes().await.unwrap();
    assert!(got.len() == 200_000 && got.iter().all(|byte| *byte == 9));
}

#[tokio::test]
async fn ranges_of_an_object_that_was_replaced_are_those_of_the_new_one() {
    let (store, below, key, bytes) = with_object(1_000_000).await;
    let first = store.get_ranges(&key, &[0..10, 20..30]).await.unwrap();
    assert_eq!(first, [bytes.slice(0..10), bytes.slice(20..30)]);
    below.put(&key, vec![9; 1_000_000].into()).await.unwrap();
    // The attributes are believed still, and the first request finds out.
    let ranges = [0..10, 500_000..500_010];
    let parts = store.get_ranges(&key, &ranges).await.unwrap();
    assert!(parts.iter().all(|part| part[..] == [9; 10]), "{parts:?}");
}

/// Each `get` failed until the attributes were old, for a minute.
#[tokio::test]
async fn a_get_of_an_object_that_was_replaced_is_of_the_new_one() {
    for is_untagged in [false, true] {
        let (store, below, key, bytes) = with_object(3_000_000).await;
        below.is_untagged.store(is_untagged, Ordering::SeqCst);
        assert_eq!(store.get_range(&key, 0..10).await.unwrap(), bytes.slice(0..10));
        below.put(&key, vec![9; 2_000_000].into()).await.unwrap();
        let part = store.get_range(&key, 1_900_000..1_900_010).await.unwrap();
        assert_eq!(part[..], [9; 10]);
        let all = store.get(&key).await.unwrap();
        assert_eq!(all.meta.size, 2_000_000, "untagged: {is_untagged}");
        assert!(all.bytes().await.unwrap().iter().all(|byte| *byte == 9));
    }
}

/// What another program has appended was an error until the attributes were old, for a minute: a
/// reader that takes the length from a listing begins there.
#[tokio::test]
async fn a_range_behind_the_known_end_is_of_the_object_as_it_is_now() {
    let (store, below, key, bytes) = with_object(10_000).await;
    let read = || async { store.get_range(&key, 0..10).await.unwrap() };
    assert_eq!(read().await, bytes.slice(0..10));
    below.put(&key, vec![9; 20_000].into()).await.unwrap();
    assert_eq!(store.get_range(&key, 19_990..20_000).await.unwrap()[..], [9; 10]);
    assert_eq!(read().await[..], [9; 10]);
    below.put(&key, vec![8; 30_000].into()).await.unwrap();
    let parts = store.get_ranges(&key, &[0..10, 29_990..30_000]).await.unwrap();
    assert!(parts.iter().all(|part| part[..] == [8; 10]), "{parts:?}");
    assert!(store.get_range(&key, 30_000..30_010).await.is_err(), "that is behind its end");
    assert!(store.get_ranges(&key, &[0..1, 30_000..30_010]).await.is_err());
    below.inner.delete(&key).await.unwrap();
    let behind = 30_000..30_010;
    let gone = store.get_ranges(&key, std::slice::from_ref(&behind)).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone:?}");
}

#[tokio::test]
async fn an_object_that_was_deleted_by_another_program_is_not_found() {
    let (store, below, key, bytes) = with_object(3_000_000).await;
    assert_eq!(store.get_range(&key, 0..10).await.unwrap(), bytes.slice(0..10));
    below.inner.delete(&key).await.unwrap();
    let gone = store.get_range(&key, 2_500_000..2_500_010).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone:?}");
}

/// A caller that gives a write up does not know whether it was done; what was cached stayed.
#[tokio::test]
async fn a_write_that_its_caller_gives_up_is_seen_all_the_same() {
    let (store, below, key, bytes) = with_object(10_000).await;
    let other = Path::from("other");
    below.put(&other, "other".into()).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), bytes);
    below.hangs_writes.store(true, Ordering::SeqCst);
    assert!(store.put(&key, "new".into()).now_or_never().is_none(), "no answer comes");
    assert_eq!(&store.get(&key).await.unwrap().bytes().await.unwrap()[..], b"new");
    assert!(store.copy(&other, &key).now_or_never().is_none(), "no answer comes");
    assert_eq!(&store.get(&key).await.unwrap().bytes().await.unwrap()[..], b"other");
}

/// The deadline was for ranges only.
#[tokio::test]
async fn a_store_that_does_not_answer_for_attributes_ends_at_the_deadline() {
    let (store, below, key, _) = with_object(10_000).await;
    let deadline = Duration::from_millis(20);
    let store = store.with_options(StoreOptions { deadline, ..StoreOptions::default() });
    below.hangs_gets.store(true, Ordering::SeqCst);
    let error = store.get(&key).await.unwrap_err().to_string();
    assert!(error.contains("table") && error.contains("no answer within 20 ms"), "{error}");
}

/// Of the same length and the same second, a version without `ETag` had the name of the one before
/// in the engine: a reader that had not ended kept its pages there for the readers to come.
#[tokio::test]
async fn a_write_within_a_second_is_seen_also_without_tags() {
    let (store, below, key, bytes) = with_object(10_000).await;
    below.is_untagged.store(true, Ordering::SeqCst);
    let mut before = store.get(&key).await.unwrap().into_stream();
    store.put(&key, vec![9; 10_000].into()).await.unwrap();
    let now = store.get(&key).await.unwrap().bytes().await.unwrap();
    assert!(now.iter().all(|byte| *byte == 9), "bytes of before the write");
    assert_eq!(before.next().await.unwrap().unwrap(), bytes, "read before the write");
}
