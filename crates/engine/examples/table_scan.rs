//! A sorted key-value table: random gets and hinted scans share one cache.
//!
//!     cargo run --example table_scan
//!
//! In:    nothing: it writes its table to a temporary directory.
//! Out:   the rows of a scan, and the number of requests.
//! Never: a scan that evicts the working set of the gets.
//!
//! ```text
//!   | block 0 | block 1 | .. | block n-1 | first key of each block | n |     the file
//!     4 KiB: 64 rows of 64 bytes, sorted                             8 bytes
//! ```

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use foreread::{Advice, Engine, File, ReadError, ReadStream};

const BLOCK: usize = 4096;
const ROW: usize = 64;

/// A row: a key and its value.
pub type Row = (u64, [u8; ROW - 8]);

/// A sorted table, open for reading.
#[derive(Debug)]
pub struct Table {
    file: File,
    /// The first key of each block.
    index: Vec<u64>,
}

impl Table {
    /// Opens the table and reads its index.
    pub fn open(engine: &Engine, path: &Path) -> Result<Self, Box<dyn Error>> {
        let file = engine.open(path)?;
        let mut footer = [0; 8];
        let end = file.len().checked_sub(8).ok_or("a table has a footer")?;
        file.read_exact_at(&mut footer, end)?;
        let blocks = usize::try_from(u64::from_be_bytes(footer))?;
        if (blocks as u64).checked_mul(BLOCK as u64 + 8) != Some(end) {
            return Err("the footer does not fit the file's length".into());
        }
        let mut index = vec![0; blocks * 8];
        file.read_exact_at(&mut index, (blocks * BLOCK) as u64)?;
        let index = index.chunks_exact(8).map(number).collect();
        // Gets are random: read-ahead for them would only evict other blocks. All reads through
        // this handle are gets; each scan has its own stream.
        file.advise(Advice::Random);
        Ok(Self { file, index })
    }

    /// Looks up one key.
    pub fn get(&self, key: u64) -> Result<Option<Row>, ReadError> {
        let Some(block) = self.block_of(key) else { return Ok(None) };
        let mut bytes = [0; BLOCK];
        self.file.read_exact_at(&mut bytes, (block * BLOCK) as u64)?;
        Ok(rows(&bytes).find(|row| row.0 == key))
    }

    /// Iterates over the rows of a range of keys, in order.
    pub fn scan(&self, keys: Range<u64>) -> Result<Scan<'_>, ReadError> {
        let stream = self.file.stream();
        stream.advise(Advice::Normal); // ends the handle's advice
        stream.advise(Advice::Sequential);
        stream.advise(Advice::NoReuse); // a scan must not evict the blocks of gets
        let first = self.block_of(keys.start).unwrap_or(0);
        let last = self.block_of(keys.end.saturating_sub(1)).map_or(first, |last| last + 1);
        // The index gives the end of the scan. The hint covers a short scan completely, and the
        // first 64 blocks of a long one; read-ahead fetches the rest.
        let end = last.min(first + 64);
        let bytes = (first * BLOCK) as u64..(end * BLOCK) as u64;
        self.file.will_need(std::iter::once(bytes))?;
        Ok(Scan { table: self, stream, block: first, rows: Vec::new().into_iter(), keys })
    }

    /// Returns the only block that can contain a key; None for a key before the first.
    fn block_of(&self, key: u64) -> Option<usize> {
        self.index.partition_point(|first| *first <= key).checked_sub(1)
    }
}

/// Iterator over the rows of a range of keys.
#[derive(Debug)]
pub struct Scan<'t> {
    table: &'t Table,
    stream: ReadStream,
    /// The next block to read.
    block: usize,
    rows: std::vec::IntoIter<Row>,
    keys: Range<u64>,
}

impl Iterator for Scan<'_> {
    type Item = Result<Row, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.find(|row| row.0 >= self.keys.start) {
                return (row.0 < self.keys.end).then_some(Ok(row));
            }
            let first = *self.table.index.get(self.block)?;
            if first >= self.keys.end {
                return None;
            }
            let mut bytes = [0; BLOCK];
            let read = self.stream.read_exact_at(&mut bytes, (self.block * BLOCK) as u64);
            if let Err(error) = read {
                self.block = self.table.index.len();
                return Some(Err(error));
            }
            self.block += 1;
            self.rows = rows(&bytes).collect::<Vec<_>>().into_iter();
        }
    }
}

fn rows(block: &[u8]) -> impl Iterator<Item = Row> {
    block.chunks_exact(ROW).map(|row| {
        let value = row[8..].try_into().expect("a row is 64 bytes");
        (number(row), value)
    })
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("a number is 8 bytes"))
}

/// Returns a table of the even keys; each value contains its key.
#[must_use]
pub fn bytes_of_a_table(blocks: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in 0..blocks * 64 {
        let key = (row * 2).to_be_bytes();
        bytes.extend(key.repeat(8));
    }
    for block in 0..blocks {
        bytes.extend((block * 128).to_be_bytes());
    }
    bytes.extend(blocks.to_be_bytes());
    bytes
}

/// Writes a table, looks up one row and scans a range.
pub fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("table");
    std::fs::write(&path, bytes_of_a_table(4096))?;

    let engine = Engine::builder().memory(8 << 20).build()?; // half the table
    let table = Table::open(&engine, &path)?;
    let found = table.get(123_456)?.ok_or("an even key is there")?;
    println!("get:  key {} has {} bytes", found.0, found.1.len());
    let mut count = 0;
    for row in table.scan(100_000..200_000)? {
        row?;
        count += 1;
    }
    println!("scan: {count} rows");
    println!("{}", engine.counters()?);
    Ok(())
}
