//! Opens a target by one of the three access methods: the kernel's page cache, O_DIRECT, and
//! foreread.
//!
//! Every run starts cold.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foreread::lab::Delay;
use foreread::{DeviceRecord, Engine, EngineError, OpenOptions, Policy};
use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::window_in_force;
use foreread_tune::temporary_settings::TemporarySettings;
use rustix::fs::OFlags;

use super::bare_memory::BareMemory;
use super::memory_limit::MemoryLimit;
use super::method::AccessMethod;
use super::pattern::PAGE;
use super::reader::{ColdReader, IssuedReads};
use super::slow_device::SlowDevice;
use super::slow_mount::SlowMount;
use super::target::{BenchTarget, drop_cache};
use crate::args::max_window::MaxWindow;
use crate::device_memory::with_device_name;
use crate::settings_holder::holder;

/// State shared by all access methods.
pub struct Testbed<'t> {
    pub target: &'t BenchTarget,
    pub delay: Option<Delay>,
    /// FUSE mount of the delayed target for the kernel, or the error that prevented it.
    mount: Option<Result<Mutex<SlowMount>, io::Error>>,
    pub policy: Policy,
    /// The kernel's largest window in bytes, if known.
    pub kernel_window: Option<u64>,
    /// Restores the kernel's window when dropped.
    held: Option<TemporarySettings>,
    /// Largest window of foreread, as limited by its memory.
    pub window: u64,
    /// True if foreread learns its window.
    pub(crate) learns_window: bool,
    memory: u64,
    /// True if the cache memory is allocated before the clock starts.
    pub prefault: bool,
    /// Directory for what is learnt about devices; None: each run starts without records.
    pub remember: Option<PathBuf>,
    /// Memory limit of the kernel's page cache; None: unlimited.
    pub kernel_memory: Option<u64>,
}

/// Requests and bytes that reached a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceReads {
    pub reads: Option<u64>,
    pub bytes: Option<u64>,
    pub evicted_before_use: Option<u64>,
}

/// Cold readers of one access method, one per thread.
pub struct ColdReaders<'c> {
    pub(crate) readers: Vec<ColdReader>,
    pub(crate) meter: RequestMeter<'c>,
    /// Limits the kernel's page cache while the readers exist.
    _limit: Option<MemoryLimit>,
}

/// Counter of requests to the device.
pub(crate) enum RequestMeter<'c> {
    Kernel(&'c Testbed<'c>),
    /// Sends each read as one device request.
    Readers(Arc<IssuedReads>),
    Engine(Engine),
    /// The method `memory` uses no device.
    Nothing,
}

impl<'t> Testbed<'t> {
    /// Creates a testbed. foreread gets the requested window, or else the kernel's, for a fair
    /// comparison.
    pub fn new(
        target: &'t BenchTarget,
        delay: Option<Delay>,
        policy: Policy,
        asked_window: Option<MaxWindow>,
        memory: u64,
    ) -> Result<Self, EngineError> {
        let slowed = delay.zip(target.file());
        let mount = slowed.map(|(delay, file)| SlowMount::new(file, target.len, delay));
        let mount = mount.map(|mount| mount.map(Mutex::new));
        let mut testbed = Self {
            target,
            delay,
            mount,
            policy,
            kernel_window: None,
            held: None,
            window: 0,
            learns_window: asked_window == Some(MaxWindow::Auto),
            memory,
            prefault: false,
            remember: None,
            kernel_memory: None,
        };
        testbed.kernel_window = testbed.kernel_setting().and_then(|setting| bytes_of(&setting));
        testbed.window = match asked_window {
            Some(MaxWindow::Size(window)) => window.0,
            Some(MaxWindow::Auto) => LEARNT_WINDOW,
            None => testbed.kernel_window.unwrap_or(DEFAULT_WINDOW.0),
        };
        let engine = Engine::builder().memory(memory).max_window(testbed.window).build()?;
        testbed.window = engine.max_window().expect("this process has just made the engine");
        Ok(testbed)
    }

    /// Sets the kernel's largest window while the testbed exists.
    pub fn hold_kernel_window(&mut self, bytes: u64) -> io::Result<()> {
        if self.kernel_window == Some(bytes) {
            return Ok(());
        }
        let unknown = || io::Error::other("the device below it is unknown");
        let setting = self.kernel_setting().ok_or_else(unknown)?;
        // The kernel rounds to pages.
        let kib = bytes / PAGE * (PAGE / 1024);
        let held = match self.held.take() {
            Some(held) => held,
            None => holder()?,
        };
        held.set(&DeviceSetting { value: kib.to_string(), ..setting })?;
        self.held = Some(held);
        self.kernel_window = self.kernel_setting().and_then(|setting| bytes_of(&setting));
        Ok(())
    }

