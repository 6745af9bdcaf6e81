//! The three access methods: through the kernel's page cache, around it, and through foreread.
//!
//! In:    a target, and how slow its device shall be.
//! Out:   cold readers of it, and what the device was asked for.
//! Never: a warm start: each run begins with nothing of the file in its cache.

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

/// What all access methods have in common.
pub(crate) struct Testbed<'t> {
    pub(crate) target: &'t BenchTarget,
    pub(crate) delay: Option<Delay>,
    /// The delayed target as the kernel sees it; an error says why it cannot.
    mount: Option<Result<Mutex<SlowMount>, io::Error>>,
    pub(crate) policy: Policy,
    /// The kernel's largest window, in bytes, where it says so.
    pub(crate) kernel_window: Option<u64>,
    /// Keeps it what was asked for.
    held: Option<TemporarySettings>,
    /// The largest of foreread, after its memory bound has cut it.
    pub(crate) window: u64,
    /// Whether foreread learns which it is.
    pub(crate) learns_window: bool,
    memory: u64,
    /// Whether foreread has all of it before the clock starts.
    pub(crate) prefault: bool,
    /// Where foreread keeps what it learns of the device; None: each run begins anew.
    pub(crate) remember: Option<PathBuf>,
    /// How many bytes the kernel's page cache may have; None for as many as there are.
    pub(crate) kernel_memory: Option<u64>,
}

/// What a device was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceReads {
    pub(crate) reads: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) evicted_before_use: Option<u64>,
}

/// One access method, cold: a reader for each thread.
pub(crate) struct ColdReaders<'c> {
    pub(crate) readers: Vec<ColdReader>,
    pub(crate) meter: RequestMeter<'c>,
    /// Of the kernel's page cache, as long as they read.
    _limit: Option<MemoryLimit>,
}

/// What counts the requests to the device.
pub(crate) enum RequestMeter<'c> {
    Kernel(&'c Testbed<'c>),
    /// The readers themselves: each of their reads is one of the device.
    Readers(Arc<IssuedReads>),
    Engine(Engine),
    /// Memory has no device.
    Nothing,
}

impl<'t> Testbed<'t> {
    /// Foreread gets the window that was asked for, else the kernel's own, so that the comparison
    /// is one of equals.
    pub(crate) fn new(
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

    /// Sets the kernel's largest window, as long as this lives; else says why it is what it was.
    pub(crate) fn hold_kernel_window(&mut self, bytes: u64) -> io::Result<()> {
        if self.kernel_window == Some(bytes) {
            return Ok(());
        }
        let unknown = || io::Error::other("the device below it is unknown");
        let setting = self.kernel_setting().ok_or_else(unknown)?;
        // The kernel keeps it in pages.
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

    /// The setting that decides how far the kernel reads ahead.
    fn kernel_setting(&self) -> Option<DeviceSetting> {
        let device = match &self.mount {
            None => self.target.device,
            Some(Ok(mount)) => lock(mount).device()?,
            Some(Err(_)) => return None,
        };
        window_in_force(&SystemRoot::here(), (rustix::fs::major(device), rustix::fs::minor(device)))
    }

    /// What a reader of the output has to know: which access method is missing, and why.
    pub(crate) fn notes(&self) -> Vec<String> {
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

    /// Why the kernel cannot read the slow device, if it cannot.
    pub(crate) fn mount_refusal(&self) -> Option<&io::Error> {
        self.mount.as_ref()?.as_ref().err()
    }

    fn has_kernel(&self) -> bool {
        !matches!(self.mount, Some(Err(_)))
    }

    /// Whether this access method can be had here at all.
    pub(crate) fn has(&self, method: AccessMethod) -> bool {
        match method {
            // No kernel reads an object.
            AccessMethod::Buffered => self.has_kernel() && self.target.as_object().is_none(),
            AccessMethod::Direct => self.target.buffered.is_none(),
            AccessMethod::Foreread | AccessMethod::Memory => true,
        }
    }

    /// Cold readers, one for each thread; None where the access method cannot read this target.
    pub(crate) fn open(
        &self,
        method: AccessMethod,
        threads: u32,
    ) -> io::Result<Option<ColdReaders<'_>>> {
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
        // What is measured would be a device that was not seen before.
        let record = file.device().record();
        if matches!(record, DeviceRecord::Ignored { .. }) {
            return Err(io::Error::other(record.to_string()));
        }
        let readers = (0..threads).map(|_| ColdReader::Foreread(file.stream())).collect();
        Ok((readers, RequestMeter::Engine(engine)))
    }

    /// What the kernel asked of the device so far: counted by the mount's server, by the device, or
    /// by the kernel for this process, in bytes only.
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

    /// How many bytes fit the cache with room for windows beside them.
    pub(crate) fn half_the_memory(&self) -> u64 {
        self.memory / 2 / PAGE * PAGE
    }
}

/// Opens a file to be read around the page cache.
pub(crate) fn open_direct(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open flags fit a C int");
    File::options().read(true).custom_flags(flags).open(path)
}

fn bytes_of(setting: &DeviceSetting) -> Option<u64> {
    setting.value.parse::<u64>().ok()?.checked_mul(1024)
}

impl RequestMeter<'_> {
    /// What the device was asked for since an arbitrary start: take differences.
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

/// Bytes that this process made the kernel fetch from devices.
pub(crate) fn process_read_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

/// Reads that a block device has done, for all programs, and bytes in them.
fn device_counts(device: u64) -> Option<(u64, u64)> {
    const READS: usize = 0;
    const SECTORS: usize = 2;

    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let number = |at| text.split_whitespace().nth(at)?.parse::<u64>().ok();
    Some((number(READS)?, number(SECTORS)?.checked_mul(512)?))
}

/// Below this latency what FUSE costs is more than a few parts in a hundred.
const FUSE_SHOWS: Duration = Duration::from_millis(1);

/// What runs are planned for where the window is learnt: few devices want more.
const LEARNT_WINDOW: u64 = 4 << 20;
