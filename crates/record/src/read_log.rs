//! The reads of this process as a trace: many threads add to it, one writes it.
//!
//! In:    reads, from any thread.
//! Out:   a trace in the order of time, and what it holds.
//! Never: a read that is lost while the output takes what is written; a thread that waits for an
//!        output that has failed.
//!
//! ```text
//!   thread 1 --> shard 1 |::::|  \
//!   thread 2 --> shard 2 |::|     >  the writer takes them, sorts by time, writes
//!   thread 3 --> shard 3 |:::::| /   up to the time at which it began to take
//! ```
//!
//! A read gets its time with the lock of its shard held. So once the writer has emptied all shards,
//! no read from before it began can come, and what it writes is in order.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foreread_trace::{FileNo, FileTable, OutputFormat, TraceWriter};

use crate::clock::now;
use crate::written_reads::{TimedRead, WrittenReads};

/// Reads on their way to a trace.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use foreread_record::{LoggedRead, ReadLog};
/// use foreread_trace::OutputFormat;
///
/// let log = Arc::new(ReadLog::new());
/// let out = std::fs::File::create("program.frt")?;
/// let writer = std::thread::spawn({
///     let log = Arc::clone(&log);
///     move || log.write_to(out, OutputFormat::Foreread, false)
/// });
/// let engine = foreread::Engine::builder().observe_reads({
///     let log = Arc::clone(&log);
///     move |read| {
///         let foreread::ReadEvent { path, handle, file_len, offset, length, .. } = *read;
///         log.add(&LoggedRead { path, handle, file_len, offset, length });
///     }
/// });
/// let file = engine.build()?.open("/var/lib/db/table")?;
/// file.read_at(&mut [0; 4096], 0)?;
///
/// log.finish();
/// let summary = writer.join().expect("the writer does not panic");
/// println!("{} reads of {} files", summary.reads, summary.files);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ReadLog {
    shards: Vec<LogShard>,
    files: Mutex<LoggedFiles>,
    began: Instant,
    /// No other read is taken.
    is_over: AtomicBool,
    /// Reads whose file the trace has no room for.
    lost: AtomicU64,
    /// The writer waits here for the end, or for a shard that is half full.
    wake: Condvar,
    is_finished: Mutex<bool>,
}

/// A read that is added.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRead<'r> {
    /// The name of the file.
    pub path: &'r Path,
    /// A number that stands for this path, and for no other one in this log.
    pub handle: u64,
    /// The length of the file.
    pub file_len: u64,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

/// What a trace holds at its end.
#[derive(Debug, Default)]
pub struct ReadLogSummary {
    /// Reads that were written.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
    /// Files that were read.
    pub files: usize,
    /// Reads that are missing, because the trace has no room for another file.
    pub lost: u64,
    /// Why the trace ends before the reads do: it cannot be written.
    pub error: Option<io::Error>,
}

/// The reads of some threads. In a cache line of its own: threads do not write to each other's.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LogShard {
    reads: Mutex<ShardReads>,
    /// Threads wait here until the writer has taken what is there.
    room: Condvar,
}

#[derive(Debug, Default)]
struct ShardReads {
    entries: Vec<TimedRead>,
    /// Files by the handle.
    numbers: HashMap<u64, FileNo>,
    last: Option<(u64, FileNo)>,
}

#[derive(Debug, Default)]
struct LoggedFiles {
    table: FileTable,
    numbers: HashMap<PathBuf, FileNo>,
}

/// Reads that were taken from the shards, and are not all older than those that may come.
#[derive(Debug, Default)]
struct MergedReads(Vec<TimedRead>);

