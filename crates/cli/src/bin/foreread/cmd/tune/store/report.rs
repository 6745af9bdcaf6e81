//! Text report of a store: a headline, two tables with `==>` at the choice, latency, and settings.
//!
//! ```text
//!   s3://bucket/big.bin: parts of 4M over 16 connections give 590 MB/s (95 % confidence: ..)
//!        connections  MB/s  from   to  requests/s  measured
//!        8             517   516  518        61.6         5
//!   ==>  16            598   597  599        71.3         5
//! ```

use std::io::Write as _;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_tune::store_sweep::{
    ForereadSettings, LatencyQuantiles, PlannedSweep, PointResult, StoreChoice,
};

use super::super::report::speed;
use super::{TunedStore, money};
use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;

pub(super) fn print(out: &mut Printer, tuned: &TunedStore) -> Result<(), Failure> {
    let found = &tuned.findings;
    out.entry("", &headline(tuned))?;
    out.entry("", &how(tuned))?;
    writeln!(out)?;
    for (rows, heading) in [(&found.connections, CONNECTIONS), (&found.parts, PARTS)] {
        if !rows.is_empty() {
            let rows = rows.iter().map(|row| marked_cells(tuned, row, heading[0]));
            table::print(out, heading, rows)?;
            writeln!(out)?;
        }
    }
    for (name, what) in conclusions(tuned) {
        out.entry(&format!("{name:<18} "), &what)?;
    }
    Ok(())
}

/// Returns the headline.
pub(super) fn headline(tuned: &TunedStore) -> String {
    let url = &tuned.url;
    let Some(choice) = &tuned.findings.chosen else {
        return format!("{url}: part size and connections are not known yet.");
    };
    let StoreChoice { part_kib, connections, mb_per_s, low, high, .. } = choice;
    let plural = if *connections == 1 { "" } else { "s" };
    let most =
        if choice.is_most_connections { "; more were not measured, and may give more" } else { "" };
    format!(
        "{url}: parts of {} over {connections} connection{plural} give {} MB/s (95 % confidence: {} \
         to {}), 97 % of the best or more{most}.",
        size(*part_kib),
        speed(*mb_per_s),
        speed(*low),
        speed(*high)
    )
}

/// Returns method and cost of the measurement.
pub(super) fn how(tuned: &TunedStore) -> String {
    let asked = &tuned.findings.asked;
    let etag = tuned.etag.as_deref().map_or(String::new(), |tag| format!(", ETag {tag}"));
    let cost = tuned.cost.map_or(String::new(), |cost| format!(", which cost {}", money(cost)));
    format!(
        "measured on {} bytes at {}{etag}: {:.0} s, {} requests and {:.1} MB{cost}",
        tuned.size,
        tuned.device,
        tuned.findings.seconds,
        asked.requests,
        asked.bytes as f64 / 1e6
    )
}

/// Formats the largest cost of a sweep.
pub(super) fn most(plan: &PlannedSweep, cost: Option<f64>) -> String {
    let cost = cost.map_or(String::new(), |cost| format!(", which cost {}", money(cost)));
    format!(
        "at most {} requests and {:.0} MB in {:.0} s{cost}",
        plan.requests,
        plan.bytes as f64 / 1e6,
        plan.seconds
    )
}

/// The columns of both tables; the first names the row.
pub(super) const CONNECTIONS: [&str; 6] =
    ["     connections", "MB/s", "from", "to", "requests/s", "measured"];

pub(super) const PARTS: [&str; 6] = ["     parts", "MB/s", "from", "to", "requests/s", "measured"];

pub(super) fn is_marked(tuned: &TunedStore, row: &PointResult, first: &str) -> bool {
    let is_chosen = |choice: &StoreChoice| {
        row.connections == choice.connections
            && (first == CONNECTIONS[0] || row.part_kib == choice.part_kib)
    };
    tuned.findings.chosen.as_ref().is_some_and(is_chosen)
}

