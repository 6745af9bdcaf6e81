//! Tables of a run: processes, devices, the cache, the hash.
//!
//! Many similar processes share one line.

use std::io::Write as _;

use foreread_core::sched::Op;
use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, Nanos};
use foreread_sim::device::StoreTotals;
use foreread_sim::json_rows::CacheRow;
use foreread_sim::meter::{DeviceMeter, ProcessMeter, without_hits};
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::Scenario;
use hdrhistogram::Histogram;

use foreread_cli::output::{Failure, Printer};
use foreread_cli::store::money;
use foreread_cli::table;

pub(super) fn print(
    out: &mut Printer,
    scenario: &Scenario,
    ran: &RunOutcome,
) -> Result<(), Failure> {
    writeln!(out, "{}: {}", scenario.name, setup(scenario))?;
    let (end, events) = (seconds(ran.end), ran.events);
    writeln!(out, "{end:.3} s of virtual time, {events} events, hash {}\n", ran.hash_text())?;

    table::print(out, HEADING, groups(&ran.processes).iter().map(|group| group.line(ran.end)))?;
    print_other(out, &ran.processes)?;
    writeln!(out)?;
    table::print(out, DEVICE_HEADING, ran.devices.iter().map(|meter| device_line(meter, ran.end)))?;
    print_stores(out, &ran.devices)?;

    let CacheRow { pages_wanted, pages_missed, pages_ahead, evicted, evicted_before_use, .. } =
        CacheRow::new(ran);
    writeln!(
        out,
        "\npages: {pages_wanted} wanted by reads that missed, {pages_missed} of them asked for; \
         {pages_ahead} read ahead;\n{evicted} evicted, {evicted_before_use} before their first use"
    )?;
    Ok(())
}

/// Returns the settings of the run.
pub(super) fn setup(scenario: &Scenario) -> String {
    let policy = scenario.cache.policy.0.name();
    let (memory, seed) = (Exact(scenario.cache.memory.0), scenario.seed);
    let window = window_words(scenario.max_window().bytes());
    format!("policy {policy}, memory {memory}, seed {seed}, max window {window}")
}

/// Formats a largest window; None: learnt.
pub(super) fn window_words(window: Option<ByteCount>) -> String {
    window.map_or_else(|| "auto".to_owned(), |window| Exact(window).to_string())
}

/// `p99` and `p99.9` exclude hits, which would dominate them.
pub(super) const HEADING: [&str; 10] =
    ["process", "ops", "MiB", "s", "MB/s", "mean ms", "waits", "p99 ms", "p99.9 ms", "max ms"];

pub(super) const DEVICE_HEADING: [&str; 6] = ["device", "reads", "MiB", "writes", "MiB", "busy"];

/// Processes whose names differ only in a trailing number.
pub(super) struct ProcessGroup<'r> {
    pub(super) name: String,
    pub(super) meters: Vec<&'r ProcessMeter>,
}

pub(super) fn groups(meters: &[ProcessMeter]) -> Vec<ProcessGroup<'_>> {
    let mut groups: Vec<ProcessGroup<'_>> = Vec::new();
    for meter in meters {
        let name = base(&meter.name);
        match groups.iter_mut().find(|group| base(&group.meters[0].name) == name) {
            Some(group) if meters.len() > MOST_LINES => group.meters.push(meter),
            _ => groups.push(ProcessGroup { name: meter.name.clone(), meters: vec![meter] }),
        }
    }
    for group in &mut groups {
        if group.meters.len() > 1 {
            group.name = format!("{} ({})", base(&group.meters[0].name), group.meters.len());
        }
    }
    groups
}

fn base(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((base, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

impl ProcessGroup<'_> {
    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    pub(super) fn line(&self, end: Nanos) -> [String; HEADING.len()] {
        let all = self.latency();
        let (mean, max) = (all.mean(), all.max());
        let waits = without_hits(all);
        let of_waits = |quantile| match waits.len() {
            0 => "-".to_owned(),
            _ => ms(waits.value_at_quantile(quantile)),
        };
        let bytes: u64 = self.meters.iter().map(|meter| meter.bytes.0).sum();
        let ops: u64 = self.meters.iter().map(|meter| meter.ops).sum();
        let longest = self.meters.iter().map(|meter| meter.seconds(end)).fold(0.0, f64::max);
        let rate = self.mb_per_s(end);
        [
            self.name.clone(),
            ops.to_string(),
            mib(bytes),
            format!("{longest:.3}"),
            format!("{rate:.2}"),
            format!("{:.3}", mean / 1e6),
            format!("{:.1} %", waits.len() as f64 / ops.max(1) as f64 * 100.0),
            of_waits(0.99),
            of_waits(0.999),
            ms(max),
        ]
    }

    pub(super) fn mb_per_s(&self, end: Nanos) -> f64 {
        self.meters.iter().map(|meter| meter.mb_per_s(end)).sum()
    }

    /// Returns the latency of all operations, in ns.
    pub(super) fn latency(&self) -> Histogram<u64> {
        ProcessMeter::latency_of_all(self.meters.iter().copied())
    }
}

/// Prints figures of special processes.
fn print_other(out: &mut Printer, meters: &[ProcessMeter]) -> Result<(), Failure> {
    for meter in meters.iter().filter(|meter| !meter.other.is_empty()).take(MOST_LINES) {
        let figures: Vec<_> =
            meter.other.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
        writeln!(out, "{}: {}", meter.name, figures.join(", "))?;
    }
    Ok(())
}

/// Prints figures of object stores, if any.
fn print_stores(out: &mut Printer, meters: &[DeviceMeter]) -> Result<(), Failure> {
    for meter in meters {
        let Some(StoreTotals { requests, hedged, throttled, cost }) = meter.store else { continue };
        if hedged > 0 || throttled > 0 || cost > 0.0 {
            let cost = if cost > 0.0 { format!(", cost {}", money(cost)) } else { String::new() };
            let name = &meter.name;
            writeln!(
                out,
                "{name}: {requests} HTTP requests, {hedged} of them second copies, {throttled} \
                 refused{cost}"
            )?;
        }
    }
    Ok(())
}

pub(super) fn device_line(meter: &DeviceMeter, end: Nanos) -> [String; 6] {
    let busy = meter.busy_seconds(end) / seconds(end).max(1e-9) * 100.0;
    [
        meter.name.clone(),
        meter.requests(Op::Read).to_string(),
        mib(meter.bytes(Op::Read).0),
        meter.requests(Op::Write).to_string(),
        mib(meter.bytes(Op::Write).0),
        format!("{busy:.0} %"),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1 << 20) as f64)
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
pub(super) fn seconds(at: Nanos) -> f64 {
    at.0 as f64 / 1e9
}

/// Number of processes from which similar ones are grouped.
const MOST_LINES: usize = 24;
