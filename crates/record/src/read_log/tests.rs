//! Logs under many threads, slow outputs and outputs that fail.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use foreread_core::units::Nanos;
use foreread_trace::{MAX_LENGTH, TraceReader};

use super::*;

fn entry(at_ns: u64, thread: u32) -> TimedRead {
    TimedRead { at_ns, thread, file: FileNo(0), offset: 0, length: 1 }
}

fn read(path: &str, handle: u64, offset: u64) -> LoggedRead<'_> {
    LoggedRead { path: Path::new(path), handle, file_len: 1 << 30, offset, length: 10 }
}

/// The records of a trace: thread, name, offset.
fn records(trace: &[u8]) -> Vec<(u32, String, u64)> {
    let mut reader = TraceReader::new(trace, "t").unwrap();
    let mut found = Vec::new();
    let mut last = Nanos(0);
    while let Some(record) = reader.next_record().unwrap() {
        assert!(last <= record.at);
        last = record.at;
        let name = reader.files().get(record.file).unwrap().name.clone();
        found.push((record.thread, name, record.offset));
    }
    assert_eq!(reader.out_of_order(), 0);
    found
}

#[test]
fn what_may_still_be_overtaken_is_kept() {
    let mut merged = MergedReads::default();
    merged.add(&[entry(10, 1), entry(30, 1)]);
    merged.add(&[entry(20, 2), entry(30, 2), entry(50, 2)]);
    let times = |entries: Vec<TimedRead>| -> Vec<(u64, u32)> {
        entries.into_iter().map(|entry| (entry.at_ns, entry.thread)).collect()
    };
    // A thread that has its time from 30 on may not have been seen.
    assert_eq!(times(merged.take(30)), [(10, 1), (20, 2)]);
    merged.add(&[entry(40, 1)]);
    assert_eq!(times(merged.take(u64::MAX)), [(30, 1), (30, 2), (40, 1), (50, 2)]);
    assert_eq!(merged.take(u64::MAX), []);
}

#[test]
fn no_read_of_many_threads_is_lost_and_all_are_in_order() {
    let log = Arc::new(ReadLog::new());
    let mut trace = Vec::new();
    let summary = thread::scope(|scope| {
        let writer = scope.spawn(|| log.write_to(&mut trace, OutputFormat::Foreread, false));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let log = &log;
                let name = format!("/file {}", thread % 3);
                scope.spawn(move || {
                    (0..READS).for_each(|n| log.add(&read(&name, thread, n * 10)));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        log.finish();
        writer.join().unwrap()
    });
    assert!(summary.error.is_none(), "{summary:?}");
    assert_eq!((summary.reads, summary.bytes), (THREADS * READS, THREADS * READS * 10));
    assert_eq!((summary.files, summary.lost), (3, 0), "handles of one path are one file");
    let records = records(&trace);
    assert_eq!(records.len() as u64, THREADS * READS);
    let mut next: HashMap<u32, u64> = HashMap::new();
    for (thread, _, offset) in records {
        let expected = next.entry(thread).or_default();
        assert_eq!(offset, *expected, "each thread's reads are in its order");
        *expected += 10;
    }
    assert_eq!(next.len() as u64, THREADS);
}

/// Takes bytes only when it is told to.
struct GatedOutput {
    bytes: Vec<u8>,
    gate: Receiver<()>,
}

impl Write for &mut GatedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An error: the gate is open for good.
        let _ = self.gate.recv();
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn threads_wait_for_a_slow_output_and_lose_nothing() {
    let log = Arc::new(ReadLog::new());
    let (open, gate): (Sender<()>, _) = channel();
    let mut output = GatedOutput { bytes: Vec::new(), gate };
    let many = 20 * SHARD_READS as u64;
    let summary = thread::scope(|scope| {
        let writer = scope.spawn(|| log.write_to(&mut output, OutputFormat::Csv, false));
        let reader = scope.spawn(|| (0..many).for_each(|n| log.add(&read("/file", 1, n * 10))));
        // While the gate is closed the thread cannot be done: the output has taken nothing, and
        // there is room for fewer reads.
        assert!(!reader.is_finished());
        drop(open);
        reader.join().unwrap();
        log.finish();
        writer.join().unwrap()
    });
    assert_eq!((summary.reads, summary.error.is_none()), (many, true));
    assert_eq!(records(&output.bytes).len() as u64, many);
}

/// Has room for so many bytes.
struct FullOutput(usize);

impl Write for FullOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_without_room_ends_the_log_and_no_thread_waits() {
    let log = Arc::new(ReadLog::new());
    let many = 100 * SHARD_READS as u64;
    let summary = thread::scope(|scope| {
        let full = FullOutput(100_000);
        let writer = scope.spawn(|| log.write_to(full, OutputFormat::Csv, false));
        let add = || (0..many).for_each(|n| log.add(&read("/file", 1, n * 10)));
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        writer.join().unwrap()
    });
    assert_eq!(summary.error.expect("it is full").kind(), io::ErrorKind::StorageFull);
    assert!(summary.reads < 4 * many);
    log.add(&read("/file", 1, 0));
    log.finish();
}

#[test]
fn names_can_be_hashed_large_reads_are_several_records_and_empty_ones_none() {
    let log = ReadLog::new();
    log.add(&LoggedRead { length: 0, ..read("/empty", 1, 0) });
    log.add(&LoggedRead { length: MAX_LENGTH + 5, ..read("/secret", 2, 7) });
    log.finish();
    log.add(&read("/late", 3, 0));
    let mut trace = Vec::new();
    let summary = log.write_to(&mut trace, OutputFormat::Foreread, true);
    assert_eq!((summary.reads, summary.files), (1, 1));
    let records = records(&trace);
    let offsets: Vec<u64> = records.iter().map(|(_, _, offset)| *offset).collect();
    assert_eq!(offsets, [7, 7 + MAX_LENGTH]);
    assert!(records.iter().all(|(_, name, _)| name.starts_with('h') && name.len() == 17));
}

/// The number of threads, more than there are shards.
const THREADS: u64 = SHARDS as u64 + 9;

/// The reads of each.
const READS: u64 = 2000;
