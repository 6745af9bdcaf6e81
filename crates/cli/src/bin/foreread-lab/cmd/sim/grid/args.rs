//! The arguments of `foreread-lab sim grid`.

use clap::{Args, ValueEnum};
use foreread_sim::grid::{GridCell, GridLoad};

use super::GridPlan;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::Failure;

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
pub(crate) struct GridArgs {
    /// Only devices with this text in their name: 45ms-48x-1200MB-1024K has a latency of 45 ms,
    /// serves 48 requests of at most 1024 KiB at once, and transfers 1200 MB/s
    #[arg(default_value = "", hide_default_value = true)]
    device: String,

    /// Number of readers in the cells with several
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    readers: u32,

    /// Behaviour of readers and devices
    #[arg(long, value_name = "LOAD", default_value = "full")]
    load: LoadName,

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

impl GridArgs {
    /// Resolves the options; fails if no device has the text in its name.
    pub(super) fn resolve(&self) -> Result<GridPlan, Failure> {
        let mut cells = GridCell::all(self.readers, self.load.load());
        let first = cells[0].device();
        cells.retain(|cell| cell.device().contains(&self.device));
        if cells.is_empty() {
            return Err(Failure::WrongUse(format!(
                "{}: no device has this in its name; names are like {first}, and \
                 'foreread-lab sim grid --help' says what they mean",
                self.device
            )));
        }
        Ok(GridPlan { cells, json: self.json })
    }
}

impl LoadName {
    const fn load(self) -> GridLoad {
        match self {
            Self::Full => GridLoad::Full,
            Self::Paced => GridLoad::Paced,
            Self::Jitter => GridLoad::Jitter,
            Self::Slower => GridLoad::Slower,
            Self::Faster => GridLoad::Faster,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab sim grid
  foreread-lab sim grid --readers 32
  foreread-lab sim grid 45ms-48x
  foreread-lab sim grid --load jitter --json

";
