//! The interface that a source of bytes implements. The engine only reads from it.

use std::io;
use std::ops::Range;

use foreread_core::prefetch::LearntDevice;

use super::identity::SourceIdentity;
use super::reply::Reply;

/// A provider of bytes by range: an object store, a file server, another program.
///
/// [`Engine::open_source`](crate::Engine::open_source) opens it as a read-only
/// [`File`](crate::File) like any other, with the same cache, read-ahead, scheduling, memory bound
/// and counters.
///
/// # Examples
///
/// A source that holds its bytes in memory and answers at once.
///
/// ```
/// use std::ops::Range;
/// use foreread::{Reply, Source, SourceIdentity};
///
/// struct Bytes(Vec<u8>);
///
/// impl Source for Bytes {
///     fn identity(&self) -> SourceIdentity {
///         SourceIdentity::new("memory:example", "1")
///     }
///
///     fn length(&self) -> std::io::Result<u64> {
///         Ok(self.0.len() as u64)
///     }
///
///     fn fetch(&self, range: Range<u64>, mut reply: Reply) {
///         let bytes = &self.0[range.start as usize..range.end as usize];
///         match reply.write(bytes) {
///             Ok(()) => reply.finish(),
///             Err(error) => reply.fail(error),
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = foreread::Engine::builder().memory(4 << 20).build()?;
/// let file = engine.open_source(Bytes(vec![7; 100_000]))?;
/// let mut bytes = [0; 10];
/// assert_eq!(file.read_at(&mut bytes, 50_000)?, 10);
/// assert_eq!(bytes, [7; 10]);
/// # Ok(()) }
/// ```
pub trait Source: Send + Sync + 'static {
    /// Returns the name and the version of the contents, for example URL and `ETag`. Sources with
    /// the same identity are one file with one set of pages. The contents of an identity must not
    /// change.
    fn identity(&self) -> SourceIdentity;

    /// Returns the length in bytes. The engine calls this once, on the thread that opens the
    /// source; it may block.
    ///
    /// # Errors
    ///
    /// If the length cannot be determined: opening the source then fails with this error.
    fn length(&self) -> io::Result<u64>;

    /// Starts a transfer of `range`, which is not empty and ends within the length, and returns
    /// without waiting for it. Any thread may deliver the bytes through `reply`, in order. Deliver
    /// them as they arrive: a reader of the first page does not wait for the last.
    ///
    /// A source that checks the version of its contents (`If-Match`) calls [`Reply::fail`] when the
    /// version has changed, before it delivers bytes.
    fn fetch(&self, range: Range<u64>, reply: Reply);

    /// Returns the name of the device that the source shares with others, for example its host.
    /// Sources of an engine that return the same name are one device: they share the latency and
    /// parallelism estimates and the limit of requests in flight.
    fn device(&self) -> Option<String> {
        None
    }

    /// Returns the expected characteristics of the device, used until the engine has measured it.
    /// They apply where windows are learnt, unless an earlier run or
    /// [`OpenOptions`](crate::OpenOptions) provide better ones. Without them windows start small,
    /// and each size is probed before the next larger one. If the first requests take at most a
    /// quarter or at least four times the expected time, the engine drops the expectation and
    /// learns the device from scratch.
    fn expected_device(&self) -> Option<LearntDevice> {
        None
    }
}
