//! Scans a few columns of a parquet file, with and without `CachedStore` around the store.
//!
//! ```console
//! $ cargo run -p foreread-object --example parquet_projection
//! ```
//!
//! In:    nothing: the table is in memory, behind a store with 20 ms latency.
//! Out:   requests, bytes and time of each scan.
//! Never: a request to another machine.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use async_trait::async_trait;
use bytes::Bytes;
use foreread::Engine;
use foreread_object::CachedStore;
use foreread_object::object_store::memory::InMemory;
use foreread_object::object_store::path::Path;
use foreread_object::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ArrowWriter, ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use tokio::time::Instant;

/// Row groups of the table.
pub const GROUPS: u64 = 6;
/// Rows of each group.
pub const ROWS: u64 = 40_000;
/// Number of columns.
pub const WIDTH: u64 = 12;
/// Columns that the scan reads.
pub const COLUMNS: [usize; 2] = [3, 9];

/// A store in memory that delays and counts its requests.
#[derive(Debug)]
pub struct FarStore {
    inner: InMemory,
    latency: Duration,
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// Result and cost of a scan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ScanCost {
    /// Number of rows.
    pub rows: usize,
    /// Wrapping sum of all values read.
    pub sum: i64,
    /// Requests sent to the store.
    pub requests: u64,
    /// Bytes received from the store.
    pub bytes: u64,
}

impl FarStore {
    /// Creates a store with the table at `table.parquet`.
    ///
    /// # Errors
    ///
    /// If the table cannot be written.
    pub async fn with_table(latency: Duration) -> std::result::Result<Self, Box<dyn Error>> {
        let inner = InMemory::new();
        inner.put(&location(), table()?.into()).await?;
        let (requests, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { inner, latency, requests, bytes })
    }

    fn counts(&self) -> (u64, u64) {
        (self.requests.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Scans the columns through `store`; `far` counts the requests that reach it.
///
/// # Errors
///
/// If the table cannot be read.
pub async fn scan(
    store: Arc<dyn ObjectStore>,
    far: &FarStore,
) -> std::result::Result<ScanCost, Box<dyn Error>> {
    let before = far.counts();
    let size = store.head(&location()).await?.size;
    let reader = ObjectReader { store, size };
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
    let projection = ProjectionMask::leaves(builder.parquet_schema(), COLUMNS);
    let mut batches = builder.with_projection(projection).build()?;
    let (mut rows, mut sum) = (0, 0_i64);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        rows += batch.num_rows();
        for column in batch.columns() {
            let numbers = column.as_any().downcast_ref::<Int64Array>().ok_or("numbers")?;
            sum = numbers.values().iter().fold(sum, |sum, value| sum.wrapping_add(*value));
        }
    }
    let after = far.counts();
    Ok(ScanCost { rows, sum, requests: after.0 - before.0, bytes: after.1 - before.1 })
}

/// Reader that parquet uses for a file of a store.
struct ObjectReader {
    store: Arc<dyn ObjectStore>,
    size: u64,
}

impl AsyncFileReader for ObjectReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        Box::pin(async move { self.store.get_range(&location(), range).await.map_err(external) })
    }

    /// Reads all column chunks of a row group at once: the store merges ranges into requests.
    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        Box::pin(async move { self.store.get_ranges(&location(), &ranges).await.map_err(external) })
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        Box::pin(async move {
            let size = self.size;
            let metadata = ParquetMetaDataReader::new().with_prefetch_hint(Some(FOOTER));
            Ok(Arc::new(metadata.load_and_finish(self, size).await?))
        })
    }
}

fn external(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// First read at the end of the file, larger than the metadata of this table.
const FOOTER: usize = 64 << 10;

fn location() -> Path {
    Path::from("table.parquet")
}

/// Returns a parquet file of numbers that do not compress well.
fn table() -> std::result::Result<Vec<u8>, Box<dyn Error>> {
    let mut writer = None;
    for group in 0..GROUPS {
        let column = |column: u64| {
            let number = |row: u64| {
                let key = (group * ROWS + row) * WIDTH + column;
                key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).cast_signed()
            };
            let numbers: Int64Array = (0..ROWS).map(number).collect();
            (format!("c{column}"), Arc::new(numbers) as ArrayRef)
        };
        let batch = RecordBatch::try_from_iter((0..WIDTH).map(column))?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(ArrowWriter::try_new(Vec::new(), batch.schema(), None)?),
        };
        writer.write(&batch)?;
        // Ends the row group.
        writer.flush()?;
    }
    Ok(writer.ok_or("no groups")?.into_inner()?)
}

#[async_trait]
impl ObjectStore for FarStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        tokio::time::sleep(self.latency).await;
        let is_head = options.head;
        let result = self.inner.get_opts(location, options).await?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        if !is_head {
            self.bytes.fetch_add(result.range.end - result.range.start, Ordering::Relaxed);
        }
        Ok(result)
    }

    async fn put_opts(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(to, bytes, how).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(to, how).await
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
        self.inner.copy_opts(from, to, options).await
    }
}

impl fmt::Display for FarStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FarStore")
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let far = Arc::new(FarStore::with_table(Duration::from_millis(20)).await?);
    let engine = Engine::builder().memory(64 << 20).learn_max_window().build()?;
    let cached = Arc::new(CachedStore::new(Arc::clone(&far) as _, engine));
    let stores: [(&str, Arc<dyn ObjectStore>); 3] =
        [("bare", Arc::clone(&far) as _), ("cached", Arc::clone(&cached) as _), ("again", cached)];
    for (name, store) in stores {
        let start = Instant::now();
        let ScanCost { rows, requests, bytes, .. } = scan(store, &far).await?;
        let ms = start.elapsed().as_millis();
        println!("{name:>6}: {rows} rows, {requests} requests, {bytes} bytes, {ms} ms");
    }
    Ok(())
}
