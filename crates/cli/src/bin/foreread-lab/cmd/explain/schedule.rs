//! `foreread-lab explain schedule`: dispatch order of a scheduler.

mod args;

pub(crate) use args::ScheduleArgs;

use std::collections::VecDeque;

use foreread_core::sched::{Origin, Payload, Request, Scheduler, SchedulerKind, Why};
use foreread_core::units::{Nanos, Sector, Sectors};
use serde::Serialize;

use foreread_cli::output::{Failure, Printer};

/// A scheduler, and the requests that it gets.
struct SchedulePlan {
    /// With its tunables set.
    scheduler: SchedulerKind,
    requests: Vec<ScheduledRequest>,
    times: DispatchTimes,
    /// True if adjacent requests are merged.
    merges: bool,
    format: ScheduleFormat,
}

/// Times at which the device takes requests.
#[derive(Clone, Copy, Debug)]
struct DispatchTimes {
    start_ms: u64,
    /// 0: the device takes all that have arrived.
    step_ms: u64,
}

/// Printed form of a dispatch.
enum ScheduleFormat {
    Names,
    /// Names, with times and reasons.
    Reasons,
    Json,
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
    let plan = args.resolve()?;
    let explained = explain(&plan);
    let width = explained.iter().map(|each| each.id.len()).max().unwrap_or(0);
    let reasoned = |DispatchDecision { id, dispatch_ms, why, .. }: &DispatchDecision| {
        format!("{id:<width$}  {dispatch_ms:>6} ms  {}", why.unwrap_or("-"))
    };
    match plan.format {
        ScheduleFormat::Json => out.json("explain schedule", explained),
        ScheduleFormat::Reasons => explained.iter().try_for_each(|each| out.line(&reasoned(each))),
        ScheduleFormat::Names => explained.iter().try_for_each(|each| out.line(&each.id)),
    }
}

/// Computes all dispatches.
///
/// ```text
///   arrivals     a b      c         d           d is late
///   steps      S     S+D    S+2D   S+3D   S+4D
///   dispatches a     b      c      unused d
/// ```
fn explain(plan: &SchedulePlan) -> Vec<DispatchDecision> {
    let DispatchTimes { start_ms, step_ms } = plan.times;
    let mut queue = plan.scheduler.queue(largest(&plan.requests));
    let mut arriving: Vec<_> = plan.requests.iter().collect();
    arriving.sort_by_key(|asked| asked.arrival_ms);
    let mut arriving: VecDeque<_> = arriving.into();
    let mut explained = Vec::new();
    let mut now_ms = start_ms;
    loop {
        while let Some(asked) = arriving.pop_front_if(|asked| asked.arrival_ms <= now_ms) {
            queue.add(at(now_ms), request(asked, plan.merges));
        }
        let before = explained.len();
        while let Some(dispatched) = dispatch(queue.as_mut(), now_ms) {
            explained.push(dispatched);
            if step_ms > 0 {
                break;
            }
        }
        if queue.is_empty() && arriving.is_empty() {
            return explained;
        }
        let arrival_ms = arriving.front().map(|asked| asked.arrival_ms);
        let wake_ms = queue.wake_at().map(|at| at.0.div_ceil(NS_IN_MS));
        let is_held_back = step_ms == 0 || explained.len() == before;
        let event_ms = if queue.is_empty() {
            arrival_ms
        } else if is_held_back {
            // The scheduler waits for a time.
            wake_ms.into_iter().chain(arrival_ms).min()
        } else {
            Some(now_ms)
        };
        let event_ms = event_ms.expect("a scheduler that holds requests back names a time");
        let wait_ms = event_ms.saturating_sub(now_ms);
        now_ms = match step_ms {
            0 => event_ms,
            step_ms => now_ms + wait_ms.div_ceil(step_ms).max(1) * step_ms,
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

fn request(asked: &ScheduledRequest, may_merge: bool) -> Request<RequestNames> {
    let ScheduledRequest { name, start, sectors, origin, arrival_ms } = asked.clone();
    let load = RequestNames { names: vec![name], may_merge };
    Request { start, sectors, origin, arrival: at(arrival_ms), load }
}

/// Returns the limit of merged requests: Linux's default of 1280 KiB, or the largest REQUEST.
fn largest(requests: &[ScheduledRequest]) -> Sectors {
    let longest = requests.iter().map(|asked| asked.sectors).max();
    longest.map_or(LARGEST, |longest| longest.max(LARGEST))
}

fn at(ms: u64) -> Nanos {
    Nanos(ms * NS_IN_MS)
}

const NS_IN_MS: u64 = 1_000_000;

const LARGEST: Sectors = Sectors(2560);
