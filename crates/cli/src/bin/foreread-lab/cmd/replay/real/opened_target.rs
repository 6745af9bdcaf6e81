//! The target of one run, opened by a method.
//!
//! Each thread of the trace has one handle per file, like the recorded program, as the kernel keeps
//! read-ahead state per handle. If any lane may take any read, lanes share these handles; streams
//! of foreread are per lane, as they are used by one thread at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foreread::{Engine, ReadStream};
use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, PAGE_SIZE};

use super::targets::TargetFile;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::testbed::{open_direct, process_read_bytes};

/// Access method of a run, with the settings of foreread.
#[derive(Clone, Copy, Debug)]
pub(in crate::cmd::replay) struct RunMethod {
    pub(in crate::cmd::replay) method: AccessMethod,
    /// Policy of the engine; unused by other methods.
    pub(in crate::cmd::replay) policy: Policy,
    /// Largest window of foreread; None: learnt.
    pub(in crate::cmd::replay) max_window: Option<ByteCount>,
    /// Memory of the engine; unused by other methods.
    pub(in crate::cmd::replay) memory: ByteCount,
}

impl RunMethod {
    /// Returns the method with its settings.
    pub(super) fn label(&self) -> String {
        if self.method != AccessMethod::Foreread {
            return self.method.name().to_owned();
        }
        let Self { policy, max_window, memory, .. } = self;
        let window = max_window.filter(|_| *policy != Policy::None);
        let window = window.map(|window| format!(" {}", Exact(window))).unwrap_or_default();
        format!("foreread {} {}{window}", Exact(*memory), policy.name())
    }
}

/// State shared by the lanes of a run.
pub(super) struct OpenedTarget<'t> {
    pub(super) files: &'t [TargetFile],
    access: OpenedAccess,
    pub(super) handles: HandleLimits,
}

/// Handles per lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct HandleLimits {
    /// Maximum per lane.
    pub(super) max: usize,
    /// True if all lanes share the handle of a thread of the trace.
    pub(super) are_shared: bool,
}

enum OpenedAccess {
    Buffered { shared: Mutex<HashMap<HandleKey, Arc<File>>> },
    Direct { files: Mutex<HashMap<usize, Arc<File>>>, issued: AtomicU64 },
    Foreread { engine: Engine, files: Mutex<HashMap<usize, foreread::File>> },
}

/// Thread and file of the trace.
pub(super) type HandleKey = (u32, u32);

/// Handle of a lane for a file.
pub(super) enum LaneHandle {
    Buffered(Arc<File>),
    Direct(Arc<File>),
    Foreread(ReadStream),
}

impl<'t> OpenedTarget<'t> {
    /// Opens the files of a target for one run.
    pub(super) fn new(
        how: &RunMethod,
        files: &'t [TargetFile],
        handles: HandleLimits,
    ) -> Result<Self, foreread::EngineError> {
        let access = match how.method {
            AccessMethod::Foreread => {
                let builder = Engine::builder().memory(how.memory.0).policy(how.policy);
                let builder = match how.max_window {
                    None => builder.learn_max_window(),
                    Some(window) => builder.max_window(window.0),
                };
                OpenedAccess::Foreread { engine: builder.build()?, files: Mutex::default() }
            }
            AccessMethod::Direct => {
                OpenedAccess::Direct { files: Mutex::default(), issued: AtomicU64::new(0) }
            }
            AccessMethod::Buffered | AccessMethod::Memory => {
                OpenedAccess::Buffered { shared: Mutex::default() }
            }
        };
        Ok(Self { files, access, handles })
    }

    /// Returns the device bytes since an arbitrary start.
    pub(super) fn device_bytes(&self) -> Option<u64> {
        match &self.access {
            OpenedAccess::Buffered { .. } => process_read_bytes(),
            OpenedAccess::Direct { issued, .. } => Some(issued.load(Ordering::Relaxed)),
            OpenedAccess::Foreread { engine, .. } => {
                let counters = engine.counters().ok()?;
                Some(counters.path.device_pages * PAGE_SIZE)
            }
        }
    }

    /// Returns the method.
    pub(super) fn method(&self) -> AccessMethod {
        match &self.access {
            OpenedAccess::Buffered { .. } => AccessMethod::Buffered,
            OpenedAccess::Direct { .. } => AccessMethod::Direct,
            OpenedAccess::Foreread { .. } => AccessMethod::Foreread,
        }
    }

    /// Counts a request that a lane sends to the device itself.
    pub(super) fn count_direct(&self, bytes: u64) {
        if let OpenedAccess::Direct { issued, .. } = &self.access {
            issued.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Opens a handle for a lane.
    pub(super) fn handle(&self, key: HandleKey, file: usize) -> io::Result<LaneHandle> {
        let path = &self.files[file].path;
        match &self.access {
            OpenedAccess::Buffered { shared } if self.handles.are_shared => {
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(opened) = shared.get(&key) {
                    return Ok(LaneHandle::Buffered(Arc::clone(opened)));
                }
                let opened = Arc::new(File::open(path)?);
                if shared.len() >= self.handles.max {
                    shared.clear();
                }
                shared.insert(key, Arc::clone(&opened));
                Ok(LaneHandle::Buffered(opened))
            }
            OpenedAccess::Buffered { .. } => {
                File::open(path).map(Arc::new).map(LaneHandle::Buffered)
            }
            OpenedAccess::Direct { files, .. } => {
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(opened) = files.get(&file) {
                    return Ok(LaneHandle::Direct(Arc::clone(opened)));
                }
                let opened = Arc::new(open_direct(path)?);
                files.insert(file, Arc::clone(&opened));
                Ok(LaneHandle::Direct(opened))
            }
            OpenedAccess::Foreread { engine, files } => {
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(opened) = files.get(&file) {
                    return Ok(LaneHandle::Foreread(opened.stream()));
                }
                let opened = engine.open(path).map_err(io::Error::other)?;
                let stream = opened.stream();
                files.insert(file, opened);
                Ok(LaneHandle::Foreread(stream))
            }
        }
    }
}
