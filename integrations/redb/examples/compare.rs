//! Times redb on its own backend (the kernel's page cache) and on this one, alternately.
//!
//!     cargo run --release -p foreread-redb --example compare -- [DIRECTORY [MIB]]
//!
//! In:    a directory on the file system to measure, by default the current one; the size of the
//!        table, by default 256 MiB.
//! Out:   for each pattern the median of five rounds of both backends, the ratio and its spread.
//! Never: a database that stays behind.
//!
//! redb's own cache is 8 MiB for both, so that the pages come from the backend. The kernel may use
//! all memory; the engine gets half the table, and then twice the table.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use foreread::Engine;
use foreread_redb::EngineBackend;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rows");
const VALUE: usize = 1000;
const ROUNDS: usize = 5;
const GETS: u64 = 4000;
const COMMITS: u64 = 100;

/// A backend to time.
#[derive(Clone, Copy)]
enum Method {
    Kernel,
    /// foreread, with this many bytes of memory.
    Engine(u64),
}

const PATTERNS: [&str; 6] =
    ["load", "random gets, cold", "random gets, hot", "scan, cold", "scan, hot", "small commits"];

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let directory = PathBuf::from(args.next().unwrap_or_else(|| ".".to_owned()));
    let mib: u64 = args.next().map_or(Ok(256), |mib| mib.parse())?;
    let scratch = tempfile::tempdir_in(directory)?;
    let rows = (mib << 20) / VALUE as u64;
    let methods = [Method::Kernel, Method::Engine(mib << 19), Method::Engine(mib << 21)];

    let mut seconds = vec![vec![Vec::new(); PATTERNS.len()]; methods.len()];
    for round in 0..ROUNDS {
        for (method, timed) in methods.iter().zip(&mut seconds) {
            eprint!("\rround {} of {ROUNDS}", round + 1);
            let path = scratch.path().join("table.redb");
            for (pattern, time) in time_all(*method, &path, rows)?.into_iter().enumerate() {
                timed[pattern].push(time);
            }
            std::fs::remove_file(&path)?;
        }
    }
    eprintln!();
    print(mib, &seconds);
    Ok(())
}

fn print(mib: u64, seconds: &[Vec<Vec<f64>>]) {
    println!("{mib} MiB of rows of {VALUE} bytes; seconds are medians of {ROUNDS} rounds;");
    println!("ratios are kernel to foreread of the same round (above 1 foreread is faster)\n");
    print!("{:<18} {:>9}", "pattern", "kernel s");
    for memory in ["half", "twice"] {
        print!("  {:>9} {:>6} {:>11}", format!("{memory} s"), "ratio", "min-max");
    }
    println!();
    for (pattern, name) in PATTERNS.iter().enumerate() {
        let kernel = &seconds[0][pattern];
        print!("{name:<18} {:>9.3}", median(kernel));
        for engine in &seconds[1..] {
            let engine = &engine[pattern];
            let ratios: Vec<f64> = kernel.iter().zip(engine).map(|(k, e)| k / e).collect();
            let (min, max) = ratios
                .iter()
                .fold((f64::MAX, 0.0_f64), |(min, max), ratio| (min.min(*ratio), max.max(*ratio)));
            let spread = format!("{min:.2}-{max:.2}");
            print!("  {:>9.3} {:>6.2} {spread:>11}", median(engine), median(&ratios));
        }
        println!();
    }
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Returns the seconds of each pattern, in the order of [`PATTERNS`].
fn time_all(method: Method, path: &Path, rows: u64) -> Outcome<Vec<f64>> {
    let mut seconds = Vec::new();
    let database = open(method, path)?;
    seconds.push(time(|| load(&database, rows))?);
    drop(database);
    for work in [gets, scan] {
        forget(path)?;
        let database = open(method, path)?;
        seconds.push(time(|| work(&database, rows))?);
        seconds.push(time(|| work(&database, rows))?);
    }
    let database = open(method, path)?;
    seconds.push(time(|| commits(&database, rows))?);
    Ok(seconds)
}

#[expect(clippy::disallowed_methods, reason = "this program measures")]
fn time(work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

fn open(method: Method, path: &Path) -> Outcome<Database> {
    let mut builder = Database::builder();
    builder.set_cache_size(8 << 20);
    Ok(match method {
        Method::Kernel => {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
            builder.create_with_backend(FileBackend::new(file)?)?
        }
        Method::Engine(memory) => {
            let engine = Engine::builder().memory(memory).build()?;
            builder.create_with_backend(EngineBackend::open(&engine, path)?)?
        }
    })
}

/// Drops the file's pages from the kernel's cache.
fn forget(path: &Path) -> Outcome<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

fn load(database: &Database, rows: u64) -> Outcome<()> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for key in 0..rows {
            table.insert(key, value(key).as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn gets(database: &Database, rows: u64) -> Outcome<()> {
    let mut random = StdRng::seed_from_u64(1);
    let table = database.begin_read()?.open_table(TABLE)?;
    for _ in 0..GETS {
        let key = random.random_range(0..rows);
        let found = table.get(key)?.ok_or("a row is missing")?;
        if found.value()[..8] != key.to_le_bytes() {
            return Err("a row has another's value".into());
        }
    }
    Ok(())
}

fn scan(database: &Database, rows: u64) -> Outcome<()> {
    let table = database.begin_read()?.open_table(TABLE)?;
    let mut count = 0;
    for row in table.iter()? {
        black_box(row?.1.value().len());
        count += 1;
    }
    if count == rows { Ok(()) } else { Err("rows are missing".into()) }
}

fn commits(database: &Database, rows: u64) -> Outcome<()> {
    for key in 0..COMMITS {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.open_table(TABLE)?.insert(rows + key, value(key).as_slice())?;
        transaction.commit()?;
    }
    Ok(())
}

fn value(key: u64) -> Vec<u8> {
    let mut value = vec![0x5a; VALUE];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value
}
