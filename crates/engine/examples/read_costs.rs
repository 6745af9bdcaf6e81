//! Repeats one kind of read, for a profiler. The engine is built with the features of its tests;
//! one of them, `tracing`, adds some instructions to each miss.
//!
//!     cargo build --release -p foreread --example read_costs
//!     valgrind --tool=callgrind target/release/examples/read_costs FILE miss 4000
//!
//! In:    a file, a kind of read, the number of reads, and the memory in MiB (64).
//! Out:   page faults of the reader's thread and of the process. Profile runs of N and of 2N reads:
//!        their difference excludes the start.
//! Never: a clock; `foreread bench` measures time.
//!
//! ```text
//!   hit4k, hit64k   random offsets in a cached range of half the memory
//!   miss            4 KiB at random offsets in a file larger than the memory
//!   seq64k          sequential 64 KiB with learnt windows, into preallocated memory
//!   fresh64k        the same, into memory that was never touched
//! ```

use std::env;
use std::error::Error;
use std::fs;

use foreread::{Engine, File};

#[derive(Debug)]
struct Reads {
    path: String,
    kind: String,
    count: u64,
    memory: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let reads = Reads::of(&args)?;
    let prefault = reads.kind != "fresh64k";
    let engine =
        Engine::builder().memory(reads.memory).prefault(prefault).learn_max_window().build()?;
    let file = engine.open(&reads.path)?;
    let before = (faults("thread-self")?, faults("self")?);
    match reads.kind.as_str() {
        "hit4k" => hits(&file, &reads, 4 << 10)?,
        "hit64k" => hits(&file, &reads, 64 << 10)?,
        "miss" => at_random(&file, reads.count, 4 << 10, file.len())?,
        "seq64k" | "fresh64k" => in_a_row(&file, reads.count * BLOCK as u64)?,
        kind => return Err(format!("{kind}: give hit4k, hit64k, miss, seq64k or fresh64k").into()),
    }
    let (thread, process) = (faults("thread-self")? - before.0, faults("self")? - before.1);
    println!("faults: {thread} of the reader's thread, {process} of the process");
    Ok(())
}

/// Returns the number of page faults of this thread (`thread-self`) or process (`self`).
fn faults(whose: &str) -> Result<u64, Box<dyn Error>> {
    let stat = fs::read_to_string(format!("/proc/{whose}/stat"))?;
    let fields = stat.rsplit_once(") ").ok_or("no name in stat")?.1;
    Ok(fields.split(' ').nth(7).ok_or("too few fields in stat")?.parse()?)
}

impl Reads {
    fn of(args: &[String]) -> Result<Self, Box<dyn Error>> {
        let ([path, kind, count] | [path, kind, count, _]) = args else {
            return Err("give FILE KIND COUNT, and the memory in MiB if it is not 64".into());
        };
        let mib: u64 = args.get(3).map_or(Ok(64), |mib| mib.parse())?;
        let (path, kind) = (path.clone(), kind.clone());
        Ok(Self { path, kind, count: count.parse()?, memory: mib << 20 })
    }
}

/// Reads at random offsets in a cached range.
fn hits(file: &File, reads: &Reads, block: usize) -> Result<(), Box<dyn Error>> {
    let set = reads.memory / 2;
    in_a_row(file, set)?;
    at_random(file, reads.count, block, set)
}

/// Reads once in each slot of the set, in a pseudorandom order, then starts over. A slot is at
/// least 32 KiB and twice the size of a read, so no read continues another one.
fn at_random(file: &File, count: u64, block: usize, set: u64) -> Result<(), Box<dyn Error>> {
    let place = (2 * block as u64).max(32 << 10);
    let places = set.min(file.len()) / place;
    if places < 2 {
        return Err(format!("the file is too small: give one of {} bytes", 2 * place).into());
    }
    // The generator yields each number below a power of two once in its period.
    let mask = (1 << places.ilog2()) - 1;
    let mut buffer = vec![0; block];
    let mut at: u64 = 1;
    for _ in 0..count {
        at = (at * 1_664_525 + 1_013_904_223) & mask;
        file.read_at(&mut buffer, at * place)?;
    }
    Ok(())
}

fn in_a_row(file: &File, len: u64) -> Result<(), Box<dyn Error>> {
    if len > file.len() {
        return Err(format!("the file is too small: give one of {len} bytes").into());
    }
    let mut buffer = vec![0; BLOCK];
    for offset in (0..len).step_by(BLOCK) {
        file.read_at(&mut buffer, offset)?;
    }
    Ok(())
}

const BLOCK: usize = 64 << 10;
