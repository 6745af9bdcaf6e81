//! Options for opening a file. No default changes the file: it is opened for reading unless the
//! caller requests writing.

use std::sync::Arc;

use foreread_core::path::WriteMode;
use foreread_core::prefetch::LearntDevice;
use foreread_core::sched::SchedulerKind;

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
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    pub(crate) truncate: bool,
    pub(crate) append: bool,
    pub(crate) write_mode: WriteMode,
    pub(crate) scheduler: SchedulerKind,
    pub(crate) starting_window: Option<u64>,
    /// Expected device characteristics, as declared by a source.
    pub(crate) expected_device: Option<LearntDevice>,
    #[cfg(feature = "remember")]
    pub(crate) device_name: Option<String>,
    pub(crate) faults: Option<Arc<Faults>>,
    pub(crate) volatile: Option<Arc<VolatileDisk>>,
}

impl OpenOptions {
    /// Creates options that open a file for reading.
    pub fn new() -> Self {
        Self {
            delay: None,
            buffered: false,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            append: false,
            write_mode: WriteMode::WriteBack,
            scheduler: SchedulerKind::learning(),
            starting_window: None,
            expected_device: None,
            #[cfg(feature = "remember")]
            device_name: None,
            faults: None,
            volatile: None,
        }
    }

    /// Returns the options that apply to a source, with the device characteristics that the source
    /// expects.
    pub(crate) fn for_source(self, expected_device: Option<LearntDevice>) -> Self {
        Self {
            scheduler: self.scheduler,
            starting_window: self.starting_window,
            expected_device,
            #[cfg(feature = "remember")]
            device_name: self.device_name,
            ..Self::new()
        }
    }

    /// Returns the options that [`Engine::create`](crate::Engine::create) uses.
    pub(crate) fn made_anew() -> Self {
        Self::new().write(true).create(true).truncate(true)
    }

    /// Opens the file for writing as well as reading. The engine claims a block device exclusively,
    /// so that it cannot be mounted.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let options = foreread::OpenOptions::new().write(true);
    /// let image = engine.open_with("/var/lib/images/disk.img", &options)?;
    /// image.write_all_at(&[0; 512], 0)?;
    /// # Ok(()) }
    /// ```
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Creates the file if it does not exist. Requires [`Self::write`] or [`Self::append`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let options = foreread::OpenOptions::new().write(true).create(true);
    /// let table = engine.open_with("/var/lib/db/table", &options)?; // as it was, or empty
    /// # Ok(()) }
    /// ```
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Creates the file, and fails if the name exists: if several programs try at once, one
    /// succeeds.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let options = foreread::OpenOptions::new().write(true).create_new(true);
    /// let table = engine.open_with("/var/lib/db/table.7", &options)?;
    /// assert_eq!(table.len(), 0);
    /// # Ok(()) }
    /// ```
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Truncates the file to length 0 on open, for all handles that this engine has of it. A block
    /// device keeps its length.
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Opens the file for appending only: each write goes to the current end of the file, by
    /// [`File::append`](crate::File::append).
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let options = foreread::OpenOptions::new().append(true).create(true);
    /// let log = engine.open_with("/var/lib/db/log", &options)?;
    /// let offset = log.append(b"a record")?;
    /// # Ok(()) }
    /// ```
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// Sets when a write by this handle is complete: once it is in memory
    /// ([`WriteMode::WriteBack`], the default), or once the device has it.
    /// [`File::write_all_at_with`](crate::File::write_all_at_with) overrides it for one write.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// use foreread::{OpenOptions, WriteMode};
    ///
    /// let options = OpenOptions::new().write(true).write_mode(WriteMode::WriteThrough);
    /// let file = engine.open_with("/var/lib/db/table", &options)?;
    /// # Ok(()) }
    /// ```
    pub fn write_mode(mut self, mode: WriteMode) -> Self {
        self.write_mode = mode;
        self
    }

    /// Reads and writes through the kernel's page cache instead of around it.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let options = foreread::OpenOptions::new().buffered(true);
    /// let file = engine.open_with("/mnt/share/table", &options)?;
    /// assert_eq!(file.direct_io_unavailable(), Some("as asked"));
    /// # Ok(()) }
    /// ```
    pub fn buffered(mut self, buffered: bool) -> Self {
        self.buffered = buffered;
        self
    }

    /// Sets the scheduler, which picks the next request for the device and limits the writes in
    /// flight. The default is [`SchedulerKind::learning`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// use foreread::{SchedulerKind, OpenOptions};
    ///
    /// let options = OpenOptions::new().write(true).scheduler(SchedulerKind::Noop);
    /// let disk = engine.open_with("/dev/nvme1n1", &options)?; // first come, first served
    /// # Ok(()) }
    /// ```
    pub fn scheduler(mut self, scheduler: SchedulerKind) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// Sets the first window, in bytes, on a device that the engine has not measured yet and whose
    /// windows it learns: the kernel's configured read-ahead, for example. A power of two from 4096
    /// to 1 GiB; other values are ignored.
    pub fn starting_window(mut self, window: impl Into<Option<u64>>) -> Self {
        self.starting_window = window.into();
        self
    }

    /// Sets the name under which [`EngineBuilder::remember`](crate::EngineBuilder::remember) keeps
    /// the measurements of the file's device: a serial number, or the name of a volume. In the name
    /// of the record's file, characters other than letters, digits, `-`, `_` and `.` become `-`.
    /// Without a name, the engine identifies a block device, and a file on one, by the device
    /// number; it does not remember network file systems.
    #[cfg(feature = "remember")]
    pub fn device_name(mut self, name: impl Into<String>) -> Self {
        self.device_name = Some(name.into());
        self
    }
}

/// Options for tests.
#[cfg(any(test, feature = "testing"))]
impl OpenOptions {
    /// Injects faults into requests.
    pub fn faults(mut self, faults: impl Into<Option<Arc<Faults>>>) -> Self {
        self.faults = faults.into();
        self
    }

    /// Reads and writes this device instead of the path, which serves as a name only: for power-cut
    /// tests, in engines with [`IoBackend::Threads`](crate::IoBackend::Threads).
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
