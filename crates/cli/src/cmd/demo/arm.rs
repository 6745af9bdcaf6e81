//! The three ways to read: through the kernel's page cache, around it, and through foreread.
//!
//! In:    a target, and how slow its device shall be.
//! Out:   a cold reader of it, and what the device was asked for.
//! Never: a warm start: each reader begins with nothing of the file in its cache.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use foreread::{Delay, DelayModel, Engine, OpenOptions, Policy, Stream};
use rustix::fs::OFlags;
use serde::Serialize;

use super::clock;
use super::slow_mount::SlowMount;
use super::target::{Target, bdi_window, drop_cache};

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Arm {
    Buffered,
    Direct,
    Foreread,
}

impl Arm {
    pub(super) const ALL: [Self; 3] = [Self::Buffered, Self::Direct, Self::Foreread];
}

/// What all arms have in common.
pub(super) struct Course<'t> {
    pub(super) target: &'t Target,
    pub(super) delay: Option<Delay>,
    /// The delayed target as the kernel sees it; an error says why it cannot.
    pub(super) mount: Option<Result<SlowMount, io::Error>>,
    pub(super) policy: Policy,
    pub(super) window: u64,
    pub(super) memory: u64,
}

/// What a device was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) reads: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) evicted_before_use: Option<u64>,
}

/// One cold reader.
pub(super) enum Reader<'c> {
    Buffered { file: File, before: Asked, course: &'c Course<'c> },
    Direct { file: File, device: Option<RefCell<SlowDevice>>, asked: (u64, u64) },
    Foreread { engine: Engine, stream: Stream },
}

/// A device that is slow because its reader sleeps.
pub(super) struct SlowDevice {
    model: DelayModel,
    started: Instant,
}

impl<'t> Course<'t> {
    pub(super) fn new(
        target: &'t Target,
        delay: Option<Delay>,
        policy: Policy,
        window: u64,
        memory: u64,
    ) -> Self {
        let mount = delay.map(|delay| SlowMount::new(target.reopen()?, target.len, delay));
        // At the kernel's own window where it has one, so that the comparison is of the policies.
        let of_the_kernel = match &mount {
            Some(Ok(mount)) => {
                std::fs::metadata(mount.directory()).ok().and_then(|stat| bdi_window(stat.dev()))
            }
            Some(Err(_)) => None,
            None => target.kernel_window,
        };
        let window = of_the_kernel.unwrap_or(window);
        Self { target, delay, mount, policy, window, memory }
    }

    /// Why the kernel's page cache cannot be shown, if it cannot.
    pub(super) fn kernel_missing(&self) -> Option<String> {
        let error = self.mount.as_ref()?.as_ref().err()?;
        Some(format!(
            "kernel buffered is left out: a slow device for it needs a FUSE mount ({error}); run as \
             root, or install fuse3"
        ))
    }

    /// A cold reader; None where the arm cannot read this target.
    pub(super) fn reader(&self, arm: Arm) -> io::Result<Option<Reader<'_>>> {
        self.target.drop_cache();
        Ok(Some(match arm {
            Arm::Buffered => {
                let file = match &self.mount {
                    None => self.target.reopen()?,
                    Some(Ok(mount)) => File::open(mount.path())?,
                    Some(Err(_)) => return Ok(None),
                };
                drop_cache(&file);
                Reader::Buffered { file, before: self.kernel_asked(), course: self }
            }
            Arm::Direct => {
                let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open flags are an int");
                let opened = File::options().read(true).custom_flags(flags).open(&self.target.path);
                let Ok(file) = opened else { return Ok(None) };
                let model = self.delay.map(DelayModel::new);
                let device =
                    model.map(|model| RefCell::new(SlowDevice { model, started: clock() }));
                Reader::Direct { file, device, asked: (0, 0) }
            }
            Arm::Foreread => {
                let builder = Engine::builder().policy(self.policy).memory(self.memory);
                let engine = builder.max_window(self.window).build().map_err(io::Error::other)?;
                let options = OpenOptions { delay: self.delay, buffered: false };
                let file =
                    engine.open_with(&self.target.path, &options).map_err(io::Error::other)?;
                Reader::Foreread { stream: file.stream(), engine }
            }
        }))
    }

    /// What the kernel asked of the device so far: counted by the mount, or by the kernel itself
    /// for this process, in bytes only.
    fn kernel_asked(&self) -> Asked {
        match &self.mount {
            Some(Ok(mount)) => {
                let (reads, bytes) = mount.counts();
                Asked { reads: Some(reads), bytes: Some(bytes), evicted_before_use: None }
            }
            Some(Err(_)) => Asked::default(),
            None => Asked { bytes: process_read_bytes(), ..Asked::default() },
        }
    }
}

impl Reader<'_> {
    /// Reads all of `to`, which is aligned to a page, at `offset`, which is, too.
    #[inline]
    pub(super) fn read(&mut self, to: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Buffered { file, .. } => file.read_exact_at(to, offset),
            Self::Direct { file, device, asked } => {
                *asked = (asked.0 + 1, asked.1 + to.len() as u64);
                let due = device.as_ref().map(|device| device.borrow_mut().start(to.len() as u64));
                file.read_exact_at(to, offset)?;
                if let Some(due) = due {
                    sleep_until(due);
                }
                Ok(())
            }
            Self::Foreread { stream, .. } => {
                let got = stream.read_at(to, offset)?;
                if got == to.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
        }
    }

    pub(super) fn asked(&self) -> Asked {
        match self {
            Self::Buffered { before, course, .. } => {
                let now = course.kernel_asked();
                let since = |now: Option<u64>, before: Option<u64>| Some(now? - before?);
                Asked {
                    reads: since(now.reads, before.reads),
                    bytes: since(now.bytes, before.bytes),
                    evicted_before_use: None,
                }
            }
            Self::Direct { asked: (reads, bytes), .. } => {
                Asked { reads: Some(*reads), bytes: Some(*bytes), evicted_before_use: None }
            }
            Self::Foreread { engine, .. } => {
                let counters = engine.counters();
                Asked {
                    reads: Some(counters.path.device_reads),
                    bytes: Some(counters.path.device_pages * 4096),
                    evicted_before_use: Some(counters.cache.evicted_before_use),
                }
            }
        }
    }
}

impl SlowDevice {
    fn start(&mut self, bytes: u64) -> Instant {
        let now = clock().duration_since(self.started).as_nanos();
        let due = self.model.finish_ns(u64::try_from(now).unwrap_or(u64::MAX), bytes);
        self.started + Duration::from_nanos(due)
    }
}

#[expect(clippy::disallowed_methods, reason = "a device that is slow on purpose")]
fn sleep_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(clock()));
}

/// Bytes that this process made the kernel fetch from devices.
fn process_read_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}
