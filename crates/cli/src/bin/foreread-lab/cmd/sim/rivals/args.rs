//! The arguments of `foreread-lab sim rivals`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use foreread_core::prefetch::Policy;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::rivals::{self, Rival};
use foreread_sim::{policy, rival_policy};

use super::{RivalsFormat, RivalsPlan, RivalsPolicies};
use crate::args::policy::{eviction_policies, simulated_policies};
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::Failure;

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
pub(crate) struct RivalsArgs {
    /// Only these scenarios
    #[arg(value_parser = scenarios())]
    scenario: Vec<&'static Rival>,

    /// Only these policies
    ///
    /// literature adds the policies of papers and of other software, such as amp, tap and leap
    /// (docs/lab/rivals-literature.md). ablation runs adaptive alone, complete and with parts left
    /// out, which have the names of the scenario key `without` (docs/design/adaptive.md): law,
    /// clip, lead and runs are left out in every combination; order, gaps and far one by one, and
    /// then all.
    #[arg(long, value_name = "POLICY", num_args = 1.., value_parser = policy_groups())]
    policy: Vec<PolicyGroup>,

    /// Eviction policies, each run with every policy; two-lists is the library's, the others are
    /// simulated only
    #[arg(
        long, value_name = "POLICY", num_args = 1.., value_parser = eviction_policies(),
        default_values = [CachePolicyKind::TwoLists.name()],
    )]
    eviction: Vec<CachePolicyKind>,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print one line per scenario (adaptive, the fastest rival, and the rival with the shortest
    /// waits among those that serve readers as well), and the losses of adaptive
    #[arg(long, conflicts_with = "json")]
    summary: bool,

    /// Print the page docs/lab/rivals.md; with --policy literature, the figures of
    /// docs/lab/rivals-literature.md; with --summary, its table of all scenarios
    #[arg(long, conflicts_with = "json")]
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

/// A policy, or a group of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PolicyGroup {
    One(Policy),
    Literature,
    Ablation,
}

impl RivalsArgs {
    /// Checks and resolves the options.
    pub(super) fn resolve(&self) -> Result<RivalsPlan, Failure> {
        let policies = self.policies()?;
        let format = self.format(&policies)?;
        let scenarios = match &self.scenario[..] {
            [] => rivals::all().iter().collect(),
            named => named.to_vec(),
        };
        let evictions = self.eviction.clone();
        Ok(RivalsPlan { scenarios, policies, evictions, html: self.html.clone(), format })
    }

    fn policies(&self) -> Result<RivalsPolicies, Failure> {
        let has = |group| self.policy.contains(&group);
        if has(PolicyGroup::Ablation) {
            return match self.policy.len() {
                1 => Ok(RivalsPolicies::Ablation),
                _ => Err(wrong("--policy ablation: runs adaptive alone; name no other policy")),
            };
        }
        let named = self.policy.iter().filter_map(|group| match group {
            PolicyGroup::One(policy) => Some(*policy),
            PolicyGroup::Literature | PolicyGroup::Ablation => None,
        });
        let mut policies: Vec<Policy> = named.collect();
        if policies.is_empty() {
            policies.extend(policy::ALL);
        }
        if has(PolicyGroup::Literature) {
            let of_literature = rival_policy::ALL.iter().filter(|one| !policies.contains(one));
            let of_literature: Vec<Policy> = of_literature.copied().collect();
            policies.extend(of_literature);
        }
        Ok(RivalsPolicies::Named(policies))
    }

    fn format(&self, policies: &RivalsPolicies) -> Result<RivalsFormat, Failure> {
        match policies {
            RivalsPolicies::Ablation if self.summary || self.markdown => {
                return Err(wrong("--policy ablation: has neither --summary nor --markdown"));
            }
            RivalsPolicies::Named(named) if self.summary && !named.contains(&Policy::Adaptive) => {
                return Err(wrong(
                    "--summary: compares adaptive with the others; name it in --policy, too",
                ));
            }
            RivalsPolicies::Ablation | RivalsPolicies::Named(_) => {}
        }
        let has_literature = self.policy.contains(&PolicyGroup::Literature);
        Ok(match (self.json, self.markdown, self.summary) {
            (true, ..) => RivalsFormat::Json,
            (false, true, true) => RivalsFormat::SummaryPage,
            (false, true, false) if has_literature => RivalsFormat::LiteraturePage,
            (false, true, false) => RivalsFormat::Page,
            (false, false, true) => RivalsFormat::Summary,
            (false, false, false) => RivalsFormat::Table,
        })
    }
}

fn wrong(line: &str) -> Failure {
    Failure::WrongUse(line.to_owned())
}

/// Returns the parser of `--policy`: all policies of the simulator, and the groups.
fn policy_groups() -> impl TypedValueParser<Value = PolicyGroup> {
    let policies = simulated_policies();
    let policies = policies.possible_values().into_iter().flatten();
    let groups = [
        PossibleValue::new(LITERATURE).help("also all of the literature and of other software"),
        PossibleValue::new(ABLATION).help("adaptive, complete and with parts left out"),
    ];
    PossibleValuesParser::new(policies.chain(groups)).map(|name| match name.as_str() {
        LITERATURE => PolicyGroup::Literature,
        ABLATION => PolicyGroup::Ablation,
        name => {
            let policy = rival_policy::find(name);
            PolicyGroup::One(policy.expect("clap accepts only names of rival_policy::all"))
        }
    })
}

const LITERATURE: &str = "literature";
const ABLATION: &str = "ablation";

/// Returns the parser of all scenarios, each with a line of help.
fn scenarios() -> impl TypedValueParser<Value = &'static Rival> {
    let value = |rival: &Rival| PossibleValue::new(rival.name);
    PossibleValuesParser::new(rivals::all().iter().map(value)).map(|name| {
        // Clap has let through only the names of `rivals::all`.
        rivals::find(&name).expect("clap accepts only names of rivals::all")
    })
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab sim rivals
  foreread-lab sim rivals streaming-fast turns-200-in-32m --policy linux-6 adaptive
  foreread-lab sim rivals zipf-mix --policy linux-6 adaptive --eviction two-lists s3-fifo arc
  foreread-lab sim rivals heads --policy adaptive literature
  foreread-lab sim rivals --policy literature --summary
  foreread-lab sim rivals --policy ablation --json
  foreread-lab sim scenarios/rivals/streaming-fast.toml --policy linux-6

";
