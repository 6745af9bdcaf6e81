//! How a file is opened.
//!
//! In:    what a program asks for.
//! Out:   the same, to the code that opens it.
//! Never: a default that changes a file: it is opened for reading unless writing is asked for.

use std::sync::Arc;

use foreread_core::path::WriteMode;
use foreread_core::sched::Choice;

use crate::delay::Delay;
use crate::faults::Faults;
use crate::volatile::VolatileDisk;

/// Options for [`Engine::open_with`](crate::Engine::open_with), named as in
/// [`std::fs::OpenOptions`]. Every file is opened for reading.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let options = foreread::OpenOptions::new().write(true);
/// let disk = engine.open_with("/var/lib/images/disk.img", &options)?;
/// assert!(disk.is_writable());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options open nothing by themselves"]
pub struct OpenOptions {
    pub(crate) delay: Option<Delay>,
    pub(crate) buffered: bool,
    pub(crate) write: bool,
    pub(crate) write_mode: WriteMode,
    pub(crate) scheduler: Choice,
    pub(crate) faults: Option<Arc<Faults>>,
    pub(crate) volatile: Option<Arc<VolatileDisk>>,
}

impl OpenOptions {
    /// Options for reading.
    pub fn new() -> Self {
        Self {
            delay: None,
            buffered: false,
            write: false,
            write_mode: WriteMode::WriteBack,
            scheduler: Choice::learning(),
            faults: None,
            volatile: None,
        }
    }

    /// Opens the file for writing, too. A block device is then this engine's alone: it cannot be
    /// mounted.
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// When a write by this handle is done: at once in memory ([`WriteMode::WriteBack`], the
    /// default), or when the device has it.
    /// [`File::write_all_at_with`](crate::File::write_all_at_with) overrides it for one write.
    pub fn write_mode(mut self, mode: WriteMode) -> Self {
        self.write_mode = mode;
        self
    }

    /// Reads and writes through the kernel's page cache instead of around it.
    pub fn buffered(mut self, buffered: bool) -> Self {
        self.buffered = buffered;
        self
    }

    /// Sets which request the device gets next, and how many writes it is given at once. The
    /// default is [`Choice::learning`].
    pub fn scheduler(mut self, scheduler: Choice) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Slows the device down, for demonstrations and tests: the reads are real, their completions
    /// come late.
    pub fn delay(mut self, delay: impl Into<Option<Delay>>) -> Self {
        self.delay = delay.into();
        self
    }
}

/// For tests.
#[cfg(any(test, feature = "testing"))]
impl OpenOptions {
    /// Makes requests fail on purpose.
    pub fn faults(mut self, faults: impl Into<Option<Arc<Faults>>>) -> Self {
        self.faults = faults.into();
        self
    }

    /// Reads and writes this device instead of the path, which is a name only: for tests of power
    /// cuts, in engines with [`IoBackend::Threads`](crate::IoBackend::Threads).
    pub fn volatile(mut self, device: impl Into<Option<Arc<VolatileDisk>>>) -> Self {
        self.volatile = device.into();
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}
