//! The arguments of `foreread-lab seeds`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use foreread_sim::seeds;

use super::{SeedsFormat, SeedsPlan};
use foreread_cli::args::help::CODES_AND_UNITS;

/// Compare every published table with the simulator's, cell by cell
///
/// The policies come from five threads on kernel mailing lists. Their tables are built in, and
/// scenarios repeat the experiments in virtual time: a few seconds, no root, no disk.
///
///   000  read-ahead limited by the size of the device: a sweep of eight devices
///   001  read-ahead based on the page cache: NFS servers, interleaved streams
///   002  read-ahead in ext4's inode tables: find, git status, random reads
///   003  the deadline scheduler: reads next to a writer
///   004  the block size implied by the size of a device
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_long_help = CODES_AND_UNITS)]
pub(crate) struct SeedsArgs {
    /// Only the tables of this thread
    #[arg(value_parser = PossibleValuesParser::new(seeds::numbers()))]
    thread: Option<String>,

    /// Print the page docs/lab/seeds.md
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print JSON, one data object per table
    ///
    /// Keys: seed, table, title, cells (row, column, seed, ours, error_percent, is_marked), notes,
    /// verdict (holds, why). Unpublished figures are null.
    #[arg(long)]
    json: bool,
}

impl SeedsArgs {
    /// Resolves the options.
    pub(super) fn resolve(&self) -> SeedsPlan {
        SeedsPlan {
            thread: self.thread.clone(),
            html: self.html.clone(),
            format: match (self.json, self.markdown) {
                (true, _) => SeedsFormat::Json,
                (false, true) => SeedsFormat::Markdown,
                (false, false) => SeedsFormat::Tables,
            },
        }
    }
}