    /// Returns the setting that limits the kernel's read-ahead.
    fn kernel_setting(&self) -> Option<DeviceSetting> {
        let device = match &self.mount {
            None => self.target.device,
            Some(Ok(mount)) => lock(mount).device()?,
            Some(Err(_)) => return None,
        };
        window_in_force(&SystemRoot::here(), (rustix::fs::major(device), rustix::fs::minor(device)))
    }

    /// Returns notes for the user: access methods that are missing, and why.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(Err(error)) = &self.mount {
            notes.push(format!(
                "no kernel column for the slow device: it needs a FUSE mount ({error}); run as root, \
                 or install fuse3"
            ));
        }
        if self.delay.is_some_and(|delay| delay.latency < FUSE_SHOWS) && self.has_kernel() {
            notes.push(
                "the kernel reads the slow device through FUSE, whose own cost (some 20 us a \
                 request) shows with latencies this short"
                    .to_owned(),
            );
        }
        notes
    }

    /// Returns the error that keeps the kernel from reading the slow device.
    pub fn mount_refusal(&self) -> Option<&io::Error> {
        self.mount.as_ref()?.as_ref().err()
    }

    fn has_kernel(&self) -> bool {
        !matches!(self.mount, Some(Err(_)))
    }

    /// Returns true if this access method works here.
    pub fn has(&self, method: AccessMethod) -> bool {
        match method {
            // The kernel cannot read objects.
            AccessMethod::Buffered => self.has_kernel() && self.target.as_object().is_none(),
            AccessMethod::Direct => self.target.buffered.is_none(),
            AccessMethod::Foreread | AccessMethod::Memory => true,
        }
    }

    /// Opens cold readers, one per thread; None if the access method cannot read this target.
    pub fn open(&self, method: AccessMethod, threads: u32) -> io::Result<Option<ColdReaders<'_>>> {
        if !self.has(method) {
            return Ok(None);
        }
        self.target.drop_cache();
        let limit = match (method, self.kernel_memory) {
            (AccessMethod::Buffered, Some(bytes)) => Some(MemoryLimit::new(bytes)?),
            _ => None,
        };
        let (readers, meter) = match method {
            AccessMethod::Buffered => self.open_buffered(threads)?,
            AccessMethod::Direct => self.open_direct(threads)?,
            AccessMethod::Foreread => self.open_foreread(threads)?,
            AccessMethod::Memory => {
                let memory = BareMemory::for_threads(threads)?;
                (memory.into_iter().map(ColdReader::Memory).collect(), RequestMeter::Nothing)
            }
        };
        Ok(Some(ColdReaders { readers, meter, _limit: limit }))
    }

    fn open_buffered(&self, threads: u32) -> io::Result<(Vec<ColdReader>, RequestMeter<'_>)> {
        let open = |_| {
            let file = match &self.mount {
                None => self.target.reopen()?,
                Some(Ok(mount)) => lock(mount).open()?,
                Some(Err(_)) => return Err(io::ErrorKind::Unsupported.into()),
            };
            Ok(ColdReader::Buffered(file))
        };
        let readers = (0..threads).map(open).collect::<io::Result<Vec<_>>>()?;
        if let Some(ColdReader::Buffered(file)) = readers.first() {
            drop_cache(file, 0);
        }
        Ok((readers, RequestMeter::Kernel(self)))
    }

    fn open_direct(&self, threads: u32) -> io::Result<(Vec<ColdReader>, RequestMeter<'_>)> {
        if let Some(object) = self.target.as_object() {
            let issued = Arc::new(IssuedReads::default());
            let bare =
                || ColdReader::Object { object: object.clone(), issued: Arc::clone(&issued) };
            let readers = (0..threads).map(|_| bare()).collect();
            return Ok((readers, RequestMeter::Readers(issued)));
        }
        let device = self.delay.map(SlowDevice::shared);
        let issued = Arc::new(IssuedReads::default());
        let open = |_| {
            let file = open_direct(&self.target.path)?;
            Ok(ColdReader::Direct { file, device: device.clone(), issued: Arc::clone(&issued) })
        };
        let readers = (0..threads).map(open).collect::<io::Result<_>>()?;
        let is_counted = self.delay.is_none() && self.target.is_block_device();
        let meter =
            if is_counted { RequestMeter::Kernel(self) } else { RequestMeter::Readers(issued) };
        Ok((readers, meter))
    }

    fn open_foreread(&self, threads: u32) -> io::Result<(Vec<ColdReader>, RequestMeter<'_>)> {
        let mut builder = Engine::builder().policy(self.policy).memory(self.memory);
        builder = builder.prefault(self.prefault);
        builder = if self.learns_window {
            builder.learn_max_window()
        } else {
            builder.max_window(self.window)
        };
        let mut options = OpenOptions::new().delay(self.delay);
        if let Some(directory) = &self.remember {
            builder = builder.remember(directory);
            if self.target.as_object().is_none() {
                options = with_device_name(&self.target.path, options);
            }
        }
        let engine = builder.build().map_err(io::Error::other)?;
        let file = match self.target.as_object() {
            Some(object) => object.open_file(&engine, &options)?,
            None => engine.open_with(&self.target.path, &options).map_err(io::Error::other)?,
        };
        // The device would be measured as if it were new.
        let record = file.device().record();
        if matches!(record, DeviceRecord::Ignored { .. }) {
            return Err(io::Error::other(record.to_string()));
        }
        let readers = (0..threads).map(|_| ColdReader::Foreread(file.stream())).collect();
        Ok((readers, RequestMeter::Engine(engine)))
    }

    /// Returns the device reads of the kernel so far, counted by the mount's server, by the device,
    /// or by the kernel for this process (bytes only).
    fn kernel_asked(&self) -> io::Result<DeviceReads> {
        let counts = match &self.mount {
            Some(Ok(mount)) => {
                let (reads, bytes) = lock(mount).counts()?;
                (Some(reads), Some(bytes))
            }
            Some(Err(_)) => (None, None),
            None if self.target.is_block_device() => device_counts(self.target.device).unzip(),
            None => (None, process_read_bytes()),
        };
        Ok(DeviceReads { reads: counts.0, bytes: counts.1, evicted_before_use: None })
    }

    /// Returns an amount that fits the cache together with read-ahead windows.
    pub fn half_the_memory(&self) -> u64 {
        self.memory / 2 / PAGE * PAGE
    }
}

