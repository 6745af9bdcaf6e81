//! The ways to reach the device, opened for reading and writing.
//!
//! In:    a way, a target to overwrite.
//! Out:   a [`Reader`] for the chain, a [`Writer`] for all threads of the flood.
//! Never: a write that ends before the device has it: what is compared is the device's work, not
//!        the size of a cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::{Arc, Mutex};

use foreread::Delay;
use rustix::fs::OFlags;

use super::super::arm::{Issued, Reader, SlowDevice};
use super::{Victim, Way};

/// How foreread is set up.
#[derive(Clone, Debug)]
pub(crate) struct Ours {
    pub(crate) memory: u64,
}

/// What all threads write through.
pub(crate) enum Writer {
    Direct { file: File, device: Option<Arc<Mutex<SlowDevice>>> },
}

/// One way, cold.
pub(super) fn open(
    way: &Way,
    victim: &Victim,
    delay: Option<Delay>,
    _ours: &Ours,
) -> io::Result<(Reader, Writer)> {
    match way {
        Way::Direct { .. } => {
            let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open flags are an int");
            let open = || {
                let mut options = File::options();
                options.read(true).write(true).custom_flags(flags).open(&victim.path)
            };
            let device = delay.map(SlowDevice::shared);
            let issued = Arc::new(Issued::default());
            let reader = Reader::Direct { file: open()?, device: device.clone(), issued };
            Ok((reader, Writer::Direct { file: open()?, device }))
        }
        Way::Foreread => Err(io::ErrorKind::Unsupported.into()),
    }
}

impl Writer {
    /// Writes; the device has it on return.
    pub(super) fn write(&self, from: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Direct { file, device } => {
                let len = from.len();
                SlowDevice::during(device.as_ref(), len, || file.write_all_at(from, offset))
            }
        }
    }
}