impl Default for ReadLog {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadLog {
    /// Returns a log without reads.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| LogShard::default()).collect(),
            files: Mutex::default(),
            began: now(),
            is_over: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            wake: Condvar::new(),
            is_finished: Mutex::new(false),
        }
    }

    /// Adds a read, which begins now, by the calling thread. Waits while the buffer is full, which
    /// is where the output takes fewer reads than are made; returns at once after the end.
    pub fn add(&self, read: &LoggedRead<'_>) {
        if read.length == 0 || self.is_over() {
            return;
        }
        let thread = thread_number();
        let shard = &self.shards[thread as usize % SHARDS];
        let mut reads = locked(&shard.reads);
        while reads.entries.len() >= SHARD_READS {
            if self.is_over() {
                return;
            }
            self.wake.notify_one();
            reads = shard.room.wait(reads).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(file) = self.file(&mut reads, read) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let (offset, length) = (read.offset, read.length);
        let at_ns = self.now_ns();
        reads.entries.push(TimedRead { at_ns, thread, file, offset, length });
        if reads.entries.len() == SHARD_READS / 2 {
            self.wake.notify_one();
        }
    }

    /// Ends the log: what was added until now is written, and nothing that follows.
    pub fn finish(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        *locked(&self.is_finished) = true;
        self.wake.notify_all();
        self.wake_threads();
    }

    /// Writes the reads as they are added, until [`Self::finish`] or until the output fails: then
    /// reads go on, and are not recorded. To be called once, in a thread of its own.
    pub fn write_to<W: Write>(
        &self,
        out: W,
        format: OutputFormat,
        hashes_names: bool,
    ) -> ReadLogSummary {
        let mut output = LogOutput::new(TraceWriter::new(out, format, hashes_names));
        let error = self.write_all(&mut output);
        if error.is_err() {
            self.is_over.store(true, Ordering::SeqCst);
            self.wake_threads();
        }
        let LogOutput { writer, files, written: WrittenReads { reads, bytes, .. } } = output;
        ReadLogSummary {
            reads,
            bytes,
            files: if reads > 0 { files.all().len() } else { 0 },
            lost: self.lost.load(Ordering::Relaxed),
            error: error.and_then(|()| writer.finish().map(drop)).err(),
        }
    }

    fn write_all<W: Write>(&self, output: &mut LogOutput<W>) -> io::Result<()> {
        let mut merged = MergedReads::default();
        let mut taken = Vec::new();
        loop {
            let is_last = *locked(&self.is_finished);
            let until = self.now_ns();
            for shard in &self.shards {
                let mut reads = locked(&shard.reads);
                std::mem::swap(&mut reads.entries, &mut taken);
                drop(reads);
                if taken.len() >= SHARD_READS {
                    shard.room.notify_all();
                }
                merged.add(&taken);
                taken.clear();
            }
            output.know(&locked(&self.files).table);
            for entry in merged.take(if is_last { u64::MAX } else { until }) {
                output.write(entry)?;
            }
            if is_last {
                return Ok(());
            }
            let finished = locked(&self.is_finished);
            if !*finished {
                let waited = self.wake.wait_timeout(finished, WRITE_EVERY);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// The number of the file of a read; None if the trace has no room for another one.
    fn file(&self, reads: &mut ShardReads, read: &LoggedRead<'_>) -> Option<FileNo> {
        if let Some((handle, file)) = reads.last
            && handle == read.handle
        {
            return Some(file);
        }
        let file = match reads.numbers.get(&read.handle) {
            Some(file) => *file,
            None => {
                let file = locked(&self.files).number(read)?;
                // Handles that were closed are not known to be.
                if reads.numbers.len() >= HANDLES_MAX {
                    reads.numbers.clear();
                }
                reads.numbers.insert(read.handle, file);
                file
            }
        };
        reads.last = Some((read.handle, file));
        Some(file)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Threads that wait for room find that the log is over.
    fn wake_threads(&self) {
        for shard in &self.shards {
            // With the lock: else a thread may be between its look and its wait.
            drop(locked(&shard.reads));
            shard.room.notify_all();
        }
    }

    fn now_ns(&self) -> u64 {
        let since = now().saturating_duration_since(self.began).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}

impl LoggedFiles {
    fn number(&mut self, read: &LoggedRead<'_>) -> Option<FileNo> {
        if let Some(number) = self.numbers.get(read.path) {
            return Some(*number);
        }
        // Bytes that are no text become U+FFFD.
        let number = self.table.add(&read.path.to_string_lossy(), Some(read.file_len)).ok()?;
        self.numbers.insert(read.path.to_owned(), number);
        Some(number)
    }
}

impl MergedReads {
    fn add(&mut self, entries: &[TimedRead]) {
        self.0.extend_from_slice(entries);
    }

    /// Takes the reads from before a time, in the order of their times.
    fn take(&mut self, until_ns: u64) -> Vec<TimedRead> {
        // Stable: what has the same time stays in the order of its thread.
        self.0.sort_by_key(|entry| entry.at_ns);
        let count = self.0.partition_point(|entry| entry.at_ns < until_ns);
        self.0.drain(..count).collect()
    }
}

/// The writer's side: the trace, and the files that it knows of.
struct LogOutput<W> {
    writer: TraceWriter<W>,
    files: FileTable,
    written: WrittenReads,
}

impl<W: Write> LogOutput<W> {
    fn new(writer: TraceWriter<W>) -> Self {
        Self { writer, files: FileTable::default(), written: WrittenReads::default() }
    }

    /// Takes over the files that have been added.
    fn know(&mut self, table: &FileTable) {
        for file in &table.all()[self.files.all().len()..] {
            let added = self.files.add(&file.name, file.size);
            added.expect("the bounds held for the same files");
        }
    }

    fn write(&mut self, read: TimedRead) -> io::Result<()> {
        self.written.write(read, &mut self.writer, &self.files)
    }
}

/// A number for the calling thread, from 1.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed) % THREADS_MAX;
    }
    // A thread that ends may read once more after its number has gone.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// Locks; what a thread that panicked has left is whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers, of which each thread uses one.
const SHARDS: usize = 64;

/// Reads of a buffer: 10 MiB in all.
const SHARD_READS: usize = 4096;

/// Handles that a buffer knows the file of.
const HANDLES_MAX: usize = 1024;

/// As many as a trace may have; later threads get the numbers of earlier ones.
const THREADS_MAX: u32 = 1 << 20;

/// How long a read is in memory only.
const WRITE_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
