//! `foreread explain schedule`: in which order a scheduler sends requests.

use std::collections::VecDeque;
use std::io::Write as _;

use clap::builder::PossibleValuesParser;
use foreread_core::sched::{
    Class, Op, Origin, Payload, Request, Scheduler, SchedulerKind, Submitter, Why,
};
use foreread_core::units::{Nanos, Sector, Sectors};
use serde::Serialize;

use crate::args::help::CODES_AND_UNITS;
use crate::output::{Failure, Printer};

/// In which order a scheduler sends requests to a device
///
/// The REQUESTS arrive at their times, and the device takes one at each step and has done it at
/// once. Printed are their names, one dispatch a line, in the order of dispatch.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ScheduleArgs {
    /// The scheduler
    #[arg(long, default_value = "deadline")]
    #[arg(value_parser = PossibleValuesParser::new(SchedulerKind::NAMES))]
    scheduler: String,

    /// A setting of the scheduler; may be repeated
    ///
    /// rule=2002, rule=4.x (the default) or rule=mq says which deadline it is. Others, for all
    /// rules or some: read_expire, write_expire, writes_starved, fifo_batch, front_merges,
    /// seek_cost, quirks, prio_aging_expire, async_depth, reads_in_flight, writes_in_flight,
    /// read_hold, read_drain. docs/deadline.md has them with units and defaults.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,

    /// Start as after a batch of reads that is used up
    ///
    /// Rule mq starts as if in the middle of a batch of writes; this shows what it does later.
    #[arg(long)]
    warm: bool,

    /// When the first request is dispatched, in milliseconds
    #[arg(long, value_name = "S", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=LATEST_MS))]
    start_ms: u64,

    /// Time from one dispatch to the next, in milliseconds
    ///
    /// A step at which nothing is queued passes unused. With 0, all that has arrived is dispatched,
    /// and then the next arrival is awaited.
    #[arg(long, value_name = "D", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=LONGEST_STEP_MS))]
    step_ms: u64,

    /// Make neighbours one request, as far as 2560 sectors; its line has the names of all
    #[arg(long)]
    merge: bool,

    /// Print after each name when it was dispatched, and why
    ///
    /// batch: it goes on with a batch; next: it begins one, next to what went before; oldest:
    /// nothing lies next; expired: it waited for too long; starved: its direction was passed over;
    /// aged: higher classes passed it over; -: the scheduler does not say.
    #[arg(long, conflicts_with = "json")]
    why: bool,

    /// Print JSON, one object of data a dispatch
    ///
    /// Keys: id (what the line says), start, sectors, arrival_ms, dispatch_ms, why (null if the
    /// scheduler does not say).
    #[arg(long)]
    json: bool,

    /// DIRECTION SECTOR@MS, without a blank: R300@0 is a read at sector 300 that arrives at 0 ms
    ///
    /// W is a write. A request has 8 sectors, or as many as stand after a plus: W300+64@5. Before
    /// it, with a colon, may stand its class (rt:, be: or idle:; be if nothing is said) and the
    /// number of its submitter (7:, or rt:7:; 0 if nothing is said).
    #[arg(value_name = "REQUEST", required = true, value_parser = parse_request)]
    requests: Vec<ScheduledRequest>,
}

/// A request as it is asked for.
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

/// One dispatch, as JSON says it.
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

/// The largest request: Linux's default of 1280 KiB, or larger if that is asked for.
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
    foreread explain schedule --set rule=mq R300@0 R100@0 R200@0 R50@0
  Two batches of reads, then one of writes, and why:
    foreread explain schedule --set fifo_batch=2 --why \\
        R10@0 R20@0 R30@0 R40@0 R50@0 W1000@0 W1010@0
  An idle read behind a stream of real-time reads, a dispatch a second:
    foreread explain schedule --set rule=mq --step-ms 1000 \\
        idle:R10@0 rt:R2000@0 rt:R2008@1000 rt:R2016@2000

";
