//! `foreread-lab sim grid`: learnt windows on devices of every distance and width.
//!
//! Every cell is shown.

use std::io::Write as _;
use std::num::NonZero;

use clap::{Args, ValueEnum};
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::grid::{self, GridCell, GridLoad, GridRow, GridSpread};

use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::progress::spinner;
use foreread_cli::table;

/// Compare learnt windows with the best fixed window on 48 devices
///
/// Simulates devices with a latency of 0.15 to 45 ms, 1 to 48 requests at once, 180 or 1200 MB/s
/// and requests of at most 256K or 1M, each with one reader of 1 GiB and with several readers of
/// 256 MiB. Each is run with linux-6 and windows from 128K to 16M, and with adaptive, which learns
/// its window. The whole grid takes a few minutes on one processor.
///
/// Columns: best window, the fastest fixed one; best, its throughput in MB/s; learnt, throughput
/// with learnt windows; whole, learnt over best, including the learning phase; 2nd half, the same
/// for the second half of the bytes, relative to the best window there.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(super) struct GridArgs {
    /// Number of readers in the cells with several
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    readers: u32,

    /// Behaviour of readers and devices
    #[arg(long, value_name = "LOAD", default_value = "full")]
    load: LoadName,

    /// Only devices with TEXT in their name: 45ms-48x-1200MB-1024K has a latency of 45 ms, serves
    /// 48 requests of at most 1024 KiB at once, and transfers 1200 MB/s
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    device: String,

    /// Print JSON, one data object per cell
    ///
    /// Keys: latency_us, parallel, mb_per_s, max_command_kib, readers, load, best_window (bytes),
    /// best_mb_per_s, learnt_mb_per_s, whole, second_half.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LoadName {
    /// Readers read as fast as they can
    Full,
    /// Readers process the data, at 150 MB/s in total
    Paced,
    /// Latency varies by 50 % from request to request
    Jitter,
    /// Requests take three times as long after half a second
    Slower,
    /// Requests take a third of the time after half a second
    Faster,
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab sim grid
  foreread-lab sim grid --readers 32
  foreread-lab sim grid --device 45ms-48x
  foreread-lab sim grid --load jitter --json

";

pub(super) fn run(args: &GridArgs, out: &mut Printer) -> Result<(), Failure> {
    let load = match args.load {
        LoadName::Full => GridLoad::Full,
        LoadName::Paced => GridLoad::Paced,
        LoadName::Jitter => GridLoad::Jitter,
        LoadName::Slower => GridLoad::Slower,
        LoadName::Faster => GridLoad::Faster,
    };
    let mut cells = GridCell::all(args.readers, load);
    cells.retain(|cell| cell.device().contains(&args.device));
    if cells.is_empty() {
        let first = GridCell::all(args.readers, load)[0].device();
        return Err(Failure::WrongUse(format!(
            "--device {}: no device has this in its name; names are like {first}, and \
             'foreread-lab sim grid --help' says what they mean",
            args.device
        )));
    }
    let bar = spinner();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let rows = grid::run_all(&cells, threads, &|count, cell| {
        bar.set_message(format!("{count} of {}: {}", cells.len(), cell.device()));
    });
    bar.finish_and_clear();
    if args.json {
        return out.json("sim grid", &rows);
    }
    let heading = ["device", "readers", "best window", "best", "learnt", "whole", "2nd half"];
    table::print(out, heading, rows.iter().map(columns))?;
    writeln!(out)?;
    let spread = |of: fn(&GridRow) -> f64| GridSpread::of(rows.iter().map(of));
    for (name, spread) in
        [("whole", spread(|row| row.whole)), ("2nd half", spread(|row| row.second_half))]
    {
        let Some(GridSpread { min, median, below_90, below_95, below_97 }) = spread else {
            continue;
        };
        let text = format!(
            "least {min:.3}, median {median:.3}; of {} cells {below_90} below 0.90, {below_95} \
             below 0.95, {below_97} below 0.97",
            rows.len()
        );
        out.entry(&format!("{name}: "), &text)?;
    }
    Ok(())
}

fn columns(row: &GridRow) -> [String; 7] {
    [
        row.cell.device(),
        row.cell.readers.to_string(),
        Exact(ByteCount(row.best_window)).to_string(),
        format!("{:.1}", row.best_mb_per_s),
        format!("{:.1}", row.learnt_mb_per_s),
        format!("{:.3}", row.whole),
        format!("{:.3}", row.second_half),
    ]
}
