//! Reads objects with one workload and prints its cost.
//!
//! ```console
//! $ object_load seq128k engine:s3://lab/big.bin
//! ready
//! {"work": "seq128k", "bytes": 268435456, "seconds": 0.3412, "mb_per_s": 786.7, ..}
//! ```
//!
//! In:    a workload and a target (`object_load` alone lists both). It waits for a line on stdin
//!        before it starts and another one before it ends, so that a caller can look at counters in
//!        between.
//! Out:   one line of JSON.
//! Never: a short read.

mod limit;
mod nbd;
mod reader;
mod work;

use std::error::Error;
use std::io::Write as _;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use work::{Outcome, Work};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [work, target] = &*args else { return Err(usage().into()) };
    // As in foreread-object, so that the bare client uses the same TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(connections) = work.strip_prefix("limit") {
        let gets = limit::Gets::new(target, connections.parse()?)?;
        wait_for_line("ready")?;
        let before = cpu();
        let (bytes, seconds) = gets.run()?;
        print(work, &Outcome { bytes, seconds, ..Outcome::default() }, cpu() - before)?;
    } else {
        let work = Work::parse(work).ok_or_else(usage)?;
        let mut readers = reader::open(target, work.files())?;
        let outcome = work.run(&mut readers, || {
            wait_for_line("ready")?;
            // Resets the peak of resident memory at the start of the run.
            std::fs::write("/proc/self/clear_refs", "5").or(Ok(()))
        })?;
        print(&args[0], &outcome, outcome.cpu)?;
    }
    wait_for_line("done")?;
    // Exits without waiting for requests in flight.
    std::process::exit(0);
}

/// Prints a word and waits for a line on stdin.
fn wait_for_line(word: &str) -> std::io::Result<()> {
    println!("{word}");
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new()).map(drop)
}

fn print(work: &str, outcome: &Outcome, cpu: Duration) -> std::io::Result<()> {
    let Outcome { bytes, seconds, latencies, late, .. } = outcome;
    let mut latencies = latencies.clone();
    latencies.sort_unstable();
    let ms = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
    let quantile = |thousandths: usize| {
        let last = latencies.len().checked_sub(1)?;
        Some(latencies[(latencies.len() * thousandths / 1000).min(last)])
    };
    let first = outcome.latencies.first().copied();
    let fields = [
        ("first_ms", first),
        ("p50_ms", quantile(500)),
        ("p99_ms", quantile(990)),
        ("p999_ms", quantile(999)),
        ("max_ms", quantile(1000)),
        ("late_ms", *late),
    ];
    let fields = fields
        .map(|(name, time)| format!("\"{name}\": {}", time.map_or_else(|| "null".to_owned(), ms)));
    #[expect(clippy::cast_precision_loss, reason = "less than 2^53 bytes")]
    let rate = *bytes as f64 / seconds / 1e6;
    println!(
        "{{\"work\": \"{work}\", \"bytes\": {bytes}, \"seconds\": {seconds:.5}, \"mb_per_s\": \
         {rate:.2}, \"reads\": {}, \"cpu_s\": {:.4}, \"rss_kib\": {}, {}}}",
        latencies.len(),
        cpu.as_secs_f64(),
        rss_kib(),
        fields.join(", "),
    );
    std::io::stdout().flush()
}

/// Returns the CPU time of all threads.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the peak of resident memory, in KiB.
fn rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn usage() -> String {
    "object_load WORK TARGET\n\
     WORK    seq128k, seq4m: 256 MiB in a row; whole128k: 1 GiB\n\
     \x20       inter2, inter8: 256 MiB at 2 or 8 positions of one handle in turns, 128 KiB reads\n\
     \x20       rand64k, rand64k-16: 150 random reads, and 4000 by 16 threads\n\
     \x20       paced32: 32 files, 1 MB/s each, for 4 s; {} in TARGET is 00 to 31\n\
     \x20       reread: 64 MiB, and after another line on stdin the same again, which counts\n\
     \x20       limit16, limit64: whole parts of 8 MiB, so many connections, for a second\n\
     TARGET  path:FILE, engine:URL, get:URL (one request for each read), nbd:SOCKET\n\
     CAP     in the environment: the most seconds of seq and inter (2)\n\
     REMEMBER  a directory: what an engine learns of the store is kept there"
        .to_owned()
}
