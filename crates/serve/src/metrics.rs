//! Metrics in the text format of Prometheus.
//!
//! In:    [`ServerStats`].
//! Out:   a text of families, at `/metrics`.
//! Never: a number that `foreread stats --json` lacks; a label with an unbounded set of values.

mod exposition;
mod http;

pub use http::Metrics;

use exposition::MetricKind::{Counter, Gauge};
use exposition::{Exposition, Labels, float};
use foreread::Windows;

use crate::stats::{CostStats, DirectionStats, ServerStats, StoreStats};

const NONE: Labels<'static> = &[];
const READ: Labels<'static> = &[("direction", "read")];
const WRITE: Labels<'static> = &[("direction", "write")];
const PAGE_BYTES: f64 = 4096.0;

/// Formats all metrics as one page.
#[must_use]
pub fn page(stats: &ServerStats) -> String {
    let mut to = Exposition::default();
    served(&mut to, stats);
    cached(&mut to, stats);
    read_ahead(&mut to, stats);
    written(&mut to, stats);
    device(&mut to, &stats.device.read, &stats.device.write);
    if let Some(asked) = &stats.store {
        store(&mut to, asked);
    }
    clients(&mut to, stats);
    to.into_text()
}

fn store(to: &mut Exposition, asked: &StoreStats) {
    let count = |to: &mut Exposition, name, help, value| {
        to.family(name, Counter, help, [(NONE, float(value))]);
    };
    let help = "HTTP requests to the object store, with those that were sent again.";
    count(to, "foreread_store_requests_total", help, asked.requests);
    let help = "Of those, requests that were sent again for the same bytes.";
    count(to, "foreread_store_retried_requests_total", help, asked.retried);
    let help = "Second copies of late requests.";
    count(to, "foreread_store_hedged_requests_total", help, asked.hedged);
    let help = "Responses of 429 and 503.";
    count(to, "foreread_store_throttled_requests_total", help, asked.throttled);
    let help = "Requests without a response, or with another error of the server.";
    count(to, "foreread_store_failed_requests_total", help, asked.failed);
    let help = "Bytes of objects that came.";
    count(to, "foreread_store_bytes_total", help, asked.bytes);
    let help = "What that costs by the prices that were given.";
    to.family("foreread_store_cost_total", Counter, help, asked.cost.map(|cost| (NONE, cost)));
}

fn served(to: &mut Exposition, stats: &ServerStats) {
    let gauge = |to: &mut Exposition, name, help, value| {
        to.family(name, Gauge, help, [(NONE, value)]);
    };
    let info: Labels<'_> = &[
        ("version", &stats.version),
        ("target", &stats.export.target),
        ("export", &stats.export.name),
    ];
    to.family("foreread_info", Gauge, "What is served; always 1.", [(info, 1.0)]);
    let export = &stats.export;
    gauge(to, "foreread_up_seconds", "Time since the server was ready.", stats.up_s);
    gauge(to, "foreread_export_bytes", "Length of the export.", float(export.bytes));
    let read_only = if export.read_only { 1.0 } else { 0.0 };
    gauge(to, "foreread_read_only", "Whether writes are refused.", read_only);
    let memory = &stats.memory;
    let help = "Bound of the cache's memory.";
    gauge(to, "foreread_memory_bound_bytes", help, float(memory.bound_bytes));
    let help = "Memory for pages that are not being filled, held or pinned.";
    gauge(to, "foreread_memory_idle_bytes", help, float(memory.idle_bytes));
    let help = "Written, and not on the device.";
    gauge(to, "foreread_dirty_bytes", help, float(memory.dirty_bytes));
}

