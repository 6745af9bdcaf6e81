//! How a file is opened.
//!
//! In:    what a program asks for.
//! Out:   the same, to the code that opens it.
//! Never: a default that changes a file: it is opened for reading unless writing is asked for.

use std::sync::Arc;

use foreread_core::sched::Choice;
use foreread_core::sched::deadline::{DeadlineSettings, WriteLimit};

use crate::delay::Delay;
use crate::faults::Faults;
use crate::volatile::VolatileDisk;

/// How a file is opened.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let options = foreread::OpenOptions { write: true, ..Default::default() };
/// let disk = engine.open_with("/var/lib/images/disk.img", &options)?;
/// assert!(disk.is_writable());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Slows the device down, for demonstrations and tests: the reads are real, their completions
    /// come late.
    pub delay: Option<Delay>,
    /// Reads through the kernel's page cache instead of around it.
    pub buffered: bool,
    /// Opens it for writing, too. A block device is then this engine's alone: it cannot be mounted.
    pub write: bool,
    /// Which request the device gets next, and how many writes it is given at once.
    pub scheduler: Choice,
    /// Makes requests fail on purpose: for tests.
    #[doc(hidden)]
    pub faults: Option<Arc<Faults>>,
    /// Reads and writes this device instead of the path, which is a name only: for tests of power
    /// cuts, in engines with [`IoBackend::Threads`](crate::IoBackend::Threads).
    #[doc(hidden)]
    pub volatile: Option<Arc<VolatileDisk>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let writes_in_flight = WriteLimit::Learnt;
        let deadline = DeadlineSettings { writes_in_flight, ..DeadlineSettings::default() };
        Self {
            delay: None,
            buffered: false,
            write: false,
            scheduler: Choice::Deadline(deadline),
            faults: None,
            volatile: None,
        }
    }
}
