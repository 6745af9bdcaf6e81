//! The three ways to read: through the kernel's page cache, around it, and through foreread.
//!
//! In:    a target, and how slow its device shall be.
//! Out:   cold readers of it, and what the device was asked for.
//! Never: a warm start: each run begins with nothing of the file in its cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foreread::{Delay, DelayModel, Engine, EngineError, OpenOptions, Policy, ReadStream};
use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::window_in_force;
use foreread_tune::temporary_settings::TemporarySettings;
use rustix::fs::OFlags;
use serde::Serialize;

use super::pattern::PAGE;
use super::slow_mount::SlowMount;
use super::target::{Target, drop_cache};
use super::{clock, holder};
use crate::flags::MaxWindow;

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arm {
    Buffered,
    Direct,
    Foreread,
}

impl Arm {
    pub(crate) const ALL: [Self; 3] = [Self::Buffered, Self::Direct, Self::Foreread];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
            Self::Foreread => "foreread",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arm| arm.name() == name)
    }
}

/// What all arms have in common.
pub(crate) struct Course<'t> {
    pub(crate) target: &'t Target,
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
}

/// What a device was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) reads: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) evicted_before_use: Option<u64>,
}

/// One way to read, cold: a reader for each thread.
pub(crate) struct Opened<'c> {
    pub(crate) readers: Vec<Reader>,
    pub(crate) meter: Meter<'c>,
}

/// One thread's handle.
pub(crate) enum Reader {
    Buffered(File),
    Direct { file: File, device: Option<Arc<Mutex<SlowDevice>>>, issued: Arc<Issued> },
    Foreread(ReadStream),
}

/// What counts the requests to the device.
pub(crate) enum Meter<'c> {
    Kernel(&'c Course<'c>),
    /// The readers themselves: each of their reads is one of the device.
    Readers(Arc<Issued>),
    Engine(Engine),
}

/// What readers have asked for.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    reads: AtomicU64,
    bytes: AtomicU64,
}

/// A device that is slow because its reader sleeps.
pub(crate) struct SlowDevice {
    model: DelayModel,
    started: Instant,
}

impl<'t> Course<'t> {
    /// Foreread gets the window that was asked for, else the kernel's own, so that the comparison
    /// is one of equals.
    pub(crate) fn new(
        target: &'t Target,
        delay: Option<Delay>,
        policy: Policy,
        asked_window: Option<MaxWindow>,
        memory: u64,
    ) -> Result<Self, EngineError> {
        let mount = delay.map(|delay| SlowMount::new(target.file(), target.len, delay));
        let mount = mount.map(|mount| mount.map(Mutex::new));
        let mut course = Self {
            target,
            delay,
            mount,
            policy,
            kernel_window: None,
            held: None,
            window: 0,
            learns_window: asked_window == Some(MaxWindow::Auto),
            memory,
        };
        course.kernel_window = course.kernel_setting().and_then(|setting| bytes_of(&setting));
        course.window = match asked_window {
            Some(MaxWindow::Size(window)) => window.0,
            Some(MaxWindow::Auto) => LEARNT_WINDOW,
            None => course.kernel_window.unwrap_or(DEFAULT_WINDOW.0),
        };
        let engine = Engine::builder().memory(memory).max_window(course.window).build()?;
        course.window = engine.max_window().expect("this process has just made the engine");
        Ok(course)
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
        let held = holder()?;
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

    /// What a reader of the output has to know: which arm is missing, and why.
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

    fn has_kernel(&self) -> bool {
        !matches!(self.mount, Some(Err(_)))
    }

    /// Whether this way of reading can be had here at all.
    pub(crate) fn has(&self, arm: Arm) -> bool {
        match arm {
            Arm::Buffered => self.has_kernel(),
            Arm::Direct => self.target.buffered.is_none(),
            Arm::Foreread => true,
        }
    }

    /// Cold readers, one for each thread; None where the arm cannot read this target.
    pub(crate) fn open(&self, arm: Arm, threads: u32) -> io::Result<Option<Opened<'_>>> {
        if !self.has(arm) {
            return Ok(None);
        }
        self.target.drop_cache();
        let (readers, meter) = match arm {
            Arm::Buffered => self.open_buffered(threads)?,
            Arm::Direct => self.open_direct(threads)?,
            Arm::Foreread => self.open_foreread(threads)?,
        };
        Ok(Some(Opened { readers, meter }))
    }

    fn open_buffered(&self, threads: u32) -> io::Result<(Vec<Reader>, Meter<'_>)> {
        let open = |_| {
            let file = match &self.mount {
                None => self.target.reopen()?,
                Some(Ok(mount)) => lock(mount).open()?,
                Some(Err(_)) => return Err(io::ErrorKind::Unsupported.into()),
            };
            Ok(Reader::Buffered(file))
        };
        let readers = (0..threads).map(open).collect::<io::Result<Vec<_>>>()?;
        if let Some(Reader::Buffered(file)) = readers.first() {
            drop_cache(file, 0);
        }
        Ok((readers, Meter::Kernel(self)))
    }