fn cached(to: &mut Exposition, stats: &ServerStats) {
    let reads = &stats.reads;
    to.family(
        "foreread_reads_total",
        Counter,
        "Reads: those that found everything, and those that waited.",
        [
            (&[("result", "hit")][..], float(reads.hit)),
            (&[("result", "waited")], float(reads.waited)),
        ],
    );
    let count = |to: &mut Exposition, name, help, value| {
        to.family(name, Counter, help, [(NONE, float(value))]);
    };
    let help = "Of the reads that waited, those answered by one system call in their own thread.";
    count(to, "foreread_reads_alone_total", help, reads.alone);
    let help = "Reads and writes that waited for memory before they could begin.";
    count(to, "foreread_reads_waited_for_memory_total", help, reads.waited_for_memory);
    let pages = &stats.pages;
    let help = "Pages wanted by reads that waited.";
    count(to, "foreread_pages_wanted_total", help, pages.wanted);
    let help = "Of those, pages that were on their way already.";
    count(to, "foreread_pages_hit_in_flight_total", help, pages.hit_in_flight);
    let help = "Of those, pages neither in memory nor on their way.";
    count(to, "foreread_pages_miss_total", help, pages.miss);
    count(to, "foreread_pages_failed_total", "Pages whose readers got an error.", pages.failed);
    let help = "Pages asked again alone because their request had failed.";
    count(to, "foreread_pages_retried_total", help, pages.retried);
    let cache = &stats.cache;
    let help = "Pages that left because another needed their frame.";
    count(to, "foreread_cache_evicted_pages_total", help, cache.evicted);
    let help = "Pages that became active.";
    count(to, "foreread_cache_activated_pages_total", help, cache.activated);
    let help = "Pages that are not active any more.";
    count(to, "foreread_cache_demoted_pages_total", help, cache.demoted);
    let help = "Pages that came back while the cache still remembered them.";
    count(to, "foreread_cache_refaulted_pages_total", help, cache.refaulted);
}

fn read_ahead(to: &mut Exposition, stats: &ServerStats) {
    let ahead = &stats.ahead;
    let count = |to: &mut Exposition, name, help, value| {
        to.family(name, Counter, help, [(NONE, float(value))]);
    };
    let help = "Pages that read-ahead asked from the device.";
    count(to, "foreread_ahead_issued_pages_total", help, ahead.issued);
    let help = "Pages that clients announced, asked from the device.";
    count(to, "foreread_ahead_hinted_pages_total", help, ahead.hinted);
    let help = "Pages of both that left before any read used them.";
    count(to, "foreread_ahead_evicted_before_use_pages_total", help, ahead.evicted_before_use);
    count(to, "foreread_ahead_markers_total", "Markers met.", ahead.markers);
    let help = "Markers lost because too many waited.";
    count(to, "foreread_ahead_markers_dropped_total", help, ahead.markers_dropped);
    let help = "Windows cut because memory was short.";
    count(to, "foreread_ahead_shortened_total", help, ahead.shortened);
    let help = "Announcements cut because memory was short.";
    count(to, "foreread_ahead_hints_shortened_total", help, ahead.hints_shortened);
    // All buckets, always: a scraper does not like them to come and go.
    let counted = |bytes| {
        let found = ahead.windows.iter().find(|window| window.up_to_bytes == bytes);
        found.map_or(0, |window| window.count)
    };
    let bounds = (0..Windows::CLASSES).filter_map(Windows::largest).map(|pages| pages.bytes().0);
    let buckets: Vec<_> = bounds.map(|bytes| (float(bytes), counted(Some(bytes)))).collect();
    let help = "How much each window asked from the device.";
    let sum = float(ahead.window_pages) * PAGE_BYTES;
    to.histogram("foreread_ahead_window_bytes", help, &buckets, counted(None), sum);
}

fn written(to: &mut Exposition, stats: &ServerStats) {
    let writes = &stats.writes;
    let count = |to: &mut Exposition, name, help, value| {
        to.family(name, Counter, help, [(NONE, float(value))]);
    };
    count(to, "foreread_writes_total", "Writes that were asked for.", writes.asked);
    let help = "Pages that they wrote into the cache.";
    count(to, "foreread_writes_pages_total", help, writes.pages);
    let help = "Of those, pages that had to be read first.";
    count(to, "foreread_writes_partial_pages_total", help, writes.partial);
    let help = "Writes, trims and zeroes that waited for earlier ones of the same pages.";
    count(to, "foreread_writes_waited_for_pages_total", help, writes.waited_for_pages);
    let help = "Writes that waited because too much was dirty.";
    count(to, "foreread_writes_waited_for_room_total", help, writes.waited_for_room);
    let help = "Pages written again alone because their request had failed.";
    count(to, "foreread_writes_retried_pages_total", help, writes.retried);
    let help = "Pages that the device refused, each time.";
    count(to, "foreread_writes_failed_pages_total", help, writes.failed);
    count(to, "foreread_flushes_total", "Flushes.", writes.flushes);
    let help = "Device flushes that failed, those in FUA writes included.";
    count(to, "foreread_flush_failures_total", help, writes.flush_failures);
    let help = "Pages written again because a device flush had failed.";
    count(to, "foreread_writes_rewritten_pages_total", help, writes.rewritten);
    let help = "Whether acknowledged writes are lost, and each flush says so.";
    let lost = f64::from(u8::from(writes.lost));
    to.family("foreread_writes_lost", Gauge, help, [(NONE, lost)]);
}

