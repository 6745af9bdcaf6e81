//! Text report of a server's statistics.

use std::io::Write as _;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_serve::stats::{DirectionStats, ServerStats};

use foreread_cli::output::{Failure, Printer};
use foreread_cli::store::money;
use foreread_cli::table::{self, or_dash};
use foreread_cli::terminal::wrap_items;

pub(super) fn print(out: &mut Printer, stats: &ServerStats) -> Result<(), Failure> {
    head(out, stats)?;
    for (subject, parts) in subjects(stats) {
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let label = format!("{subject:<SUBJECT$}");
        for line in wrap_items(&label, &parts, out.width().unwrap_or(usize::MAX)) {
            writeln!(out, "{line}")?;
        }
    }
    writeln!(out)?;
    let rows = [("reads", &stats.device.read), ("writes", &stats.device.write)];
    table::print(out, HEADING, rows.map(|(name, direction)| row(name, direction)))
}

fn head(out: &mut Printer, stats: &ServerStats) -> Result<(), Failure> {
    let export = &stats.export;
    let mut line = format!("{} ({})", export.target, Exact(ByteCount(export.bytes)));
    if !export.name.is_empty() {
        line += &format!(" as {:?}", export.name);
    }
    line += if export.read_only { ", read-only" } else { "" };
    line += &format!(", up {}, {}", age(stats.up_s), export.io);
    if let Some(why) = &export.buffered {
        line += &format!(", buffered: {why}");
    }
    out.entry("", &line)?;
    writeln!(out)?;
    Ok(())
}

