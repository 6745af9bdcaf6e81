//! The target of one run, opened by a method.
//!
//! In:    a method, files.
//! Out:   handles for lanes; what the device was asked for.
//! Never: a write.
//!
//! Each thread of the trace has one handle for each file, as the program had: the kernel's
//! read-ahead keeps its state there. Where lanes take any read, they share these handles; streams
//! of foreread are a lane's own, as one thread at a time may use them.

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
use crate::measure::method::AccessMethod;
use crate::measure::testbed::{open_direct, process_read_bytes};

/// How the target is read in one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunMethod {
    pub(super) method: AccessMethod,
    /// Of foreread.
    pub(super) policy: Policy,
    /// Of foreread; None: learnt.
    pub(super) max_window: Option<ByteCount>,
    /// Of foreread.
    pub(super) memory: ByteCount,
}

impl RunMethod {
    /// The method, and what foreread was given.
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

/// What the lanes of a run share.
pub(super) struct OpenedTarget<'t> {
    pub(super) files: &'t [TargetFile],
    access: OpenedAccess,
    pub(super) handles: HandleLimits,
}

/// The handles of lanes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct HandleLimits {
    /// How many each lane may have.
    pub(super) max: usize,
    /// Whether a thread of the trace has the same one in all lanes.
    pub(super) are_shared: bool,
}

enum OpenedAccess {
    Buffered { shared: Mutex<HashMap<HandleKey, Arc<File>>> },
    Direct { files: Mutex<HashMap<usize, Arc<File>>>, issued: AtomicU64 },
    Foreread { engine: Engine, files: Mutex<HashMap<usize, foreread::File>> },
}

/// A thread and a file of the trace.
pub(super) type HandleKey = (u32, u32);

/// What a lane reads a file by.
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

    /// Bytes that the device was asked for since an arbitrary start.
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

    /// The method.
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

    /// A handle for a lane.
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
