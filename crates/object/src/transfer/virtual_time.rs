//! Transfers from a store that is late and wrong at random, in virtual time.
//!
//! `OBJECT_SCHEDULES=100000 SEED=1` runs more of them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use tokio::time::{Instant, sleep};

use super::*;
use crate::object::{Object, uncounted};
use crate::options::StoreOptions;
use crate::traffic::StoreTraffic;

const LEN: u64 = 300_000;

/// A store that derives its answers from a seed.
#[derive(Debug)]
struct RandomStore {
    state: AtomicU64,
    gets: AtomicU64,
    /// Broken bodies so far; each is requested once more at most.
    broken: AtomicU64,
}

/// Fault in a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wrong {
    Nothing,
    Error,
    NoAnswer,
    OtherRange,
    OtherVersion,
    Short,
    Long,
    BrokenBody,
    StalledBody,
}

impl Wrong {
    const ALL: [Self; 8] = [
        Self::Error,
        Self::NoAnswer,
        Self::OtherRange,
        Self::OtherVersion,
        Self::Short,
        Self::Long,
        Self::BrokenBody,
        Self::StalledBody,
    ];
}

fn bytes(version: u64, range: Range<u64>) -> Vec<u8> {
    let byte = |offset: u64| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ version) >> 56) as u8;
    range.map(byte).collect()
}

fn meta(version: u64) -> ObjectMeta {
    ObjectMeta {
        location: Path::from("key"),
        last_modified: std::time::UNIX_EPOCH.into(),
        size: LEN,
        e_tag: Some(format!("\"{version}\"")),
        version: None,
    }
}

fn failed(why: &'static str) -> Error {
    Error::Generic { store: "random", source: why.into() }
}

impl RandomStore {
    fn new(seed: u64) -> Self {
        let (gets, broken) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { state: AtomicU64::new(seed), gets, broken }
    }

    fn below(&self, end: u64) -> u64 {
        let step = |state: u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let state = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        (state.expect("a step is always taken") >> 33) % end
    }

    /// Returns 20 to 40 ms, and ten times as much for one request in 100.
    fn latency(&self) -> Duration {
        let slow = if self.below(100) == 0 { 10 } else { 1 };
        Duration::from_micros((20_000 + self.below(20_000)) * slow)
    }
}

impl fmt::Display for RandomStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("random")
    }
}