/// Line of the report: subject and figures.
type Subject = (&'static str, Vec<String>);

fn subjects(stats: &ServerStats) -> Vec<Subject> {
    [of_reads(stats), of_cache(stats), of_writes(stats), of_store(stats), of_clients(stats)]
        .concat()
}

fn of_reads(stats: &ServerStats) -> Vec<Subject> {
    let ServerStats { memory, reads, pages, .. } = stats;
    vec![
        (
            "memory",
            vec![
                format!("bound {}", Exact(ByteCount(memory.bound_bytes))),
                format!("clean or free {}", rough(memory.idle_bytes)),
                format!("dirty {}", rough(memory.dirty_bytes)),
            ],
        ),
        (
            "reads",
            vec![
                format!("hit {}{}", number(reads.hit), share(reads.hit, reads.hit + reads.waited)),
                count("waited", reads.waited),
                some("waited for memory", reads.waited_for_memory),
            ],
        ),
        (
            "their pages",
            vec![
                count("wanted", pages.wanted),
                count("hit in flight", pages.hit_in_flight),
                count("miss", pages.miss),
                some("failed", pages.failed),
                some("retried", pages.retried),
            ],
        ),
    ]
}

fn of_cache(stats: &ServerStats) -> Vec<Subject> {
    let ServerStats { ahead, cache, .. } = stats;
    let windows = ahead.windows.iter().map(|window| match window.up_to_bytes {
        Some(bytes) => format!("{} {}", Exact(ByteCount(bytes)), number(window.count)),
        None => format!("larger {}", number(window.count)),
    });
    vec![
        (
            "read ahead",
            vec![
                count("pages issued", ahead.issued),
                some("announced", ahead.hinted),
                count("evicted before use", ahead.evicted_before_use),
                some("windows cut short", ahead.shortened),
            ],
        ),
        ("windows", windows.collect()),
        (
            "cache",
            vec![
                count("evicted", cache.evicted),
                count("activated", cache.activated),
                count("came back", cache.refaulted),
            ],
        ),
    ]
}

fn of_writes(stats: &ServerStats) -> Vec<Subject> {
    let writes = &stats.writes;
    vec![(
        "writes",
        vec![
            count("asked", writes.asked),
            count("pages", writes.pages),
            count("partly", writes.partial),
            some("waited for room", writes.waited_for_room),
            some("waited for pages", writes.waited_for_pages),
            some("retried", writes.retried),
            some("FAILED", writes.failed),
            count("flushes", writes.flushes),
            some("FLUSHES FAILED", writes.flush_failures),
            some("written again", writes.rewritten),
            some("LOST", u64::from(writes.lost)),
        ],
    )]
}

fn of_store(stats: &ServerStats) -> Vec<Subject> {
    let Some(store) = &stats.store else { return Vec::new() };
    vec![(
        "store",
        vec![
            count("requests", store.requests),
            some("sent again", store.retried),
            some("second copies", store.hedged),
            some("throttled", store.throttled),
            some("FAILED", store.failed),
            format!("bytes {}", rough(store.bytes)),
            store.cost.map(|cost| format!("cost {}", money(cost))).unwrap_or_default(),
        ],
    )]
}

fn of_clients(stats: &ServerStats) -> Vec<Subject> {
    let clients = &stats.clients;
    let kinds = clients.requests.iter().filter(|(_, count)| **count > 0);
    vec![
        (
            "clients",
            vec![
                count("connections now", clients.connections),
                count("ever", clients.accepted),
                some("refused", clients.refused),
                some("misbehaved", clients.misbehaved),
                format!("read {}", rough(clients.read_bytes)),
                format!("written {}", rough(clients.written_bytes)),
            ],
        ),
        (
            "requests",
            kinds
                .map(|(kind, so_many)| count(&kind.replace('_', " "), *so_many))
                .chain([count("errors", clients.errors)])
                .collect(),
        ),
    ]
}

const HEADING: [&str; 10] = [
    "device",
    "requests",
    "bytes",
    "queued",
    "in flight",
    "limit",
    "expired",
    "a request",
    "a KiB",
    "at once",
];

fn row(name: &str, direction: &DirectionStats) -> [String; 10] {
    let fit = direction.fit;
    [
        name.to_owned(),
        number(direction.requests),
        rough(direction.bytes),
        number(direction.queued),
        number(direction.in_flight),
        or_dash(direction.limit),
        number(direction.expired),
        or_dash(fit.map(|fit| time(fit.per_request_ns))),
        or_dash(fit.and_then(|fit| fit.per_kib_ns).map(time)),
        or_dash(fit.and_then(|fit| fit.parallel)),
    ]
}

fn count(name: &str, count: u64) -> String {
    format!("{name} {}", number(count))
}

/// Formats a count with its name; empty if the count is 0.
fn some(name: &str, so_many: u64) -> String {
    if so_many == 0 { String::new() } else { count(name, so_many) }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    let percent = u128::from(part) * 1000 / u128::from(whole);
    format!(" ({}.{} %)", percent / 10, percent % 10)
}

/// Formats `1234567` as `1,234,567`.
fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats bytes with about three digits.
fn rough(bytes: u64) -> String {
    const LETTERS: [(u64, char); 4] =
        [(1 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    let letter = LETTERS.iter().find(|(scale, _)| bytes >= *scale);
    match letter {
        None => bytes.to_string(),
        Some((scale, letter)) if bytes / scale < 10 => {
            format!("{}.{}{letter}", bytes / scale, bytes % scale * 10 / scale)
        }
        Some((scale, letter)) => format!("{}{letter}", bytes / scale),
    }
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

fn age(s: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole seconds")]
    let s = s.max(0.0) as u64;
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h", s / 3600),
        _ => format!("{} days", s / 86400),
    }
}

const SUBJECT: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(
            [0, 12, 123, 1234, 1_234_567].map(number),
            ["0", "12", "123", "1,234", "1,234,567"]
        );
        assert_eq!(
            [0, 1023, 1024, 1536, 10 << 10, 5 << 30].map(rough),
            ["0", "1023", "1.0K", "1.5K", "10K", "5.0G"]
        );
        assert_eq!([900.0, 9_500.0, 4_010_000.0].map(time), ["900 ns", "9.5 us", "4.01 ms"]);
        assert_eq!(
            [0.5, 119.0, 120.0, 7200.0, 200_000.0].map(age),
            ["0 s", "119 s", "2 min", "2 h", "2 days"]
        );
        assert_eq!((share(0, 0), share(999, 1000)), (String::new(), " (99.9 %)".to_owned()));
    }
}
