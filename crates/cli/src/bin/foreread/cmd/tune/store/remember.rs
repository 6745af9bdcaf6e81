//! Keeps the result of a sweep for the next run of `serve`, `mount` and others.
//!
//! Incomplete measurements are not kept, and only earlier records are replaced.
//!
//! An engine measures a store for a second or more before its windows are as large as pay. With
//! the record it begins with them, and its first requests check whether it still holds.

use std::path::PathBuf;

use foreread::{LearntCost, LearntDevice};
use foreread::{PAGE_SIZE, Pages};
use foreread_object::MeasuredObject;
use foreread_tune::store_sweep::StoreFindings;

use super::TunedStore;
use foreread_cli::device_memory::default_directory;
use foreread_cli::output::Failure;
use foreread_cli::store::device_name;

pub(super) fn remember(object: &MeasuredObject, tuned: &TunedStore) -> Result<PathBuf, Failure> {
    let Some(learnt) = learnt(tuned) else {
        return Err(Failure::Check(format!(
            "{}: nothing is remembered, since part size and connections are not known; give it \
             more with --seconds and --max-bytes",
            tuned.url
        )));
    };
    let name = device_name(object.object().device_name());
    let written = foreread::write_device_record(default_directory(), &name, learnt);
    written.map_err(|error| {
        Failure::Check(format!(
            "it is not remembered: {error}; STATE_DIRECTORY names another place"
        ))
    })
}

/// Returns the store as a learnt device: cost per request and per byte on a connection, and
/// parallelism.
fn learnt(tuned: &TunedStore) -> Option<LearntDevice> {
    let (settings, choice) = (tuned.foreread.as_ref()?, tuned.findings.chosen.as_ref()?);
    let window = Pages(settings.max_window_kib * 1024 / PAGE_SIZE);
    let parallel = settings.requests_at_once;
    let cost = cost(&tuned.findings).map(|(per_request_ns, per_kib_ns)| LearntCost {
        per_request_ns,
        per_kib_ns,
        // Where more connections give no more, it is known how many are served at once.
        parallel: (!choice.is_most_connections).then_some(parallel),
        min_parallel: parallel,
    });
    let learnt = LearntDevice { window, cost };
    if learnt.is_plausible() { Some(learnt) } else { Some(LearntDevice { window, cost: None }) }
}

/// Nanoseconds of a request and of 1024 bytes of it, over one connection.
fn cost(found: &StoreFindings) -> Option<(f64, f64)> {
    let first_byte_ns = found.small_reads.as_ref()?.first_byte_ms.p50 * 1e6;
    let part_kib = found.connections.first()?.part_kib as f64;
    let part_ns = part_kib * 1024.0 * 1e3 / found.one_connection_mb_per_s?;
    Some((first_byte_ns, (part_ns - first_byte_ns).max(part_ns / 10.0) / part_kib))
}
