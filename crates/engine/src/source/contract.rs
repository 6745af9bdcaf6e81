//! What a source of bytes has to do.
//!
//! In:    a range of bytes that an engine wants.
//! Out:   identity, length, and the bytes, through a [`Reply`].
//! Never: a write.

use std::io;
use std::ops::Range;

use foreread_core::prefetch::LearntDevice;

use super::identity::SourceIdentity;
use super::reply::Reply;

/// Anything that returns bytes for a range: an object store, a file server, another program.
///
/// [`Engine::open_source`](crate::Engine::open_source) opens one. It is then a [`File`](crate::File)
/// like any other, for reading: cache, read-ahead, scheduling, memory bound and counters are the
/// same.
///
/// # Examples
///
/// A source with its bytes in memory, which answers at once.
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
    /// the same identity are one file with one set of pages. The contents of one identity must not
    /// change.
    fn identity(&self) -> SourceIdentity;

    /// Returns the length in bytes. Called once, when the source is opened, in the thread that
    /// opens it; it may block.
    ///
    /// # Errors
    ///
    /// If the length cannot be learnt: then opening fails with this error.
    fn length(&self) -> io::Result<u64>;

    /// Starts a transfer of `range`, which is not empty and ends within the length, and returns
    /// without waiting for it. The bytes are delivered through `reply`, in order, from any thread;
    /// deliver them as they arrive: a reader of the first page does not wait for the last.
    ///
    /// A source that has to check the version of what it reads (`If-Match`) ends with
    /// [`Reply::fail`] when the version has changed, before it delivers bytes.
    fn fetch(&self, range: Range<u64>, reply: Reply);

    /// Names what the source has in common with others, for example its host. The sources of an
    /// engine that name the same are one device: what is learnt of the latency and the parallelism
    /// of one holds for all, and the limit of requests in flight is of all together.
    fn device(&self) -> Option<String> {
        None
    }

    /// Says what its device is like until its own requests have told. It counts where windows are
    /// learnt, and where neither an earlier run nor [`OpenOptions`](crate::OpenOptions) say more.
    /// Without it windows begin small, and each size is tried before the next larger one. If the
    /// first requests take a quarter of the time, or four times as long, it is forgotten, and the
    /// device is learnt as if nothing had been said.
    fn expected_device(&self) -> Option<LearntDevice> {
        None
    }
}