    fn open_direct(&self, threads: u32) -> io::Result<(Vec<Reader>, Meter<'_>)> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open flags are an int");
        let device = self.delay.map(SlowDevice::shared);
        let issued = Arc::new(Issued::default());
        let open = |_| {
            let file = File::options().read(true).custom_flags(flags).open(&self.target.path)?;
            Ok(Reader::Direct { file, device: device.clone(), issued: Arc::clone(&issued) })
        };
        let readers = (0..threads).map(open).collect::<io::Result<_>>()?;
        let is_counted = self.delay.is_none() && self.target.is_block_device();
        let meter = if is_counted { Meter::Kernel(self) } else { Meter::Readers(issued) };
        Ok((readers, meter))
    }

    fn open_foreread(&self, threads: u32) -> io::Result<(Vec<Reader>, Meter<'_>)> {
        let mut builder = Engine::builder().policy(self.policy).memory(self.memory);
        builder = if self.learns_window {
            builder.learn_max_window()
        } else {
            builder.max_window(self.window)
        };
        let engine = builder.build().map_err(io::Error::other)?;
        let options = OpenOptions { delay: self.delay, ..OpenOptions::default() };
        let file = engine.open_with(&self.target.path, &options).map_err(io::Error::other)?;
        let readers = (0..threads).map(|_| Reader::Foreread(file.stream())).collect();
        Ok((readers, Meter::Engine(engine)))
    }

    /// What the kernel asked of the device so far: counted by the mount's server, by the device, or
    /// by the kernel for this process, in bytes only.
    fn kernel_asked(&self) -> io::Result<Asked> {
        let counts = match &self.mount {
            Some(Ok(mount)) => {
                let (reads, bytes) = lock(mount).counts()?;
                (Some(reads), Some(bytes))
            }
            Some(Err(_)) => (None, None),
            None if self.target.is_block_device() => device_counts(self.target.device).unzip(),
            None => (None, process_read_bytes()),
        };
        Ok(Asked { reads: counts.0, bytes: counts.1, evicted_before_use: None })
    }

    /// How many bytes fit the cache with room for windows beside them.
    pub(crate) fn half_the_memory(&self) -> u64 {
        self.memory / 2 / PAGE * PAGE
    }
}

fn bytes_of(setting: &DeviceSetting) -> Option<u64> {
    setting.value.parse::<u64>().ok()?.checked_mul(1024)
}

impl Reader {
    /// Reads all of `to`, which is aligned to a page, at `offset`, which is, too.
    #[inline]
    pub(crate) fn read(&mut self, to: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Buffered(file) => file.read_exact_at(to, offset),
            Self::Direct { file, device, issued } => {
                issued.reads.fetch_add(1, Ordering::Relaxed);
                issued.bytes.fetch_add(to.len() as u64, Ordering::Relaxed);
                SlowDevice::during(device.as_ref(), to.len(), || file.read_exact_at(to, offset))
            }
            Self::Foreread(stream) => {
                let got = stream.read_at(to, offset)?;
                if got == to.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
        }
    }

    /// Pins the page at `offset` and lets it go, without a look at its bytes.
    #[inline]
    pub(crate) fn pin(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::Foreread(stream) => {
                drop(stream.pin(offset)?);
                Ok(())
            }
            Self::Buffered(_) | Self::Direct { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Meter<'_> {
    /// What the device was asked for since an arbitrary start: take differences.
    pub(crate) fn asked(&self) -> io::Result<Asked> {
        Ok(match self {
            Self::Kernel(course) => course.kernel_asked()?,
            Self::Readers(issued) => Asked {
                reads: Some(issued.reads.load(Ordering::Relaxed)),
                bytes: Some(issued.bytes.load(Ordering::Relaxed)),
                evicted_before_use: None,
            },
            Self::Engine(engine) => {
                let counters = engine.counters()?;
                Asked {
                    reads: Some(counters.path.device_reads),
                    bytes: Some(counters.path.device_pages * PAGE),
                    evicted_before_use: Some(counters.cache.evicted_before_use),
                }
            }
        })
    }
}

impl SlowDevice {
    /// One for all threads: their requests wait for each other, as the model has it.
    pub(crate) fn shared(delay: Delay) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { model: DelayModel::new(delay), started: clock() }))
    }

    /// One request of so many bytes, that ends when the device would have it.
    pub(crate) fn during(
        device: Option<&Arc<Mutex<Self>>>,
        bytes: usize,
        request: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let due = device.map(|device| lock(device).start(bytes as u64));
        request()?;
        if let Some(due) = due {
            sleep_until(due);
        }
        Ok(())
    }

    fn start(&mut self, bytes: u64) -> Instant {
        let now = clock().duration_since(self.started).as_nanos();
        let due = self.model.finish_ns(u64::try_from(now).unwrap_or(u64::MAX), bytes);
        self.started + Duration::from_nanos(due)
    }
}

/// Locks; panics if another thread has panicked while holding the lock.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics holding it")
}

#[expect(clippy::disallowed_methods, reason = "a device that is slow on purpose, a pause")]
pub(crate) fn sleep_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(clock()));
}

/// Bytes that this process made the kernel fetch from devices.
fn process_read_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

/// Reads that a block device has done, for whomever, and bytes in them.
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
