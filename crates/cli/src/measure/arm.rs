//! The three ways to read: through the kernel's page cache, around it, and through foreread.
//!
//! In:    a target, and how slow its device shall be.
//! Out:   a cold reader of it, and what the device was asked for.
//! Never: a warm start: each reader begins with nothing of the file in its cache.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use foreread::{Delay, DelayModel, Engine, EngineError, OpenOptions, Policy, Stream};
use foreread_core::geometry::DEFAULT_WINDOW;
use rustix::fs::OFlags;
use serde::Serialize;

use super::clock;
use super::slow_mount::SlowMount;
use super::target::{Target, bdi_window, drop_cache};

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arm {
    Buffered,
    Direct,
    Foreread,
}

impl Arm {
    pub(crate) const ALL: [Self; 3] = [Self::Buffered, Self::Direct, Self::Foreread];
}

/// What all arms have in common.
pub(crate) struct Course<'t> {
    pub(crate) target: &'t Target,
    pub(crate) delay: Option<Delay>,
    /// The delayed target as the kernel sees it; an error says why it cannot.
    mount: Option<Result<RefCell<SlowMount>, io::Error>>,
    pub(crate) policy: Policy,
    /// The kernel's largest window, in bytes, where it says so.
    pub(crate) kernel_window: Option<u64>,
    /// Foreread's, after its memory bound has cut it.
    pub(crate) window: u64,
    memory: u64,
}

/// What a device was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) reads: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) evicted_before_use: Option<u64>,
}

/// One cold reader.
pub(crate) enum Reader<'c> {
    Buffered { file: File, before: Asked, course: &'c Course<'c> },
    Direct { file: File, device: Option<RefCell<SlowDevice>>, asked: (u64, u64) },
    Foreread { engine: Engine, stream: Stream },
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
        asked_window: Option<u64>,
        memory: u64,
    ) -> Result<Self, EngineError> {
        let mount = delay.map(|delay| SlowMount::new(target.file(), target.len, delay));
        let mount = mount.map(|mount| mount.map(RefCell::new));
        let kernel_window = match &mount {
            Some(Ok(mount)) => mount.borrow().device().and_then(bdi_window),
            Some(Err(_)) => None,
            None => target.kernel_window,
        };
        let window = asked_window.or(kernel_window).unwrap_or(DEFAULT_WINDOW.0);
        let engine = Engine::builder().memory(memory).max_window(window).build()?;
        let window = engine.max_window();
        Ok(Self { target, delay, mount, policy, kernel_window, window, memory })
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

    /// A cold reader; None where the arm cannot read this target.
    pub(crate) fn reader(&self, arm: Arm) -> io::Result<Option<Reader<'_>>> {
        self.target.drop_cache();
        Ok(match arm {
            Arm::Buffered => {
                let file = match &self.mount {
                    None => self.target.reopen()?,
                    Some(Ok(mount)) => mount.borrow().open()?,
                    Some(Err(_)) => return Ok(None),
                };
                drop_cache(&file);
                Some(Reader::Buffered { file, before: self.kernel_asked()?, course: self })
            }
            Arm::Direct if self.target.buffered.is_some() => None,
            Arm::Direct => {
                let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open flags are an int");
                let file =
                    File::options().read(true).custom_flags(flags).open(&self.target.path)?;
                let model = self.delay.map(DelayModel::new);
                let device =
                    model.map(|model| RefCell::new(SlowDevice { model, started: clock() }));
                Some(Reader::Direct { file, device, asked: (0, 0) })
            }
            Arm::Foreread => {
                let builder = Engine::builder().policy(self.policy).memory(self.memory);
                let engine = builder.max_window(self.window).build().map_err(io::Error::other)?;
                let options = OpenOptions { delay: self.delay, buffered: false };
                let opened = engine.open_with(&self.target.path, &options);
                let stream = opened.map_err(io::Error::other)?.stream();
                Some(Reader::Foreread { engine, stream })
            }
        })
    }

    /// What the kernel asked of the device so far: counted by the mount's server, or by the kernel
    /// itself for this process, in bytes only.
    fn kernel_asked(&self) -> io::Result<Asked> {
        Ok(match &self.mount {
            Some(Ok(mount)) => {
                let (reads, bytes) = mount.borrow_mut().counts()?;
                Asked { reads: Some(reads), bytes: Some(bytes), evicted_before_use: None }
            }
            Some(Err(_)) => Asked::default(),
            None => Asked { bytes: process_read_bytes(), ..Asked::default() },
        })
    }

    /// How many pages fit the cache with room for windows beside them.
    pub(crate) fn hot_pages(&self) -> u64 {
        self.memory / 2 / 4096
    }
}

impl Reader<'_> {
    /// Reads all of `to`, which is aligned to a page, at `offset`, which is, too.
    #[inline]
    pub(crate) fn read(&mut self, to: &mut [u8], offset: u64) -> io::Result<()> {
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

    pub(crate) fn asked(&self) -> io::Result<Asked> {
        Ok(match self {
            Self::Buffered { before, course, .. } => {
                let now = course.kernel_asked()?;
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
        })
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

/// Below this latency what FUSE costs is more than a few parts in a hundred.
const FUSE_SHOWS: Duration = Duration::from_millis(1);
