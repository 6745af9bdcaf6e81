//! Collects the counters of the engine, its file and device, and the connections into one value.

use super::{
    ClientStats, CostStats, DeviceStats, EvictionStats, ExportStats, MemoryStats, PageStats,
    ReadAheadStats, ReadStats, ServerStats, StoreStats, WindowCount, WriteStats,
};
use crate::Counters;
use foreread::DeviceState;
use foreread::EngineError;
use foreread::PAGE_SIZE;
use foreread::Windows;
use foreread_core::device_model;
use foreread_core::stats as path_stats;

impl From<Counters> for ClientStats {
    fn from(counters: Counters) -> Self {
        let requests = [
            ("read", counters.reads),
            ("write", counters.writes),
            ("flush", counters.flushes),
            ("trim", counters.trims),
            ("zero", counters.zeroes),
            ("cache", counters.caches),
            ("block_status", counters.block_status),
        ];
        Self {
            connections: counters.connections,
            accepted: counters.accepted,
            refused: counters.refused,
            misbehaved: counters.misbehaved,
            requests: requests.map(|(kind, count)| (kind.to_owned(), count)).into(),
            errors: counters.errors,
            read_bytes: counters.bytes_read,
            written_bytes: counters.bytes_written,
        }
    }
}

impl From<device_model::DeviceModel> for CostStats {
    fn from(fit: device_model::DeviceModel) -> Self {
        let device_model::DeviceModel { per_request_ns, per_kib_ns, parallel, samples } = fit;
        Self { per_request_ns, per_kib_ns, parallel, samples }
    }
}

fn windows(windows: &Windows) -> Vec<WindowCount> {
    let classes = windows.counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let up_to = |class| Windows::largest(class).map(|pages| pages.bytes().0);
    classes.map(|(class, count)| WindowCount { up_to_bytes: up_to(class), count: *count }).collect()
}

impl DeviceStats {
    /// Returns the counters summed over all devices, and the current state of the target's. With an
    /// overlay there are two: requests of both are added up, and the limit and cost of writes are
    /// those of the overlay's device.
    fn of(
        path: &path_stats::Stats,
        target: Option<DeviceState>,
        overlay: Option<DeviceState>,
    ) -> Self {
        let bytes = |pages: u64| pages * PAGE_SIZE;
        let mut device = Self::default();
        (device.read.requests, device.read.bytes) = (path.device_reads, bytes(path.device_pages));
        device.write.requests = path.device_writes;
        device.write.bytes = bytes(path.device_write_pages);
        for state in target.iter().chain(&overlay) {
            device.read.queued += state.queued_reads;
            device.write.queued += state.queued_writes;
            device.read.in_flight += u64::from(state.in_flight_reads);
            device.write.in_flight += u64::from(state.in_flight_writes);
            device.read.expired += state.expired_reads;
            device.write.expired += state.expired_writes;
        }
        device.read.fit = target.as_ref().and_then(|state| state.reads).map(CostStats::from);
        if let Some(written) = overlay.or(target) {
            device.write.limit = written.write_limit.map(u64::from);
            device.write.fit = written.writes.map(CostStats::from);
        }
        device
    }
}

impl ServerStats {
    /// Returns the counters of an engine and its server, and the state of the device.
    ///
    /// # Errors
    ///
    /// Fails in a forked child, which does not own the engine.
    pub fn gather(
        about: ServerInfo<'_>,
        file: &foreread::File,
        counters: Counters,
    ) -> Result<Self, EngineError> {
        let ServerInfo { version, memory, up_s, engine, overlay, .. } = about;
        let overlay_state = overlay.map(|overlay| overlay.device().state()).transpose()?.flatten();
        let counted = engine.counters()?;
        let (path, cache) = (counted.path, counted.cache);
        let (idle, _) = engine.frames()?;
        Ok(Self {
            version: version.to_owned(),
            up_s,
            export: about.export(file),
            memory: MemoryStats {
                bound_bytes: memory,
                idle_bytes: idle * PAGE_SIZE,
                dirty_bytes: counted.dirty,
            },
            reads: ReadStats {
                hit: counted.hits,
                waited: path.reads,
                alone: counted.inline_reads,
                waited_for_memory: path.waited_for_frames,
            },
            pages: PageStats {
                wanted: path.pages_wanted,
                hit_in_flight: path.pages_joined,
                miss: path.pages_missed,
                failed: path.pages_failed,
                retried: path.retries,
            },
            ahead: ReadAheadStats {
                issued: path.pages_ahead,
                hinted: path.pages_hinted,
                evicted_before_use: cache.evicted_before_use,
                markers: path.markers,
                markers_dropped: counted.markers_dropped,
                shortened: path.windows_shortened,
                hints_shortened: path.hints_shortened,
                windows: windows(&counted.windows),
                window_pages: counted.windows.pages,
            },
            cache: EvictionStats {
                evicted: cache.evictions,
                activated: cache.activations,
                demoted: cache.demotions,
                refaulted: cache.refaults,
            },
            writes: WriteStats {
                asked: path.writes,
                pages: path.pages_written,
                partial: path.pages_rmw,
                waited_for_pages: path.writes_waited_for_pages,
                waited_for_room: path.writes_waited_for_room,
                retried: path.write_retries,
                failed: path.pages_write_failed,
                flushes: path.flushes,
                flush_failures: path.flush_failures,
                rewritten: path.pages_rewritten,
                lost: overlay.unwrap_or(file).lost_writes().is_pending()?,
            },
            device: DeviceStats::of(&path, file.device().state()?, overlay_state),
            store: about.store,
            clients: counters.into(),
        })
    }
}

/// Facts about a server that are not counters.
#[derive(Clone, Copy, Debug)]
pub struct ServerInfo<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// The served file or device.
    pub target: &'a str,
    /// Export name.
    pub name: &'a str,
    /// Export size in bytes, as clients see it.
    pub bytes: u64,
    /// True if writes are refused.
    pub read_only: bool,
    /// Memory limit of the engine in bytes.
    pub memory: u64,
    /// Seconds since the server became ready.
    pub up_s: f64,
    /// Counters of the object store, if the server serves one.
    pub store: Option<StoreStats>,
    /// The engine.
    pub engine: &'a foreread::Engine,
    /// File of an overlay, which gets the writes.
    pub overlay: Option<&'a foreread::File>,
}

impl ServerInfo<'_> {
    fn export(&self, file: &foreread::File) -> ExportStats {
        let files = [Some(file), self.overlay];
        let buffered = files.into_iter().flatten().find_map(foreread::File::direct_io_unavailable);
        ExportStats {
            target: self.target.to_owned(),
            name: self.name.to_owned(),
            bytes: self.bytes,
            read_only: self.read_only,
            buffered: buffered.map(str::to_owned),
            io: self.engine.io_backend().to_string(),
        }
    }
}
