//! `foreread-lab seeds`: compares the published tables with the simulator.
//!
//! Cells that differ are shown as well.

mod args;
mod html;
mod report;

pub(crate) use args::SeedsArgs;

use std::io::Write as _;
use std::path::PathBuf;

use foreread_sim::seeds::{self, SeedTable};

use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;

/// Published tables to compare, and where the cells go.
struct SeedsPlan {
    /// Number of a thread; None: all.
    thread: Option<String>,
    html: Option<PathBuf>,
    format: SeedsFormat,
}

/// Printed form of the tables.
#[derive(Clone, Copy, Eq, PartialEq)]
enum SeedsFormat {
    Tables,
    /// The page docs/lab/seeds.md.
    Markdown,
    Json,
}

pub(crate) fn run(args: &SeedsArgs, out: &mut Printer) -> Result<(), Failure> {
    let SeedsPlan { thread, html, format } = args.resolve();
    let mut outputs = CommandOutputs::beside(&[]);
    let page = HtmlFile::prepare(html.as_deref(), format == SeedsFormat::Json, &mut outputs)?;
    let tables = run_all(thread.as_deref());
    match format {
        SeedsFormat::Json => out.json("seeds", &tables)?,
        SeedsFormat::Markdown => report::markdown(out, &tables)?,
        SeedsFormat::Tables => report::print(out, &tables)?,
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