fn device(to: &mut Exposition, read: &DirectionStats, write: &DirectionStats) {
    let both = |to: &mut Exposition, name, kind, help, value: fn(&DirectionStats) -> f64| {
        to.family(name, kind, help, [(READ, value(read)), (WRITE, value(write))]);
    };
    let help = "Requests that the device got.";
    both(to, "foreread_device_requests_total", Counter, help, |one| float(one.requests));
    let help = "Bytes of those requests.";
    both(to, "foreread_device_bytes_total", Counter, help, |one| float(one.bytes));
    let help = "Requests that went out of turn because they had waited too long.";
    both(to, "foreread_device_expired_requests_total", Counter, help, |one| float(one.expired));
    let help = "Requests that wait for their turn.";
    both(to, "foreread_device_queued_requests", Gauge, help, |one| float(one.queued));
    let help = "Requests that the device works on.";
    both(to, "foreread_device_in_flight_requests", Gauge, help, |one| float(one.in_flight));

    let known = |value: fn(&DirectionStats) -> Option<f64>| {
        let both = [(READ, value(read)), (WRITE, value(write))];
        both.into_iter().filter_map(|(labels, value)| Some((labels, value?)))
    };
    let fit = |value: fn(CostStats) -> Option<f64>| {
        let both = [(READ, read.fit), (WRITE, write.fit)];
        both.into_iter().filter_map(move |(labels, fit)| Some((labels, value(fit?)?)))
    };
    let help = "How many requests the device may work on; absent where there is no limit.";
    let name = "foreread_device_in_flight_limit_requests";
    to.family(name, Gauge, help, known(|one| one.limit.map(float)));
    let help = "What a request costs, as learnt; absent as long as little is known.";
    let name = "foreread_device_cost_per_request_seconds";
    to.family(name, Gauge, help, fit(|fit| Some(fit.per_request_ns / NS_PER_S)));
    let help = "What 1024 bytes cost, as learnt.";
    let name = "foreread_device_cost_per_kib_seconds";
    to.family(name, Gauge, help, fit(|fit| Some(fit.per_kib_ns? / NS_PER_S)));
    let help = "How many requests the device serves at once, as learnt.";
    to.family("foreread_device_parallel", Gauge, help, fit(|fit| fit.parallel.map(f64::from)));
}

fn clients(to: &mut Exposition, stats: &ServerStats) {
    let clients = &stats.clients;
    let help = "Connections that are open.";
    to.family("foreread_connections", Gauge, help, [(NONE, float(clients.connections))]);
    let count = |to: &mut Exposition, name, help, value| {
        to.family(name, Counter, help, [(NONE, float(value))]);
    };
    count(to, "foreread_connections_total", "Connections accepted.", clients.accepted);
    let help = "Connections closed because there were too many.";
    count(to, "foreread_connections_refused_total", help, clients.refused);
    let help = "Connections closed because of what their client did.";
    count(to, "foreread_connections_misbehaved_total", help, clients.misbehaved);
    let kinds: Vec<_> =
        clients.requests.iter().map(|(kind, count)| ([("kind", &**kind)], float(*count))).collect();
    let samples = kinds.iter().map(|(labels, count)| (&labels[..], *count));
    to.family("foreread_client_requests_total", Counter, "Requests of clients.", samples);
    let help = "Requests that were answered by an error.";
    count(to, "foreread_client_request_errors_total", help, clients.errors);
    let bytes = [(READ, float(clients.read_bytes)), (WRITE, float(clients.written_bytes))];
    let help = "Bytes that clients read and wrote.";
    to.family("foreread_client_bytes_total", Counter, help, bytes);
}

const NS_PER_S: f64 = 1e9;
