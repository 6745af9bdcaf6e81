//! MultiGet of an LSM tree: looks up many keys in several sorted tables, one call for each table.
//!
//!     cargo run --release --example multi_get
//!     cargo run --release --example multi_get -- measure    # the table of docs/design/ranges.md
//!
//! In:    nothing: it writes its tables to a temporary directory.
//! Out:   the values of a batch of keys, and the number of requests.
//! Never: a block that is read twice for one batch; blocks that are read one by one.
//!
//! ```text
//!   keys --> newest table: which blocks? --> read_ranges --> found, or not --> next older table
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use foreread::lab::Delay;
use foreread::{Advice, Engine, File, OpenOptions, ReadError, ReadErrorKind};

const BLOCK: u64 = 4096;
const ROW: usize = 64;
const ROWS: u64 = BLOCK / ROW as u64;

/// A sorted run of rows, 64 rows of 64 bytes in each block, with its index in memory.
#[derive(Debug)]
pub struct SortedTable {
    file: File,
    /// The first key of each block.
    index: Vec<u64>,
}

/// The tables of a tree, newest first. The newest table that contains a key has its value.
#[derive(Debug)]
pub struct Tree {
    tables: Vec<SortedTable>,
}

impl SortedTable {
    /// Opens a table. `index` has the first key of each block.
    pub fn open(engine: &Engine, path: &Path, index: Vec<u64>) -> Result<Self, Box<dyn Error>> {
        let file = engine.open(path)?;
        if file.len() != index.len() as u64 * BLOCK {
            return Err("the index does not fit the file's length".into());
        }
        Ok(Self { file, index })
    }

    /// Looks up the keys in `wanted`, and moves those that it finds to `found`, with their values.
    fn take(
        &self,
        wanted: &mut Vec<u64>,
        found: &mut BTreeMap<u64, Vec<u8>>,
    ) -> Result<(), ReadError> {
        let block_of = |key| self.index.partition_point(|first| *first <= key).checked_sub(1);
        let mut blocks: Vec<usize> = wanted.iter().copied().filter_map(block_of).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let ranges: Vec<_> =
            blocks.iter().map(|block| *block as u64 * BLOCK..(*block as u64 + 1) * BLOCK).collect();
        // One call: the engine merges, splits and orders the ranges, and reads only uncached pages.
        let bytes = self.file.read_ranges(&ranges)?;
        wanted.retain(|key| {
            let block = block_of(*key).and_then(|block| blocks.binary_search(&block).ok());
            let row = block.and_then(|block| value_in(&bytes[block], *key));
            if let Some(value) = row {
                found.insert(*key, value.to_vec());
            }
            row.is_none()
        });
        Ok(())
    }
}

impl Tree {
    /// Creates a tree of these tables, newest first.
    #[must_use]
    pub fn new(tables: Vec<SortedTable>) -> Self {
        Self { tables }
    }

    /// Looks up many keys at once; the result omits keys that no table contains.
    pub fn multi_get(&self, keys: &[u64]) -> Result<BTreeMap<u64, Vec<u8>>, ReadError> {
        let (mut wanted, mut found) = (keys.to_vec(), BTreeMap::new());
        for table in &self.tables {
            table.take(&mut wanted, &mut found)?;
        }
        Ok(found)
    }
}

fn value_in(block: &[u8], key: u64) -> Option<&[u8]> {
    let mut rows = block.chunks_exact(ROW);
    rows.find(|row| row[..8] == key.to_be_bytes()).map(|row| &row[8..])
}

/// Writes a table of every `step`th key from `first` on, with `mark` as each value, and returns its
/// index.
pub fn write_table(
    path: &Path,
    (first, step): (u64, u64),
    blocks: u64,
    mark: u8,
) -> std::io::Result<Vec<u64>> {
    let (mut bytes, mut index) = (Vec::new(), Vec::new());
    for row in 0..blocks * ROWS {
        let key = first + row * step;
        if row % ROWS == 0 {
            index.push(key);
        }
        bytes.extend(key.to_be_bytes());
        bytes.extend([mark; ROW - 8]);
    }
    std::fs::write(path, bytes)?;
    Ok(index)
}

/// Looks up some keys in two tables.
pub fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("measure") {
        return measure();
    }
    let dir = tempfile::tempdir()?;
    let engine = Engine::builder().memory(16 << 20).build()?;
    let mut tables = Vec::new();
    for (name, keys, mark) in [("new", (0, 10), b'n'), ("old", (0, 2), b'o')] {
        let path = dir.path().join(name);
        let index = write_table(&path, keys, 1024, mark)?;
        tables.push(SortedTable::open(&engine, &path, index)?);
    }
    let tree = Tree::new(tables);
    let keys: Vec<u64> = (0..100).map(|n| n * n * 7).collect();
    let found = tree.multi_get(&keys)?;
    println!("{} of {} keys found", found.len(), keys.len());
    let counters = engine.counters()?.path;
    println!("{} requests of {} pages", counters.device_reads, counters.device_pages);
    Ok(())
}

