//! The arguments of `foreread stats`, their help, and the plan that follows from them.

use clap::Args;

use super::plan::StatsPlan;
use foreread_cli::args::help::CODES_AND_UNITS;

/// Show statistics of a running server: cache hits, read-ahead, device, clients
///
/// Queries the `foreread serve` or `foreread mount --control` that listens on SOCKET. Counters
/// start with the server; figures marked "now" are current values. docs/guide/serve.md defines all
/// of them.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct StatsArgs {
    /// Unix socket of the server, or its NBD URI
    socket: String,

    /// Print JSON with one data object
    ///
    /// Keys: version, up_s (seconds); export: target, name, bytes, read_only, buffered (why; else
    /// null), io; memory, now: bound_bytes, idle_bytes, dirty_bytes; reads: hit, waited, alone,
    /// waited_for_memory; pages: wanted, hit_in_flight, miss, failed, retried; ahead, in pages:
    /// issued, hinted, evicted_before_use, window_pages, and counts: markers, markers_dropped,
    /// shortened, hints_shortened, windows (a list of up_to_bytes and count; null: larger than
    /// all); cache, in pages: evicted, activated, demoted, refaulted.
    ///
    /// writes: asked, pages, partial, waited_for_pages, waited_for_room, retried, failed, flushes,
    /// flush_failures, rewritten, lost; device, read and write: requests, bytes, expired, and now:
    /// queued, in_flight, limit (null: none), fit (null: not known; else per_request_ns,
    /// per_kib_ns, parallel, samples); store (of an object; else null): requests, retried, hedged,
    /// throttled, failed, bytes, cost; clients: connections (now), accepted, refused, misbehaved,
    /// requests (by kind), errors, read_bytes, written_bytes.
    ///
    /// Existing keys keep their meaning; keys may be added.
    #[arg(long)]
    json: bool,
}

impl StatsArgs {
    /// Resolves the options into a plan.
    pub(super) fn plan(self) -> StatsPlan {
        let Self { socket, json } = self;
        StatsPlan { socket, is_json: json }
    }
}

const EXAMPLES: &str = "\
Examples:
  foreread stats /tmp/disk.sock
  foreread stats /tmp/disk.sock --json | jq .data[0].ahead.evicted_before_use

";
