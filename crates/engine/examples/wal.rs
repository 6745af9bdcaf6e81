//! A write-ahead log with group commit: many threads append records, and one flush commits them
//! all.
//!
//!     cargo run --example wal
//!
//! In:    records of bytes.
//! Out:   a log; after a crash, each committed record can be read again, in order.
//! Never: a record that is acknowledged before it is durable; a torn record that is read as valid.
//!
//! ```text
//!   record    | length: 4 bytes | checksum: 8 bytes | payload |
//!
//!   thread 1  append  flush ..............  done
//!   thread 2      append  wait ...........  flush .......... done    its append missed the first
//!   thread 3          append  wait .......  wait ........... done    flush; one flush commits both
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard};

use foreread::{Advice, Engine, File, OpenOptions, WriteError};

const HEADER: usize = 12;

/// The payloads of a log, in order.
pub type Records = Vec<Vec<u8>>;

/// A log, open for appending.
#[derive(Debug)]
pub struct Log {
    file: File,
    flushes: Mutex<Flushes>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct Flushes {
    /// Number of the latest flush that has begun.
    begun: u64,
    /// Number of the latest flush that has succeeded.
    succeeded: u64,
    is_one_on_its_way: bool,
}

impl Log {
    /// Opens or creates a log and returns its records. Cuts off a torn record at the end.
    pub fn open(engine: &Engine, path: &Path) -> Result<(Self, Records), Box<dyn Error>> {
        let is_new = !path.exists();
        let file = engine.open_with(path, &OpenOptions::new().write(true).create(true))?;
        if is_new && let Some(directory) = path.parent() {
            std::fs::File::open(directory)?.sync_all()?; // makes the name durable, too
        }
        let stream = file.stream();
        stream.advise(Advice::Sequential);
        let (mut records, mut end) = (Records::new(), 0);
        let mut header = [0; HEADER];
        while stream.read_exact_at(&mut header, end).is_ok() {
            let (len, sum) = header.split_at(4);
            let len = u32::from_le_bytes(len.try_into()?);
            if u64::from(len) > file.len() - end - HEADER as u64 {
                break;
            }
            let mut payload = vec![0; usize::try_from(len)?];
            stream.read_exact_at(&mut payload, end + HEADER as u64)?;
            if sum != checksum(&payload).to_le_bytes() {
                break;
            }
            end += (HEADER + payload.len()) as u64;
            records.push(payload);
        }
        file.set_len(end)?;
        file.sync_data()?;
        let (flushes, has_ended) = (Mutex::default(), Condvar::new());
        Ok((Self { file, flushes, has_ended }, records))
    }

    /// Appends a record and returns once it is durable.
    ///
    /// # Panics
    ///
    /// If the record has 4 GiB or more.
    pub fn commit(&self, payload: &[u8]) -> Result<(), WriteError> {
        let mut record = Vec::with_capacity(HEADER + payload.len());
        let len = u32::try_from(payload.len()).expect("a record has less than 4 GiB");
        record.extend(len.to_le_bytes());
        record.extend(checksum(payload).to_le_bytes());
        record.extend(payload);
        self.file.append(&record)?; // contiguous, even if other threads append

        // A flush covers writes that ended before it began, so the next flush to begin suffices.
        let mut flushes = self.lock();
        let wanted = flushes.begun + 1;
        while flushes.succeeded < wanted {
            if flushes.is_one_on_its_way {
                flushes = self.has_ended.wait(flushes).expect("no thread panics with the lock");
            } else {
                flushes.is_one_on_its_way = true;
                flushes.begun += 1;
                let this = flushes.begun;
                drop(flushes);
                let flushed = self.file.sync_data();
                flushes = self.lock();
                flushes.is_one_on_its_way = false;
                self.has_ended.notify_all();
                flushed?; // a thread that waits for this flush begins the next one
                flushes.succeeded = this;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Flushes> {
        self.flushes.lock().expect("no thread panics with the lock")
    }
}

/// FNV-1a, because it is short; use a CRC in a real log.
fn checksum(bytes: &[u8]) -> u64 {
    let seed = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(seed, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Commits records from four threads, then reads them again.
pub fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("log");
    let engine = Engine::builder().memory(16 << 20).build()?;
    let (log, _) = Log::open(&engine, &path)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let log = &log;
                scope.spawn(move || {
                    (0..50).try_for_each(|n| log.commit(format!("{thread}:{n}").as_bytes()))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    drop(log);
    let (_log, records) = Log::open(&engine, &path)?;
    let flushes = engine.counters()?.path.flushes;
    println!("{} records are durable after {flushes} flushes", records.len());
    Ok(())
}