/// Compares three methods of reading the same ranges, on devices with added latency.
fn measure() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("table");
    std::fs::File::create(&path)?.set_len(TABLE)?;
    println!("| device | 64 ranges of 4 KiB | method | time, ms | requests | KiB |");
    println!("|---|---|---|---|---|---|");
    for (name, delay) in [
        ("one head: 4 ms, 100 MB/s", "latency=4ms,parallel=1,bandwidth=100000000"),
        ("8 at once: 1 ms, 125 MB/s each", "latency=1ms,parallel=8,bandwidth=125000000"),
        ("store: 20 ms, 64 x 80 MB/s", "latency=20ms,parallel=64,bandwidth=80000000"),
        ("NVMe: 80 us, 32 x 94 MB/s", "latency=80us,parallel=32,bandwidth=94000000"),
    ] {
        let delay: Delay = delay.parse()?;
        let engine = Engine::builder().memory(256 << 20).build()?;
        let file = engine.open_with(&path, &OpenOptions::new().delay(delay))?;
        file.advise(Advice::Random);
        let mut random = 1;
        learn(&file, delay.parallel, &mut random)?;
        if let Some(model) = file.device().model()? {
            let (us, parallel) = (model.per_request_ns / 1e3, model.parallel);
            eprintln!("{name}: {us:.0} us for a request, {parallel:?} at once, as learnt");
        }
        for kind in ["at random", "in 8 clusters"] {
            for way in ["read_at, one by one", "will_need of all, then read_at", "read_ranges"] {
                let mut rounds = Vec::new();
                for _ in 0..ROUNDS {
                    let ranges = ranges(&mut random, kind == "in 8 clusters");
                    rounds.push(round(&engine, &file, &ranges, way)?);
                }
                rounds.sort_unstable();
                let (time, requests, pages) = rounds[ROUNDS / 2];
                let ms = time.as_secs_f64() * 1e3;
                println!("| {name} | {kind} | {way} | {ms:.1} | {requests} | {} |", pages * 4);
            }
        }
    }
    Ok(())
}

/// Lets the engine learn the cost of the device, by lone reads of two sizes and then bursts.
fn learn(file: &File, parallel: u32, random: &mut u64) -> Result<(), ReadError> {
    let mut buffer = vec![0; 256 << 10];
    for n in 0..16 {
        let size = if n % 2 == 0 { 16 << 10 } else { 256 << 10 };
        file.read_at(&mut buffer[..size], number(random) % (TABLE / 2))?;
    }
    for _ in 0..8 {
        let page = |_| number(random) % (TABLE / BLOCK) * BLOCK;
        let pages: Vec<_> = (0..2 * parallel).map(page).collect();
        file.will_need(pages.iter().map(|page| *page..page + BLOCK))?;
        for page in pages {
            file.read_at(&mut buffer[..4096], page)?;
        }
    }
    let forked = |_| ReadError { path: "table".into(), kind: ReadErrorKind::Forked };
    file.dont_need(0..TABLE).map_err(forked)
}

fn ranges(random: &mut u64, are_clustered: bool) -> Vec<std::ops::Range<u64>> {
    let mut page = 0;
    let mut ranges = Vec::new();
    for n in 0..64 {
        let is_near = are_clustered && n % 8 > 0;
        page = if is_near { page + 2 + number(random) % 14 } else { number(random) % PAGES };
        ranges.push(page * BLOCK..(page + 1) * BLOCK);
    }
    ranges
}

/// Reads the ranges by one method; returns the time, and the number of requests and pages.
#[expect(clippy::disallowed_methods, reason = "what is measured here is time")]
fn round(
    engine: &Engine,
    file: &File,
    ranges: &[std::ops::Range<u64>],
    way: &str,
) -> Result<(Duration, u64, u64), Box<dyn Error>> {
    let before = engine.counters()?.path;
    let start = Instant::now();
    if way == "read_ranges" {
        file.read_ranges(ranges)?;
    } else {
        if way.starts_with("will_need") {
            file.will_need(ranges.iter().cloned())?;
        }
        for range in ranges {
            file.read_at(&mut [0; 4096], range.start)?;
        }
    }
    let time = start.elapsed();
    let after = engine.counters()?.path;
    file.dont_need(0..TABLE)?;
    let requests = after.device_reads - before.device_reads;
    Ok((time, requests, after.device_pages - before.device_pages))
}

/// Returns the next pseudorandom number.
fn number(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

const TABLE: u64 = 1 << 30;
const PAGES: u64 = TABLE / BLOCK - 1024;
const ROUNDS: usize = 7;
