//! The examples that programs are meant to copy, run.
//!
//! In:    their sources.
//! Out:   their results, beside what they must be; their `main`, to its end.
//! Never: an example that only compiles.

#[path = "../../examples/multi_get.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example has a main of its own")]
mod multi_get;
#[path = "../../examples/table_scan.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example has a main of its own")]
mod table_scan;

#[path = "../../examples/wal.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example has a main of its own")]
mod wal;

use std::fs;

use foreread::Engine;
use tempfile::TempDir;

#[test]
fn a_table_finds_its_rows_and_scans_them_in_order() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("table");
    fs::write(&path, table_scan::bytes_of_a_table(500)).unwrap();
    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let table = table_scan::Table::open(&engine, &path).unwrap();
    for key in [0, 2, 63_998, 126, 128] {
        let (found, value) = table.get(key).unwrap().unwrap();
        assert_eq!((found, &value[..8]), (key, &key.to_be_bytes()[..]));
    }
    assert_eq!(table.get(1).unwrap(), None);
    assert_eq!(table.get(u64::MAX).unwrap(), None);

    for keys in [0..64_000, 1..127, 127..128, 128..128, 5..6, 63_999..70_000, 60_000..u64::MAX] {
        let scanned = table.scan(keys.clone()).unwrap().map(|row| row.unwrap().0);
        let expected: Vec<u64> = (0..64_000).step_by(2).filter(|key| keys.contains(key)).collect();
        assert_eq!(scanned.collect::<Vec<_>>(), expected, "{keys:?}");
    }
}

#[test]
fn a_batch_of_keys_has_the_values_of_the_newest_tables() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let mut tables = Vec::new();
    for (name, keys, mark) in [("new", (0, 10), b'n'), ("old", (0, 2), b'o')] {
        let path = dir.path().join(name);
        let index = multi_get::write_table(&path, keys, 20, mark).unwrap();
        tables.push(multi_get::SortedTable::open(&engine, &path, index).unwrap());
    }
    let tree = multi_get::Tree::new(tables);
    let keys: Vec<u64> = (0..20_000).step_by(7).collect();
    let found = tree.multi_get(&keys).unwrap();
    for key in keys {
        let (is_new, is_old) = (key < 12_800 && key % 10 == 0, key < 2560 && key % 2 == 0);
        let mark = found.get(&key).map(|value| value[0]);
        let want = if is_new { Some(b'n') } else { is_old.then_some(b'o') };
        assert_eq!(mark, want, "{key}");
    }
    // Each block of a table was asked for once.
    let before = engine.counters().unwrap().path.device_pages;
    assert!(before <= 40, "{before} pages of two tables of 20");
}

#[test]
fn a_table_that_is_cut_off_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("table");
    let bytes = table_scan::bytes_of_a_table(3);
    let engine = Engine::builder().build().unwrap();
    for len in [0, 7, 9, 4096, bytes.len() - 1] {
        fs::write(&path, &bytes[..len]).unwrap();
        table_scan::Table::open(&engine, &path).unwrap_err();
    }
}

/// The file may end anywhere, and hold anything behind the last whole record.
#[test]
fn a_log_that_is_cut_anywhere_keeps_its_whole_records() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let records: Vec<Vec<u8>> = (0..20_u8).map(|n| vec![n; usize::from(n) * 7]).collect();
    let mut ends = vec![0];
    {
        let (log, found) = wal::Log::open(&engine, &path).unwrap();
        assert_eq!(found, Vec::<Vec<u8>>::new());
        for record in &records {
            log.commit(record).unwrap();
            ends.push(fs::metadata(&path).unwrap().len());
        }
    }
    let bytes = fs::read(&path).unwrap();
    for cut in (0..=bytes.len()).step_by(13) {
        let copy = dir.path().join(format!("log.{cut}"));
        let mut left = bytes[..cut].to_vec();
        left.extend([0xff; 5]);
        fs::write(&copy, left).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut as u64).count() - 1;
        let (log, found) = wal::Log::open(&engine, &copy).unwrap();
        assert_eq!(found, records[..whole], "cut at {cut}");
        log.commit(b"more").unwrap();
        drop(log);
        let (_, found) = wal::Log::open(&engine, &copy).unwrap();
        assert_eq!(found.len(), whole + 1, "cut at {cut}");
    }
}

#[test]
fn the_examples_run() {
    table_scan::main().unwrap();
    wal::main().unwrap();
    multi_get::main().unwrap();
}

#[test]
fn a_read_of_all_or_nothing_says_where_the_file_ends() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, [7; 5000]).unwrap();
    let engine = Engine::builder().build().unwrap();
    let file = engine.open(&path).unwrap();
    let mut bytes = [0; 1000];
    file.read_exact_at(&mut bytes, 4000).unwrap();
    assert_eq!(bytes, [7; 1000]);
    let error = file.stream().read_exact_at(&mut bytes, 4001).unwrap_err();
    let says = "cannot read 1000 bytes from 4001: the file ends at 5000";
    assert!(error.to_string().ends_with(says), "{error}");
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::UnexpectedEof);
    file.read_exact_at(&mut [], 5000).unwrap();
    let past = file.read_exact_at(&mut bytes, 6000).unwrap_err();
    assert_eq!(std::io::Error::from(past).kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn handles_print_in_a_few_lines() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, [7; 5000]).unwrap();
    let engine = Engine::builder().build().unwrap();
    let file = engine.open(&path).unwrap();
    for printed in [format!("{engine:?}"), format!("{file:?}"), format!("{:?}", file.stream())] {
        assert!(printed.len() < 2000, "{} bytes", printed.len());
    }
}
