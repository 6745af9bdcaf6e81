//! `foreread sim rivals`: every policy in the same scenarios.
//!
//! In:    which scenarios, which policies; or which parts of `adaptive` are left out.
//! Out:   one table, and where `adaptive` loses; or JSON; or the page docs/rivals.md.
//! Never: a rival that is left out because it is ahead.

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
use foreread_sim::rival_policy;
use foreread_sim::rivals::{self, Loss, PolicySetup, Rival, RivalJob, RivalRow};

use self::cells::{HEADING, SUMMARY_HEADING, cells, summary_cells};
use crate::args::help::CODES_AND_UNITS;
use crate::args::policy::{eviction_policies, simulated_policies};
use crate::html_file::HtmlFile;
use crate::output::{Failure, Printer};
use crate::output_file::CommandOutputs;
use crate::progress::spinner;
use crate::table;

/// Every policy in the same scenarios, and where adaptive loses
///
/// The scenarios are part of the program: clients with rates of their own, streams in turns,
/// devices of many kinds, random reads, users with weights. Each is run with each policy in virtual
/// time. All of them take some minutes on two processors; on a terminal, a line says how far it is.
///
/// The kernel's policies, and others that are told how large a window may be, are run with 128K and
/// 1M, where that makes a difference. adaptive is told nothing: its windows are as it learns them.
///
/// Columns: elapsed, what was counted, in virtual seconds; requests, to all devices; x best, over
/// the fewest requests that windows could come to, computed from the true rates of the clients (for
/// scenarios named streaming-); device s, how long devices were at work; x bytes, what devices were
/// asked for over what was read; unread, pages that were read ahead and evicted unused; waited s,
/// all readers' waits together; at rate, how many of the clients with a rate got it.
///
/// Two more compare a row with offline optima, which know all reads in advance: x req, requests
/// over a lower bound for any read-ahead (- where one request may fill the memory); x MIN, bytes of
/// the devices over the misses of Belady's MIN for the memory. docs/simulator.md says what these
/// bounds leave out.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(super) struct RivalsArgs {
    /// Only these scenarios
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = scenarios())]
    scenario: Vec<&'static Rival>,

    /// Only these policies
    #[arg(long, value_name = "POLICY", num_args = 1.., value_parser = simulated_policies())]
    policy: Vec<Policy>,

    /// The policies of the literature and of the field too: amp, tap, leap and others
    /// (docs/rivals-literature.md); beside those of --policy, if it is given
    #[arg(long, conflicts_with = "ablation")]
    literature: bool,

    /// The eviction policies below each of them; all but two-lists, which is the library's own, are
    /// of the literature, in the simulator only
    #[arg(
        long, value_name = "POLICY", num_args = 1.., value_parser = eviction_policies(),
        default_values = [CachePolicyKind::TwoLists.name()],
    )]
    eviction: Vec<CachePolicyKind>,

    /// adaptive alone, whole and without its parts
    ///
    /// They have the names that `without` takes in a scenario (docs/adaptive.md). law, clip, lead
    /// and runs are left out in each combination, order, gaps and far one by one, and then all.
    #[arg(long, conflicts_with = "policy")]
    ablation: bool,

    /// Also write a report into FILE: one page of HTML with charts that needs nothing else
    ///
    /// FILE must not exist, be empty, or be such a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print one line for each scenario: adaptive, the fastest of the others, and the one whose
    /// readers wait least of those that serve them as well; and where adaptive loses
    #[arg(long, conflicts_with_all = ["json", "ablation"])]
    summary: bool,

    /// Print the page docs/rivals.md; with --literature, the figures of docs/rivals-literature.md;
    /// with --summary, its table of all scenarios
    #[arg(long, conflicts_with_all = ["json", "ablation"])]
    markdown: bool,

    /// Print JSON, one object of data a row
    ///
    /// Keys: scenario, policy, eviction, max_window (bytes; null: learnt), without, elapsed_s,
    /// requests, device_s, amplification, evicted_unread, waited_s, optimum_requests (null where
    /// nothing says what it is), fewest_requests (null where one request may fill the
    /// memory), fewest_bytes, device_bytes, mb_per_s, streams, at_rate.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread sim rivals
  foreread sim rivals --scenario streaming-fast turns-200-in-32m --policy linux-6 adaptive
  foreread sim rivals --scenario zipf-mix --policy linux-6 adaptive --eviction two-lists s3-fifo arc
  foreread sim rivals --scenario heads --policy adaptive --literature
  foreread sim rivals --literature --summary
  foreread sim rivals --ablation --json
  foreread sim scenarios/rivals/streaming-fast.toml --policy linux-6

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
        let given = if self.policy.is_empty() { &Policy::ALL[..] } else { &self.policy };
        let of_literature = rival_policy::all().filter(|policy| {
            self.literature && !Policy::ALL.contains(policy) && !given.contains(policy)
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

/// The names of all scenarios, each with what it shows.
fn scenarios() -> impl TypedValueParser<Value = &'static Rival> {
    let value = |rival: &Rival| PossibleValue::new(rival.name);
    PossibleValuesParser::new(rivals::all().iter().map(value)).map(|name| {
        // Clap has let through only the names of `rivals::all`.
        rivals::find(&name).expect("clap accepts only names of rivals::all")
    })
}
