//! The methods to reach the device, opened for reading and writing.
//!
//! Writes return when the device has completed them, so that the device is measured and not a
//! cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};

use foreread::lab::Delay;
use foreread::{Engine, OpenOptions, Policy, WriteMode};

use super::super::reader::{ColdReader, IssuedReads};
use super::super::slow_device::SlowDevice;
use super::method::FloodMethod;
use super::target::FloodTarget;

/// Settings of foreread.
#[derive(Clone, Debug)]
pub struct FloodSettings {
    pub memory: u64,
    pub policy: Policy,
    /// Tunables of the scheduler, with their values.
    pub set: Vec<(String, String)>,
}

/// Writer shared by all threads.
pub(crate) enum FloodWriter {
    Direct { file: File, device: Option<Arc<Mutex<SlowDevice>>> },
    Foreread(foreread::File),
}

/// Opens one method with a cold cache.
pub(super) fn open(
    method: &FloodMethod,
    target: &FloodTarget,
    delay: Option<Delay>,
    ours: &FloodSettings,
) -> io::Result<(ColdReader, FloodWriter)> {
    match method {
        FloodMethod::Direct { .. } => {
            let device = delay.map(SlowDevice::shared);
            let issued = Arc::new(IssuedReads::default());
            let file = target.open_direct()?;
            let reader =
                ColdReader::Direct { file: file.try_clone()?, device: device.clone(), issued };
            Ok((reader, FloodWriter::Direct { file, device }))
        }
        FloodMethod::Foreread => {
            let builder = Engine::builder().policy(ours.policy).memory(ours.memory);
            let engine = builder.build().map_err(io::Error::other)?;
            let options = OpenOptions::new().write(true).delay(delay);
            let file = engine.open_with(&target.path, &options).map_err(io::Error::other)?;
            for (name, value) in &ours.set {
                file.device().set_scheduler_by_name(name, value).map_err(io::Error::other)?;
            }
            Ok((ColdReader::Foreread(file.stream()), FloodWriter::Foreread(file)))
        }
    }
}

impl FloodWriter {
    /// Writes; the device has the bytes on return.
    ///
    /// Writes with [`WriteMode::WriteThrough`] in foreread; a write-back cache would measure
    /// itself.
    pub(super) fn write(&self, from: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Direct { file, device } => {
                let len = from.len();
                SlowDevice::during(device.as_ref(), len, || file.write_all_at(from, offset))
            }
            Self::Foreread(file) => file
                .write_all_at_with(from, offset, WriteMode::WriteThrough)
                .map_err(io::Error::other),
        }
    }
}
