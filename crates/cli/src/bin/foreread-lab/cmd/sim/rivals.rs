//! `foreread-lab sim rivals`: all policies in the same scenarios.
//!
//! All rivals are listed, also those ahead of `adaptive`.

mod args;
mod cells;
mod html;
mod page;

pub(crate) use args::RivalsArgs;

use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;

use foreread_core::prefetch::Policy;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::rivals::{self, Loss, PolicySetup, Rival, RivalJob, RivalRow};

use self::cells::{HEADING, SUMMARY_HEADING, cells, summary_cells};
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;
use foreread_cli::table;

/// Scenarios and policies to run, and where the figures go.
struct RivalsPlan {
    scenarios: Vec<&'static Rival>,
    policies: RivalsPolicies,
    /// Each is run with every policy.
    evictions: Vec<CachePolicyKind>,
    html: Option<PathBuf>,
    format: RivalsFormat,
}

enum RivalsPolicies {
    Named(Vec<Policy>),
    /// `adaptive`, complete and with parts left out.
    Ablation,
}

/// Printed form of the figures.
#[derive(Clone, Copy, Eq, PartialEq)]
enum RivalsFormat {
    Table,
    /// A line per scenario.
    Summary,
    /// The page docs/lab/rivals.md.
    Page,
    /// Figures of docs/lab/rivals-literature.md.
    LiteraturePage,
    /// Table of all scenarios of docs/lab/rivals-literature.md.
    SummaryPage,
    Json,
}

pub(super) fn run(args: &RivalsArgs, out: &mut Printer) -> Result<(), Failure> {
    let plan = args.resolve()?;
    let is_json = plan.format == RivalsFormat::Json;
    let file = HtmlFile::prepare(plan.html.as_deref(), is_json, &mut CommandOutputs::beside(&[]))?;
    let rows = run_with_progress(&plan);
    let losses = match plan.policies {
        RivalsPolicies::Named(_) => Some(rivals::losses(&rows)),
        RivalsPolicies::Ablation => None,
    };
    let losses = losses.as_deref();
    match plan.format {
        RivalsFormat::Json => out.json("sim rivals", &rows)?,
        RivalsFormat::Page => page::print(out, &rows)?,
        RivalsFormat::LiteraturePage => page::print_literature(out, &rows)?,
        RivalsFormat::SummaryPage => page::print_summary(out, &rows)?,
        RivalsFormat::Summary => {
            let all = rivals::summaries(&rows);
            table::print(out, SUMMARY_HEADING, all.iter().map(summary_cells))?;
            print_losses(out, &rows, losses)?;
        }
        RivalsFormat::Table => {
            table::print(out, HEADING, rows.iter().map(cells))?;
            print_losses(out, &rows, losses)?;
        }
    }
    file.map_or(Ok(()), |file| file.write(html::page(&rows, losses.unwrap_or_default())))
}

fn run_with_progress(plan: &RivalsPlan) -> Vec<RivalRow> {
    let jobs = jobs(plan);
    let bar = spinner();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let all = jobs.len() * plan.evictions.len();
    let rows = rivals::run_all_over(&jobs, &plan.evictions, threads, &|count, job| {
        let (name, policy) = (job.rival.name, job.how.policy.name());
        bar.set_message(format!("{count} of {all}: {name}, {policy}"));
    });
    bar.finish_and_clear();
    rows
}

fn jobs(plan: &RivalsPlan) -> Vec<RivalJob> {
    let ways = |rival: &Rival| -> Vec<_> {
        match &plan.policies {
            RivalsPolicies::Ablation => PolicySetup::ablations(),
            RivalsPolicies::Named(policies) => {
                policies.iter().flat_map(|policy| rival.ways(*policy)).collect()
            }
        }
    };
    let of = |rival: &&'static Rival| {
        let rival = *rival;
        ways(rival).into_iter().map(move |how| RivalJob { rival, how })
    };
    plan.scenarios.iter().flat_map(of).collect()
}

/// Prints where `adaptive` loses, if it was compared.
fn print_losses(
    out: &mut Printer,
    rows: &[RivalRow],
    losses: Option<&[Loss]>,
) -> Result<(), Failure> {
    let has_adaptive = rows.iter().any(|row| row.policy == Policy::Adaptive.name());
    let Some(losses) = losses.filter(|_| has_adaptive) else { return Ok(()) };
    if losses.is_empty() {
        writeln!(out, "\nadaptive loses nowhere by more than 2 %.")?;
        return Ok(());
    }
    writeln!(out)?;
    let title = "Where adaptive loses by more than 2 % to one that serves its readers as well:";
    out.entry("", title)?;
    for loss in losses {
        out.entry("  ", &loss.to_string())?;
    }
    Ok(())
}
