//! Writes the reads of this process to a trace: many threads add reads, one thread writes.
//!
//! In:    reads, from any thread.
//! Out:   a trace in order of time, and its totals.
//! Never: a lost read while the output accepts data; a thread that waits for a failed output.
//!
//! ```text
//!   thread 1 --> shard 1 |::::|  \
//!   thread 2 --> shard 2 |::|     >  the writer takes them, sorts by time, writes
//!   thread 3 --> shard 3 |:::::| /   up to the time at which it began to take
//! ```
//!
//! A read gets its time under the lock of its shard. Once the writer has emptied all shards, no
//! read from before its start can follow, so its output is in order.

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
    /// True once no more reads are accepted.
    is_over: AtomicBool,
    /// Reads of files for which the trace has no number left.
    lost: AtomicU64,
    /// The writer waits here for the end, or for a shard that is half full.
    wake: Condvar,
    is_finished: Mutex<bool>,
}

/// A read to be added.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRead<'r> {
    /// The name of the file.
    pub path: &'r Path,
    /// Number that identifies this path in this log.
    pub handle: u64,
    /// The length of the file.
    pub file_len: u64,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

/// Totals of a finished trace.
#[derive(Debug, Default)]
pub struct ReadLogSummary {
    /// Reads that were written.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
    /// Files that were read.
    pub files: usize,
    /// Missing reads: the trace has no number left for their files.
    pub lost: u64,
    /// Reason why the trace ends early: it cannot be written.
    pub error: Option<io::Error>,
}

/// Reads of some threads, in a separate cache line to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LogShard {
    reads: Mutex<ShardReads>,
    /// Threads wait here until the writer has emptied the shard.
    room: Condvar,
}

#[derive(Debug, Default)]
struct ShardReads {
    entries: Vec<TimedRead>,
    /// Files by handle.
    numbers: HashMap<u64, FileNo>,
    last: Option<(u64, FileNo)>,
}

#[derive(Debug, Default)]
struct LoggedFiles {
    table: FileTable,
    numbers: HashMap<PathBuf, FileNo>,
}

/// Reads taken from the shards that later ones may still precede.
#[derive(Debug, Default)]
struct MergedReads(Vec<TimedRead>);

impl Default for ReadLog {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadLog {
    /// Creates an empty log.
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

    /// Adds a read that the calling thread begins now. Blocks while the buffer is full, that is
    /// while the output is slower than the reads; returns at once after the end.
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

    /// Ends the log: reads added so far are written, later ones ignored.
    pub fn finish(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        *locked(&self.is_finished) = true;
        self.wake.notify_all();
        self.wake_threads();
    }

    /// Writes the reads as they are added, until [`Self::finish`], or until the output fails; reads
    /// then continue unrecorded. Call it once, in a separate thread.
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

    /// Returns the file number of a read; None if the trace has no number left.
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
                // The log does not learn which handles were closed.
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

    /// Wakes threads that wait for room, to see that the log is over.
    fn wake_threads(&self) {
        for shard in &self.shards {
            // Under the lock: otherwise a thread may be between its check and its wait.
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
        // Invalid UTF-8 becomes U+FFFD.
        let number = self.table.add(&read.path.to_string_lossy(), Some(read.file_len)).ok()?;
        self.numbers.insert(read.path.to_owned(), number);
        Some(number)
    }
}

impl MergedReads {
    fn add(&mut self, entries: &[TimedRead]) {
        self.0.extend_from_slice(entries);
    }

    /// Takes the reads before a time, in order of time.
    fn take(&mut self, until_ns: u64) -> Vec<TimedRead> {
        // A stable sort keeps reads of the same time in the order of their thread.
        self.0.sort_by_key(|entry| entry.at_ns);
        let count = self.0.partition_point(|entry| entry.at_ns < until_ns);
        self.0.drain(..count).collect()
    }
}

/// The writer's side: the trace and its known files.
struct LogOutput<W> {
    writer: TraceWriter<W>,
    files: FileTable,
    written: WrittenReads,
}

impl<W: Write> LogOutput<W> {
    fn new(writer: TraceWriter<W>) -> Self {
        Self { writer, files: FileTable::default(), written: WrittenReads::default() }
    }

    /// Adds the new files of the table.
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

/// Returns the number of the calling thread, from 1.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed) % THREADS_MAX;
    }
    // An ending thread may read once more after its number is dropped.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// Locks a mutex. The data of a thread that panicked is consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of buffers; each thread uses one.
const SHARDS: usize = 64;

/// Capacity of a buffer in reads; 10 MiB in total.
const SHARD_READS: usize = 4096;

/// Most handles whose file a buffer remembers.
const HANDLES_MAX: usize = 1024;

/// Most threads of a trace; later threads reuse the numbers.
const THREADS_MAX: u32 = 1 << 20;

/// Longest time that a read stays only in memory.
const WRITE_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
