//! The ways to reach the device, opened for reading and writing.
//!
//! In:    a way, a target to overwrite.
//! Out:   a [`Reader`] for the chain, a [`Writer`] for all threads of the flood.
//! Never: a write that ends before the device has it: what is compared is the device's work, not
//!        the size of a cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};

use foreread::{Delay, Engine, OpenOptions, Policy, WriteMode};
use foreread_core::sched::Choice;

use super::super::arm::{Issued, Reader, SlowDevice};
use super::{Victim, Way};

/// How foreread is set up.
#[derive(Clone, Debug)]
pub(crate) struct Ours {
    pub(crate) memory: u64,
    pub(crate) policy: Policy,
    pub(crate) scheduler: Choice,
    /// Tunables of the scheduler, and values of theirs.
    pub(crate) set: Vec<(String, String)>,
}

/// What all threads write through.
pub(crate) enum Writer {
    Direct { file: File, device: Option<Arc<Mutex<SlowDevice>>> },
    Foreread(foreread::File),
}

/// One way, cold.
pub(super) fn open(
    way: &Way,
    victim: &Victim,
    delay: Option<Delay>,
    ours: &Ours,
) -> io::Result<(Reader, Writer)> {
    match way {
        Way::Direct { .. } => {
            let device = delay.map(SlowDevice::shared);
            let issued = Arc::new(Issued::default());
            let file = victim.open_direct()?;
            let reader = Reader::Direct { file: file.try_clone()?, device: device.clone(), issued };
            Ok((reader, Writer::Direct { file, device }))
        }
        Way::Foreread => {
            let builder = Engine::builder().policy(ours.policy).memory(ours.memory);
            let engine = builder.build().map_err(io::Error::other)?;
            let scheduler = ours.scheduler.clone();
            let options = OpenOptions { write: true, delay, scheduler, ..OpenOptions::default() };
            let file = engine.open_with(&victim.path, &options).map_err(io::Error::other)?;
            for (name, value) in &ours.set {
                file.set_scheduler(name, value).map_err(io::Error::other)?;
            }
            Ok((Reader::Foreread(file.stream()), Writer::Foreread(file)))
        }
    }
}

impl Writer {
    /// Writes; the device has it on return.
    ///
    /// Through foreread that is [`WriteMode::WriteThrough`]: what is done when it is in the cache
    /// would measure the cache.
    pub(super) fn write(&self, from: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Direct { file, device } => {
                let len = from.len();
                SlowDevice::during(device.as_ref(), len, || file.write_all_at(from, offset))
            }
            Self::Foreread(file) => {
                file.write_at(from, offset, WriteMode::WriteThrough).map_err(io::Error::other)
            }
        }
    }
}
