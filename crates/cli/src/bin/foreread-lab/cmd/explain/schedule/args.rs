//! The arguments of `foreread-lab explain schedule`.

use clap::builder::PossibleValuesParser;
use foreread_core::sched::{Class, Op, Origin, SchedulerKind, Submitter};
use foreread_core::units::{Sector, Sectors};

use super::{DispatchTimes, ScheduleFormat, SchedulePlan, ScheduledRequest};
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::Failure;

/// Show the order in which a scheduler dispatches requests
///
/// The REQUESTs arrive at their times; the device takes one per step and completes it at once.
/// Prints their names in dispatch order, one dispatch per line.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ScheduleArgs {
    /// I/O scheduler
    #[arg(long, default_value = "deadline")]
    #[arg(value_parser = PossibleValuesParser::new(SchedulerKind::NAMES))]
    scheduler: String,

    /// Set a tunable of the scheduler; may be repeated
    ///
    /// rule=2002, rule=4.x (the default) or rule=mq selects the variant of deadline. Others, for
    /// some or all rules: read_expire, write_expire, writes_starved, fifo_batch, front_merges,
    /// seek_cost, quirks, prio_aging_expire, async_depth, reads_in_flight, writes_in_flight,
    /// read_hold, read_drain. warm=on starts as after a full batch of reads; rule mq otherwise
    /// starts as if in the middle of a batch of writes. docs/design/deadline.md has units and
    /// defaults.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,

    /// Time of the first dispatch in milliseconds, and of the step from one to the next
    ///
    /// A step without a queued request is skipped. Without STEP or with 0, all requests that have
    /// arrived are dispatched before the next arrival.
    #[arg(long, value_name = "START[+STEP]", default_value = "0", value_parser = parse_times)]
    dispatch_ms: DispatchTimes,

    /// Merge adjacent requests, up to 2560 sectors; a line has all their names
    #[arg(long)]
    merge: bool,

    /// Print the time and reason of each dispatch
    ///
    /// batch: continues a batch; next: starts a batch at the next sector; oldest: starts a batch
    /// because no request follows; expired: exceeded its deadline; starved: its direction was
    /// passed over; aged: passed over by higher classes; -: no reason given.
    #[arg(long, conflicts_with = "json")]
    why: bool,

    /// Print JSON, one data object per dispatch
    ///
    /// Keys: id (as printed), start, sectors, arrival_ms, dispatch_ms, why (null if the scheduler
    /// gives no reason).
    #[arg(long)]
    json: bool,

    /// Requests as DIRECTION SECTOR@MS without a blank: R300@0 is a read at sector 300 that arrives
    /// at 0 ms
    ///
    /// W is a write. A request has 8 sectors unless +N follows the sector: W300+64@5. An optional
    /// prefix with a colon gives the class (rt:, be: or idle:; default be) and the submitter (7:,
    /// or rt:7:; default 0).
    #[arg(value_name = "REQUEST", required = true, value_parser = parse_request)]
    requests: Vec<ScheduledRequest>,
}

impl ScheduleArgs {
    /// Resolves the options.
    pub(super) fn resolve(&self) -> Result<SchedulePlan, Failure> {
        let name = &self.scheduler;
        let mut scheduler =
            SchedulerKind::from_name(name).expect("clap accepts only names of schedulers");
        for (setting, value) in &self.set {
            let wrong = |error| Failure::WrongUse(format!("{name}: {error}"));
            scheduler.set(setting, value).map_err(wrong)?;
        }
        Ok(SchedulePlan {
            scheduler,
            requests: self.requests.clone(),
            times: self.dispatch_ms,
            merges: self.merge,
            format: match (self.json, self.why) {
                (true, _) => ScheduleFormat::Json,
                (false, true) => ScheduleFormat::Reasons,
                (false, false) => ScheduleFormat::Names,
            },
        })
    }
}

fn parse_times(text: &str) -> Result<DispatchTimes, String> {
    let (start, step) = text.split_once('+').unwrap_or((text, "0"));
    let times = number(start).zip(number(step));
    let times = times.filter(|(start, step)| *start <= LATEST_MS && *step <= LONGEST_STEP_MS);
    let times = times.map(|(start_ms, step_ms)| DispatchTimes { start_ms, step_ms });
    times.ok_or_else(|| "write START or START+STEP in milliseconds (600, 0+1000)".to_owned())
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE (fifo_batch=16)")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_request(text: &str) -> Result<ScheduledRequest, String> {
    let (origin, request) = match text.rsplit_once(':') {
        Some((prefixes, request)) => (parse_origin(prefixes)?, request),
        None => (Origin::default(), text),
    };
    let wrong = || "write DIRECTION SECTOR@MS (R300@0, W300+64@5, rt:R300@0)".to_owned();
    let (place, ms) = request.split_once('@').ok_or_else(wrong)?;
    let op = match place.as_bytes().first() {
        Some(b'R') => Op::Read,
        Some(b'W') => Op::Write,
        _ => return Err(wrong()),
    };
    let (start, sectors) = place[1..].split_once('+').unwrap_or((&place[1..], "8"));
    let number = |text: &str| number(text).ok_or_else(wrong);
    let (arrival_ms, start, sectors) = (number(ms)?, number(start)?, number(sectors)?);
    if sectors == 0 || start.checked_add(sectors).is_none() {
        return Err("a request has at least one sector and ends below sector 2^64".to_owned());
    }
    if arrival_ms > LATEST_MS {
        return Err(format!("requests arrive until {LATEST_MS} ms"));
    }
    let name = place.split('+').next().unwrap_or(place).to_owned();
    let (start, sectors) = (Sector(start), Sectors(sectors));
    Ok(ScheduledRequest { name, start, sectors, origin: Origin { op, ..origin }, arrival_ms })
}

fn parse_origin(prefixes: &str) -> Result<Origin, String> {
    let mut origin = Origin::default();
    for prefix in prefixes.split(':') {
        match prefix {
            "rt" => origin.class = Class::RealTime,
            "be" => origin.class = Class::BestEffort,
            "idle" => origin.class = Class::Idle,
            number => {
                let number = number.parse().map_err(
                    |_| "before the request stands rt:, be: or idle:, or a submitter's number",
                );
                origin.submitter = Submitter(number?);
            }
        }
    }
    Ok(origin)
}

/// Parses digits only: `u64::from_str` accepts a sign.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// A century: all times of a run fit in the core's nanoseconds, however many arguments there are.
const LATEST_MS: u64 = 3_155_760_000_000;
const LONGEST_STEP_MS: u64 = 10_000_000;

const EXAMPLES: &str = "\
Printer:
  R100                 the read at sector 100 went first
  R108                 then the read at sector 108

Examples:
  Four reads in the order of the disk, under rule mq:
    foreread-lab explain schedule --set rule=mq R300@0 R100@0 R200@0 R50@0
  Two batches of reads, then one of writes, and why:
    foreread-lab explain schedule --set fifo_batch=2 --why \\
        R10@0 R20@0 R30@0 R40@0 R50@0 W1000@0 W1010@0
  An idle read behind a stream of real-time reads, a dispatch a second:
    foreread-lab explain schedule --set rule=mq --dispatch-ms 0+1000 \\
        idle:R10@0 rt:R2000@0 rt:R2008@1000 rt:R2016@2000

";
