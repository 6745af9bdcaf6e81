//! `foreread-lab sim rivals`: all policies in the same scenarios.
//!
//! All rivals are listed, also those ahead of `adaptive`.

mod cells;
mod html;
mod page;

use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use foreread_core::prefetch::Policy;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::rivals::{self, Loss, PolicySetup, Rival, RivalJob, RivalRow};
use foreread_sim::{policy, rival_policy};

use self::cells::{HEADING, SUMMARY_HEADING, cells, summary_cells};
use crate::args::policy::{eviction_policies, simulated_policies};
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;
use foreread_cli::table;

/// Run all policies in the same scenarios and list the losses of adaptive
///
/// The scenarios are built in: streaming clients with fixed rates, interleaved streams, devices of
/// many kinds, random reads, weighted users. Each is run with each policy in virtual time. All of
/// them take a few minutes on two processors; a terminal shows progress.
///
/// Policies with a fixed largest window, such as the kernel's, are run with 128K and 1M where the
/// results differ. adaptive learns its windows.
///
/// Columns: elapsed, virtual seconds of the counted part; requests to all devices; x best, requests
/// over the minimum computed from the true rates of the clients (scenarios named streaming-);
/// device s, busy time of the devices; x bytes, device bytes over bytes read; unread, prefetched
/// pages evicted unused; waited s, total wait of all readers; at rate, the number of clients that
/// sustained their rate.
///
/// Two more compare with offline optima, which know all reads in advance: x req, requests over a
/// lower bound of any read-ahead (- if one request may fill the memory); x MIN, device bytes over
/// the misses of Belady's MIN for the memory. docs/lab/simulator.md lists what these bounds leave
/// out.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(super) struct RivalsArgs {
    /// Only these scenarios
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = scenarios())]
    scenario: Vec<&'static Rival>,

    /// Only these policies
    #[arg(long, value_name = "POLICY", num_args = 1.., value_parser = simulated_policies())]
    policy: Vec<Policy>,

    /// Add policies from the literature and other software: amp, tap, leap and more
    /// (docs/lab/rivals-literature.md)
    #[arg(long, conflicts_with = "ablation")]
    literature: bool,

    /// Eviction policies, each run with every policy; two-lists is the library's, the others are
    /// simulated only
    #[arg(
        long, value_name = "POLICY", num_args = 1.., value_parser = eviction_policies(),
        default_values = [CachePolicyKind::TwoLists.name()],
    )]
    eviction: Vec<CachePolicyKind>,

    /// Run only adaptive, complete and with parts left out
    ///
    /// Parts have the names of the scenario key `without` (docs/design/adaptive.md). law, clip,
    /// lead and runs are left out in every combination; order, gaps and far one by one, and then
    /// all.
    #[arg(long, conflicts_with = "policy")]
    ablation: bool,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print one line per scenario (adaptive, the fastest rival, and the rival with the shortest
    /// waits among those that serve readers as well), and the losses of adaptive
    #[arg(long, conflicts_with_all = ["json", "ablation"])]
    summary: bool,

    /// Print the page docs/lab/rivals.md; with --literature, the figures of
    /// docs/lab/rivals-literature.md; with --summary, its table of all scenarios
    #[arg(long, conflicts_with_all = ["json", "ablation"])]
    markdown: bool,

    /// Print JSON, one data object per row
    ///
    /// Keys: scenario, policy, eviction, max_window (bytes; null: learnt), without, elapsed_s,
    /// requests, device_s, amplification, evicted_unread, waited_s, optimum_requests (null if
    /// unknown), fewest_requests (null where one request may fill the memory), fewest_bytes,
    /// device_bytes, mb_per_s, streams, at_rate.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab sim rivals
  foreread-lab sim rivals --scenario streaming-fast turns-200-in-32m --policy linux-6 adaptive
  foreread-lab sim rivals --scenario zipf-mix --policy linux-6 adaptive --eviction two-lists s3-fifo arc
  foreread-lab sim rivals --scenario heads --policy adaptive --literature
  foreread-lab sim rivals --literature --summary
  foreread-lab sim rivals --ablation --json
  foreread-lab sim scenarios/rivals/streaming-fast.toml --policy linux-6

";

pub(super) fn run(args: &RivalsArgs, out: &mut Printer) -> Result<(), Failure> {
    if args.summary && !args.policies().contains(&Policy::Adaptive) {
        let why = "--summary: holds adaptive against the others; name it in --policy, too";
        return Err(Failure::WrongUse(why.to_owned()));
    }
    let file =
        HtmlFile::prepare(args.html.as_deref(), args.json, &mut CommandOutputs::beside(&[]))?;
    let jobs = jobs(args);
    let bar = spinner();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let all = jobs.len() * args.eviction.len();
    let rows = rivals::run_all_over(&jobs, &args.eviction, threads, &|count, job| {
        let (name, policy) = (job.rival.name, job.how.policy.name());
        bar.set_message(format!("{count} of {all}: {name}, {policy}"));
    });
    bar.finish_and_clear();
    let losses = if args.ablation { Vec::new() } else { rivals::losses(&rows) };
    if args.json {
        out.json("sim rivals", &rows)?;
    } else if args.markdown && args.summary {
        page::print_summary(out, &rows)?;
    } else if args.markdown && args.literature {
        page::print_literature(out, &rows)?;
    } else if args.markdown {
        page::print(out, &rows)?;
    } else {
        if args.summary {
            let all = rivals::summaries(&rows);
            table::print(out, SUMMARY_HEADING, all.iter().map(summary_cells))?;
        } else {
            table::print(out, HEADING, rows.iter().map(cells))?;
        }
        if !args.ablation {
            print_losses(out, &rows, &losses)?;
        }
    }
    file.map_or(Ok(()), |file| file.write(html::page(&rows, &losses)))
}

impl RivalsArgs {
    fn policies(&self) -> Vec<Policy> {
        let given = if self.policy.is_empty() { &policy::ALL[..] } else { &self.policy };
        let of_literature = rival_policy::all().filter(|policy| {
            self.literature && !policy::ALL.contains(policy) && !given.contains(policy)
        });
        given.iter().copied().chain(of_literature).collect()
    }
}

fn jobs(args: &RivalsArgs) -> Vec<RivalJob> {
    let all: Vec<_> = rivals::all().iter().collect();
    let scenarios = if args.scenario.is_empty() { &all } else { &args.scenario };
    let policies = args.policies();
    let ways = |rival: &Rival| -> Vec<_> {
        if args.ablation {
            return PolicySetup::ablations();
        }
        policies.iter().flat_map(|policy| rival.ways(*policy)).collect()
    };
    let of = |rival: &&'static Rival| {
        let rival = *rival;
        ways(rival).into_iter().map(move |how| RivalJob { rival, how })
    };
    scenarios.iter().flat_map(of).collect()
}

fn print_losses(out: &mut Printer, rows: &[RivalRow], losses: &[Loss]) -> Result<(), Failure> {
    if !rows.iter().any(|row| row.policy == Policy::Adaptive.name()) {
        return Ok(());
    }
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

/// Returns the parser of all scenarios, each with a line of help.
fn scenarios() -> impl TypedValueParser<Value = &'static Rival> {
    let value = |rival: &Rival| PossibleValue::new(rival.name);
    PossibleValuesParser::new(rivals::all().iter().map(value)).map(|name| {
        // Clap has let through only the names of `rivals::all`.
        rivals::find(&name).expect("clap accepts only names of rivals::all")
    })
}
