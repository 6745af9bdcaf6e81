//! A stream: one reader of one file, used by one thread at a time.

use std::cell::Cell;
use std::sync::Arc;

use foreread_core::sched::Submitter;

use crate::advice::{Advice, Advised};
use crate::error::{EngineError, ReadError};
use crate::handle::Handle;
use crate::pins::PinsInHand;
use crate::reader::StreamReader;

/// A reader of a file, with separate read-ahead state. Returned by [`crate::File::stream`];
/// dropping it ends the stream.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let file = engine.open("/var/lib/db/table")?;
/// let scan = file.stream(); // its windows are its own, whatever else this thread reads
/// scan.advise(foreread::Advice::Sequential);
/// let mut buffer = vec![0; 128 << 10];
/// let mut offset = 0;
/// loop {
///     let n = scan.read_at(&mut buffer, offset)?;
///     if n == 0 {
///         break;
///     }
///     offset += n as u64;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ReadStream {
    pub(crate) handle: Arc<Handle>,
    pub(crate) reader: StreamReader,
    pub(crate) advised: Cell<Advised>,
    pub(crate) pins: PinsInHand,
}

impl ReadStream {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        let (reader, advised) = (StreamReader::new(&handle.file), Cell::new(handle.advice.get()));
        Self { handle, reader, advised, pins: PinsInHand::default() }
    }

    /// Reads into `to` at `offset`. Returns the number of bytes read: less than `to.len()` only at
    /// the end of the file, 0 at or past it.
    ///
    /// # Errors
    ///
    /// If the device fails. The contents of `to` are then unspecified.
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        self.reader.read_at(&self.handle, self.advised.get(), to, offset)
    }

    /// Reads as [`Self::read_at`] does if the file has all of the bytes and all are resident.
    /// Otherwise returns false, and leaves the contents of `to` unspecified. Never blocks.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// let stream = file.stream();
    /// let mut page = [0; 4096];
    /// if !stream.try_read_at(&mut page, 0) {
    ///     // Not in memory: for a thread that may wait.
    ///     stream.read_at(&mut page, 0)?;
    /// }
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn try_read_at(&self, to: &mut [u8], offset: u64) -> bool {
        let file = &*self.handle.file;
        let is_in_file = offset.saturating_add(to.len() as u64) <= file.len().0;
        is_in_file && self.reader.try_read_at(&self.handle, self.advised.get(), to, offset)
    }

    /// Sets the submitter of this stream's requests, which some schedulers use for fairness.
    /// Initially all streams share one submitter.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn set_submitter(&self, submitter: Submitter) -> Result<(), EngineError> {
        Ok(self.reader.set_submitter(&self.handle.file, submitter)?)
    }

    /// Announces the access pattern of this stream's next reads.
    pub fn advise(&self, advice: Advice) {
        self.advised.set(self.advised.get().with(advice));
    }
}

impl Drop for ReadStream {
    fn drop(&mut self) {
        self.reader.close(&self.handle.file.engine);
        self.pins.give_back(&self.handle.file.engine.table);
    }
}
