//! `foreread sim rivals`: every policy in the same scenarios.
//!
//! In:    which scenarios, which policies; or which parts of `adaptive` are left out.
//! Out:   one table, and where `adaptive` loses; or JSON; or the page docs/rivals.md.
//! Never: a rival that is left out because it is ahead.

mod cells;
mod page;

use std::io::Write as _;
use std::num::NonZero;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use foreread_core::prefetch::Policy;
use foreread_sim::rival_policy;
use foreread_sim::rivals::{self, Rival, RivalJob, RivalRow};

use self::cells::cells;
use crate::args::help::CODES_AND_UNITS;
use crate::args::policy::simulated_policies;
use crate::output::{Failure, Printer};
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
    /// (docs/rivals-literature.md)
    #[arg(long, conflicts_with_all = ["policy", "ablation", "markdown"])]
    literature: bool,

    /// adaptive alone, whole and without its parts: the law that shares memory out, the clip that
    /// keeps unread pages, the lead that follows waits; one by one and together
    #[arg(long, conflicts_with = "policy")]
    ablation: bool,

    /// Print the page docs/rivals.md
    #[arg(long, conflicts_with_all = ["json", "ablation"])]
    markdown: bool,

    /// Print JSON, one object of data a row
    ///
    /// Keys: scenario, policy, max_window (bytes; null: learnt), without, elapsed_s, requests,
    /// device_s, amplification, evicted_unread, waited_s, optimum_requests (null where nothing says
    /// what it is), mb_per_s, streams, at_rate.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread sim rivals
  foreread sim rivals --scenario streaming-fast turns-200-in-32m --policy linux-6 adaptive
  foreread sim rivals --ablation --json
  foreread sim scenarios/rivals/streaming-fast.toml --policy linux-6

";

pub(super) fn run(args: &RivalsArgs, out: &mut Printer) -> Result<(), Failure> {
    let jobs = jobs(args);
    let bar = spinner();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let rows = rivals::run_all(&jobs, threads, &|count, job| {
        let (name, policy) = (job.rival.name, job.how.policy.name());
        bar.set_message(format!("{count} of {}: {name}, {policy}", jobs.len()));
    });
    bar.finish_and_clear();
    if args.json {
        return out.json("sim rivals", &rows);
    }
    if args.markdown {
        return page::print(out, &rows);
    }
    print(out, &rows)?;
    if !args.ablation {
        print_losses(out, &rows)?;
    }
    Ok(())
}

fn jobs(args: &RivalsArgs) -> Vec<RivalJob> {
    let all: Vec<_> = rivals::all().iter().collect();
    let scenarios = if args.scenario.is_empty() { &all } else { &args.scenario };
    let everything: Vec<Policy> = rival_policy::all().collect();
    let policies = match args.literature {
        true => &everything,
        false if args.policy.is_empty() => &Policy::ALL[..],
        false => &args.policy,
    };
    let ways = |rival: &Rival| -> Vec<_> {
        if args.ablation {
            return rival.ablations();
        }
        policies.iter().flat_map(|policy| rival.ways(*policy)).collect()
    };
    let of = |rival: &&'static Rival| {
        let rival = *rival;
        ways(rival).into_iter().map(move |how| RivalJob { rival, how })
    };
    scenarios.iter().flat_map(of).collect()
}

fn print(out: &mut Printer, rows: &[RivalRow]) -> Result<(), Failure> {
    let heading = [
        "scenario", "policy", "elapsed", "MB/s", "requests", "x best", "device s", "x bytes",
        "unread", "waited s", "at rate",
    ];
    table::print(out, heading, rows.iter().map(cells))
}

fn print_losses(out: &mut Printer, rows: &[RivalRow]) -> Result<(), Failure> {
    if !rows.iter().any(|row| row.policy == Policy::Adaptive.name()) {
        return Ok(());
    }
    let losses = rivals::losses(rows);
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