#[async_trait]
impl ObjectStore for RandomStore {
    async fn get_opts(&self, _: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        let wrong = match self.below(10) {
            0 => Wrong::ALL[usize::try_from(self.below(8)).expect("it is small")],
            _ => Wrong::Nothing,
        };
        sleep(self.latency()).await;
        let mut range = match options.range {
            Some(GetRange::Bounded(range)) => range,
            _ => 0..LEN,
        };
        let version = u64::from(wrong == Wrong::OtherVersion);
        match wrong {
            Wrong::Error => return Err(failed("sorry")),
            Wrong::NoAnswer => std::future::pending().await,
            Wrong::OtherRange => range = range.start / 2..range.start / 2 + 1000,
            Wrong::Nothing
            | Wrong::OtherVersion
            | Wrong::Short
            | Wrong::Long
            | Wrong::BrokenBody
            | Wrong::StalledBody => {}
        }
        let mut body = bytes(version, range.clone());
        let half = body.len() / 2;
        if matches!(wrong, Wrong::Short | Wrong::BrokenBody | Wrong::StalledBody) {
            body.truncate(half);
        } else if wrong == Wrong::Long {
            body.push(7);
        }
        let parts: Vec<_> =
            body.chunks(10_000).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
        let parts = stream::iter(parts);
        let payload = if wrong == Wrong::BrokenBody {
            self.broken.fetch_add(1, Ordering::Relaxed);
            parts.chain(stream::iter([Err(failed("broken"))])).boxed()
        } else if wrong == Wrong::StalledBody {
            parts.chain(stream::pending()).boxed()
        } else {
            parts.boxed()
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            attributes: Default::default(),
            meta: meta(version),
            range,
            extensions: Default::default(),
        })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> StoreResult<PutResult> {
        Err(failed("read only"))
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        Err(failed("read only"))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        locations
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        stream::empty().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> StoreResult<ListResult> {
        Err(failed("not listed"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> StoreResult<()> {
        Err(failed("read only"))
    }
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[tokio::test(start_paused = true)]
async fn in_virtual_time_each_transfer_ends_with_right_bytes_or_an_error() {
    let (count, seed) = (from_environment("OBJECT_SCHEDULES", 3000), from_environment("SEED", 1));
    let store = Arc::new(RandomStore::new(seed));
    let options = StoreOptions { deadline: Duration::from_secs(1), ..StoreOptions::default() };
    let counted = uncounted(options);
    let counters = Arc::clone(&counted.0);
    let below: Arc<dyn ObjectStore> = Arc::<RandomStore>::clone(&store);
    let name = ("random:key".to_owned(), "random".to_owned());
    let object = Object::new(below, meta(0), name, options, counted).expect("it has a tag");
    let (mut right, mut failed) = (0, 0);
    for number in 0..count {
        let start = store.below(LEN - 50_000);
        let range = start..start + 1 + store.below(50_000);
        let (is_demand, started) = (store.below(4) > 0, Instant::now());
        let mut got = Vec::new();
        let request = RangeRequest::new(object.state(), range.clone());
        let copied = copy(object.state(), &request, not_joined(is_demand), &mut got);
        let copied = request.deadline.bound(copied).await;
        let what = format!("schedule {number}, SEED={seed}");
        assert!(started.elapsed() <= options.deadline + Duration::from_millis(1), "{what}");
        match copied {
            Some(Ok(())) => {
                assert!(got == bytes(0, range), "{what}: other bytes");
                right += 1;
            }
            Some(Err(error)) => {
                let error = error.to_string();
                assert!(error.starts_with("random:key: "), "{what}: {error}");
                // Bytes delivered before the error are correct, too.
                assert!(bytes(0, range).starts_with(&got), "{what}: other bytes");
                failed += 1;
            }
            None => failed += 1,
        }
    }
    let (gets, hedged) = (store.gets.load(Ordering::Relaxed), counters.counts().hedged);
    println!("{count} schedules, SEED={seed}: {right} right, {failed} failed, {hedged} copies");
    let broken = store.broken.load(Ordering::Relaxed);
    let once = count + hedged;
    assert!((once..=once + broken).contains(&gets), "{gets} requests, {broken} broken bodies");
    // Requests for the rest of a broken body earn copies as well.
    let earned = (count + broken) / 50;
    assert!(hedged > 0 && hedged <= earned, "{hedged} copies, and 2 % are {earned}");
    assert!(right > failed && failed > 0, "{right} right, {failed} failed");
}

/// A store that refuses all requests for a while, as seen by its client.
#[derive(Debug)]
struct StormyStore {
    inner: RandomStore,
    traffic: Arc<StoreTraffic>,
    over: Instant,
    /// Pause that the store requests.
    asked: Option<Duration>,
    refused: AtomicU64,
}

impl fmt::Display for StormyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stormy")
    }
}

#[async_trait]
impl ObjectStore for StormyStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        let gate = options.extensions.get::<Gated>().cloned().expect("each has one");
        let failure = options.extensions.get::<LastFailure>().cloned().expect("each has one");
        let permit = gate.permit(&self.traffic).await;
        let sent = Instant::now();
        if sent < self.over {
            sleep(self.inner.latency()).await;
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.traffic.answered(sent, Some(503), self.asked);
            failure.was_refused((503, "503"), "<Code>SlowDown</Code>", self.asked);
            return Err(failed("503"));
        }
        let Some(GetRange::Bounded(range)) = options.range else { panic!("a range is asked for") };
        sleep(self.inner.latency()).await;
        self.traffic.answered(sent, Some(206), None);
        let payload = stream::iter([Ok(Bytes::from(bytes(0, range.clone())))]).boxed();
        let mut extensions = Extensions::new();
        extensions.insert(Arc::new(permit));
        let meta = ObjectMeta { location: location.clone(), ..meta(0) };
        let payload = GetResultPayload::Stream(payload);
        Ok(GetResult { payload, attributes: Default::default(), meta, range, extensions })
    }

    async fn put_opts(&self, at: &Path, it: PutPayload, how: PutOptions) -> StoreResult<PutResult> {
        self.inner.put_opts(at, it, how).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, how).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, how).await
    }
}

/// Before retries lasted until the deadline, a read failed after ten refusals although its deadline
/// was far and the store served again; by then each of its pages had been requested alone, from a
/// store that asked for fewer requests.
#[tokio::test(start_paused = true)]
async fn in_virtual_time_reads_outlast_a_storm_of_refusals_with_few_requests() {
    let (count, seed) = (from_environment("OBJECT_SCHEDULES", 3000), from_environment("SEED", 1));
    let random = RandomStore::new(seed);
    for number in 0..count / 100 {
        let options = StoreOptions::default();
        let storm = Duration::from_millis(1 + random.below(20_000));
        let asked = (random.below(2) == 0).then(|| Duration::from_millis(random.below(3000)));
        let (readers, counted) = (1 + random.below(64), uncounted(options));
        let store = Arc::new(StormyStore {
            inner: RandomStore::new(random.below(u64::from(u32::MAX))),
            traffic: Arc::clone(&counted.1),
            over: Instant::now() + storm,
            asked,
            refused: AtomicU64::new(0),
        });
        let what =
            format!("schedule {number}, SEED={seed}: {readers} readers, {storm:?}, {asked:?}");
        let below: Arc<dyn ObjectStore> = Arc::<StormyStore>::clone(&store);
        let name = ("stormy:key".to_owned(), "stormy".to_owned());
        let object = Object::new(below, meta(0), name, options, counted).expect("it has a tag");
        let mut reads = tokio::task::JoinSet::new();
        for reader in 0..readers {
            let object = object.clone();
            let range = reader * 1000..reader * 1000 + 4096;
            reads.spawn(async move {
                let read = read(object.state(), range.clone()).await;
                (range, read)
            });
        }
        while let Some(read) = reads.join_next().await {
            let (range, read) = read.expect("no read panics");
            let read = read.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(read == bytes(0, range), "{what}: other bytes");
        }
        let refused = store.refused.load(Ordering::Relaxed);
        // The first request of each reader, some until the store counts as closed, and its probes.
        assert!(refused <= readers + 40, "{what}: {refused} refused");
        let late = (Instant::now() - store.over).as_secs();
        assert!(late <= 40, "{what}: {late} s after the storm");
    }
}