/// Opens a file with O_DIRECT.
pub fn open_direct(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open flags fit a C int");
    File::options().read(true).custom_flags(flags).open(path)
}

fn bytes_of(setting: &DeviceSetting) -> Option<u64> {
    setting.value.parse::<u64>().ok()?.checked_mul(1024)
}

impl RequestMeter<'_> {
    /// Returns the device reads since an arbitrary start; only differences are meaningful.
    pub(crate) fn asked(&self) -> io::Result<DeviceReads> {
        Ok(match self {
            Self::Kernel(testbed) => testbed.kernel_asked()?,
            Self::Readers(issued) => DeviceReads {
                reads: Some(issued.reads.load(Ordering::Relaxed)),
                bytes: Some(issued.bytes.load(Ordering::Relaxed)),
                evicted_before_use: None,
            },
            Self::Nothing => DeviceReads::default(),
            Self::Engine(engine) => {
                let counters = engine.counters()?;
                DeviceReads {
                    reads: Some(counters.path.device_reads),
                    bytes: Some(counters.path.device_pages * PAGE),
                    evicted_before_use: Some(counters.cache.evicted_before_use),
                }
            }
        })
    }
}

/// Locks; panics if another thread has panicked while holding the lock.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it asks the server")
}

/// Returns the bytes that the kernel read from devices for this process.
pub fn process_read_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

/// Returns the completed reads of a block device, of all programs, and their bytes.
fn device_counts(device: u64) -> Option<(u64, u64)> {
    const READS: usize = 0;
    const SECTORS: usize = 2;

    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let number = |at| text.split_whitespace().nth(at)?.parse::<u64>().ok();
    Some((number(READS)?, number(SECTORS)?.checked_mul(512)?))
}

/// Latency below which the overhead of FUSE exceeds a few percent.
const FUSE_SHOWS: Duration = Duration::from_millis(1);

/// Window assumed for planning runs if it is learnt; few devices need more.
const LEARNT_WINDOW: u64 = 4 << 20;
