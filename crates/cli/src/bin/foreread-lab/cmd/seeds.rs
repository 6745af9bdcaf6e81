//! `foreread-lab seeds`: compares the published tables with the simulator.
//!
//! Cells that differ are shown as well.

mod html;
mod report;

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use foreread_sim::seeds::{self, SeedTable};

use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;

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
    #[arg(long, value_name = "SEED")]
    #[arg(value_parser = PossibleValuesParser::new(seeds::numbers()))]
    only: Option<String>,

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

pub(crate) fn run(args: &SeedsArgs, out: &mut Printer) -> Result<(), Failure> {
    let page =
        HtmlFile::prepare(args.html.as_deref(), args.json, &mut CommandOutputs::beside(&[]))?;
    let tables = run_all(args.only.as_deref());
    if args.json {
        out.json("seeds", &tables)?;
    } else if args.markdown {
        report::markdown(out, &tables)?;
    } else {
        report::print(out, &tables)?;
    }
    if let Some(page) = page {
        out.flush()?;
        page.write(html::page(&tables))?;
    }
    let failed: Vec<_> = tables.iter().filter(|table| !table.verdict.holds).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = failed.iter().map(|table| table.table).collect();
    Err(Failure::Check(format!("not as it should be: {}", names.join(", "))))
}

fn run_all(only: Option<&str>) -> Vec<SeedTable> {
    let bar = spinner();
    let tables = seeds::tables(only, &mut |what| bar.set_message(what.to_owned()));
    bar.finish_and_clear();
    tables
}
