//! A server with every option resolved. `args` makes it; the other modules see no options of the
//! command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foreread::Policy;
use foreread::lab::Delay;
use foreread_core::units::ByteCount;

use crate::read_recording::RecordingTarget;
use foreread_cli::args::max_window::MaxWindow;
use foreread_cli::device_memory::DeviceMemory;
use foreread_cli::image::byte_range::RangeChoice;
use foreread_cli::store::StoreAccess;

/// One run of `foreread serve`.
#[derive(Debug)]
pub(super) struct ServePlan {
    /// File, block device, or URL of an object.
    pub(super) target: PathBuf,
    pub(super) source: ServeSource,
    pub(super) read_only: bool,
    /// Part of the target that clients see.
    pub(super) range: RangeChoice,
    /// Unix socket to listen on. Without this and `tcp`, a private one for the command.
    pub(super) unix: Option<PathBuf>,
    /// Address and port to listen on.
    pub(super) tcp: Option<SocketAddr>,
    /// Export name.
    pub(super) export: String,
    /// Memory limit of the cache.
    pub(super) memory: ByteCount,
    pub(super) prefault: bool,
    pub(super) window: MaxWindow,
    pub(super) policy: Policy,
    pub(super) dirty_age: Duration,
    /// Tunables to set at startup, with their values.
    pub(super) tunables: Vec<(String, String)>,
    pub(super) remember: DeviceMemory,
    pub(super) recording: RecordingTarget,
    /// Maximum number of connections per listener.
    pub(super) connections: u32,
    /// Maximum number of requests in progress per connection.
    pub(super) requests: u32,
    /// Time limit of the last flush.
    pub(super) exit_timeout: Duration,
    /// Command to run; the server ends with it.
    pub(super) command: Option<String>,
    pub(super) pid_file: Option<PathBuf>,
    /// Address of the Prometheus metrics.
    pub(super) metrics: Option<SocketAddr>,
}

/// Kind of the target.
#[derive(Debug)]
pub(super) enum ServeSource {
    /// File or block device.
    File {
        /// Slows the device down.
        delay: Option<Delay>,
    },
    /// Object of a store.
    Object {
        store: StoreAccess,
        /// File for writes.
        overlay: Option<PathBuf>,
    },
}

impl ServePlan {
    /// Returns the file for writes over an object.
    pub(super) fn overlay(&self) -> Option<&Path> {
        match &self.source {
            ServeSource::Object { overlay, .. } => overlay.as_deref(),
            ServeSource::File { .. } => None,
        }
    }
}
