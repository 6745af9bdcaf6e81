//! `foreread-lab explain schedule`: dispatch order of a scheduler.

use std::collections::VecDeque;
use std::io::Write as _;

use clap::builder::PossibleValuesParser;
use foreread_core::sched::{
    Class, Op, Origin, Payload, Request, Scheduler, SchedulerKind, Submitter, Why,
};
use foreread_core::units::{Nanos, Sector, Sectors};
use serde::Serialize;

use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::{Failure, Printer};

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
    /// read_hold, read_drain. docs/design/deadline.md has units and defaults.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,

    /// Start as after a full batch of reads
    ///
    /// Rule mq otherwise starts as if in the middle of a batch of writes; this shows its later
    /// behaviour.
    #[arg(long)]
    warm: bool,

    /// Time of the first dispatch, in milliseconds
    #[arg(long, value_name = "S", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=LATEST_MS))]
    start_ms: u64,

    /// Time from one dispatch to the next, in milliseconds
    ///
    /// A step without a queued request is skipped. With 0, all requests that have arrived are
    /// dispatched before the next arrival.
    #[arg(long, value_name = "D", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=LONGEST_STEP_MS))]
    step_ms: u64,

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

/// Request of the command line.
#[derive(Clone, Debug)]
struct ScheduledRequest {
    name: String,
    start: Sector,
    sectors: Sectors,
    origin: Origin,
    arrival_ms: u64,
}

/// The names of a request.
#[derive(Debug)]
struct RequestNames {
    names: Vec<String>,
    may_merge: bool,
}

impl Payload for RequestNames {
    fn can_take(&self, next: &Self) -> bool {
        self.may_merge && next.may_merge
    }

    fn append(&mut self, mut next: Self) {
        self.names.append(&mut next.names);
    }
}

/// JSON of one dispatch.
#[derive(Serialize)]
struct DispatchDecision {
    id: String,
    start: u64,
    sectors: u64,
    arrival_ms: u64,
    dispatch_ms: u64,
    why: Option<&'static str>,
}

pub(super) fn run(args: &ScheduleArgs, out: &mut Printer) -> Result<(), Failure> {
    let explained = explain(args)?;
    if args.json {
        return out.json("explain schedule", explained);
    }
    let width = explained.iter().map(|each| each.id.len()).max().unwrap_or(0);
    for DispatchDecision { id, dispatch_ms, why, .. } in explained {
        if args.why {
            writeln!(out, "{id:<width$}  {dispatch_ms:>6} ms  {}", why.unwrap_or("-"))?;
        } else {
            writeln!(out, "{id}")?;
        }
    }
    Ok(())
}

/// All dispatches.
///
/// ```text
///   arrivals     a b      c         d           d is late
///   steps      S     S+D    S+2D   S+3D   S+4D
///   dispatches a     b      c      unused d
/// ```
fn explain(args: &ScheduleArgs) -> Result<Vec<DispatchDecision>, Failure> {
    let mut queue = choice(args)?.queue(largest(args));
    let mut arriving: Vec<_> = args.requests.iter().collect();
    arriving.sort_by_key(|asked| asked.arrival_ms);
    let mut arriving: VecDeque<_> = arriving.into();
    let mut explained = Vec::new();
    let mut now_ms = args.start_ms;
    loop {
        while let Some(asked) = arriving.pop_front_if(|asked| asked.arrival_ms <= now_ms) {
            queue.add(at(now_ms), request(asked, args.merge));
        }
        let before = explained.len();
        while let Some(dispatched) = dispatch(queue.as_mut(), now_ms) {
            explained.push(dispatched);
            if args.step_ms > 0 {
                break;
            }
        }
        if queue.is_empty() && arriving.is_empty() {
            return Ok(explained);
        }
        let arrival_ms = arriving.front().map(|asked| asked.arrival_ms);
        let wake_ms = queue.wake_at().map(|at| at.0.div_ceil(NS_IN_MS));
        let is_held_back = args.step_ms == 0 || explained.len() == before;
        let event_ms = if queue.is_empty() {
            arrival_ms
        } else if is_held_back {
            // The scheduler waits for a time.
            wake_ms.into_iter().chain(arrival_ms).min()
        } else {
            Some(now_ms)
        };
        let event_ms = event_ms.expect("a scheduler that holds requests back names a time");
        now_ms = match (event_ms.saturating_sub(now_ms), args.step_ms) {
            (_, 0) => event_ms,
            (wait_ms, step_ms) => now_ms + wait_ms.div_ceil(step_ms).max(1) * step_ms,
        };
    }
}

fn dispatch(queue: &mut dyn Scheduler<RequestNames>, now_ms: u64) -> Option<DispatchDecision> {
    let request = queue.take(at(now_ms))?;
    let why = queue.why().map(Why::name);
    queue.completed(at(now_ms), request.origin, request.arrival);
    Some(DispatchDecision {
        id: request.load.names.join(" "),
        start: request.start.0,
        sectors: request.sectors.0,
        arrival_ms: request.arrival.0 / NS_IN_MS,
        dispatch_ms: now_ms,
        why,
    })
}

fn choice(args: &ScheduleArgs) -> Result<SchedulerKind, Failure> {
    let mut choice =
        SchedulerKind::from_name(&args.scheduler).expect("clap accepts only names of schedulers");
    let warm = args.warm.then_some(("warm", "on"));
    let set = args.set.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in set.chain(warm) {
        let wrong = |error| Failure::WrongUse(format!("{}: {error}", args.scheduler));
        choice.set(name, value).map_err(wrong)?;
    }
    Ok(choice)
}

fn request(asked: &ScheduledRequest, may_merge: bool) -> Request<RequestNames> {
    let ScheduledRequest { name, start, sectors, origin, arrival_ms } = asked.clone();
    let load = RequestNames { names: vec![name], may_merge };
    Request { start, sectors, origin, arrival: at(arrival_ms), load }
}

/// Returns the limit of merged requests: Linux's default of 1280 KiB, or the largest REQUEST.
fn largest(args: &ScheduleArgs) -> Sectors {
    let longest = args.requests.iter().map(|asked| asked.sectors).max();
    longest.map_or(LARGEST, |longest| longest.max(LARGEST))
}

fn at(ms: u64) -> Nanos {
    Nanos(ms * NS_IN_MS)
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
    // Digits only: `parse` would take a sign.
    let number = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_plain).ok_or_else(wrong)
    };
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

const NS_IN_MS: u64 = 1_000_000;

/// A century: all times of a run fit in the core's nanoseconds, however many arguments there are.
const LATEST_MS: u64 = 3_155_760_000_000;
const LONGEST_STEP_MS: u64 = 10_000_000;

const LARGEST: Sectors = Sectors(2560);

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
    foreread-lab explain schedule --set rule=mq --step-ms 1000 \\
        idle:R10@0 rt:R2000@0 rt:R2008@1000 rt:R2016@2000

";