pub(super) fn cells(row: &PointResult, first: &str) -> [String; 6] {
    let is_connections = first == CONNECTIONS[0];
    [
        if is_connections { row.connections.to_string() } else { size(row.part_kib) },
        speed(row.mb_per_s),
        speed(row.low),
        speed(row.high),
        speed(row.requests_per_s),
        row.samples.to_string(),
    ]
}

fn marked_cells(tuned: &TunedStore, row: &PointResult, first: &str) -> [String; 6] {
    let mark = if is_marked(tuned, row, first) { "==>" } else { "   " };
    let mut cells = cells(row, first);
    cells[0] = format!("{mark}  {}", cells[0]);
    cells
}

/// Returns the conclusions as lines of name and text.
pub(super) fn conclusions(tuned: &TunedStore) -> Vec<(&'static str, String)> {
    let found = &tuned.findings;
    let mut lines = Vec::new();
    if let Some(row) = found.connections.first() {
        lines.push(("tables", format!("connections: parts of {}", size(row.part_kib))));
    }
    if let Some(row) = found.parts.first() {
        lines.push(("", format!("parts: over {} connections", row.connections)));
    }
    if let Some(small) = &found.small_reads {
        let what = format!("{} reads of {}, one at a time", small.reads, size(small.size_kib));
        lines.push(("first byte", format!("{} ({what})", quantiles(&small.first_byte_ms))));
        lines.push(("whole small read", quantiles(&small.whole_ms)));
    }
    if let Some(new) = &found.new_connection {
        let (median, max) = (new.median_ms, new.max_ms);
        let what = format!("{median:.1} ms more for its first request (most: {max:.1} ms)");
        lines.push(("new connection", what));
    }
    if let Some(one) = found.one_connection_mb_per_s {
        lines.push(("one connection", format!("{} MB/s", speed(one))));
    }
    for seen in &found.throttling {
        lines.push((
            "throttled",
            format!(
                "{} of the requests for parts of {} over {} connections were refused, at {} \
                 requests/s; nothing that asks for as much was tried again",
                seen.refused,
                size_or_small(seen.part_kib),
                seen.connections,
                speed(seen.requests_per_s)
            ),
        ));
    }
    if let Some(settings) = &tuned.foreread {
        lines.push(("foreread", foreread(settings)));
    }
    for client in &tuned.clients {
        let mut name = client.client;
        for line in &client.set {
            lines.push((name, line.clone()));
            name = "";
        }
        lines.push(("", format!("(default: {}; {})", client.default, client.source)));
    }
    if let Some(path) = &tuned.remembered {
        let path = path.display();
        let what = format!("{path}: serve and mount begin with it; remove the file to forget it");
        lines.push(("remembered", what));
    }
    lines
}

fn foreread(settings: &ForereadSettings) -> String {
    let ForereadSettings { max_window_kib, memory_kib, requests_at_once, mb_per_s, is_limited } =
        *settings;
    let limit = if is_limited {
        "; it asks for at most 1M at a time, 64 times at once, which is less than the store gives"
    } else {
        ""
    };
    format!(
        "--max-window {} --memory {} (one stream: {requests_at_once} requests at once, about {} \
         MB/s{limit})",
        size(max_window_kib),
        size(memory_kib),
        speed(mb_per_s)
    )
}

fn quantiles(times: &LatencyQuantiles) -> String {
    let share = |name: &str, time: Option<f64>| {
        time.map_or(String::new(), |time| format!(", {name} {time:.1} ms"))
    };
    format!(
        "p50 {:.1} ms{}{}, most {:.1} ms",
        times.p50,
        share("p95", times.p95),
        share("p99", times.p99),
        times.max
    )
}

pub(super) fn size(kib: u64) -> String {
    Exact(ByteCount(kib << 10)).to_string()
}

fn size_or_small(kib: u64) -> String {
    size(kib.max(1))
}
