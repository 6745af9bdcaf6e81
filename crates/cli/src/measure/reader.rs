//! One thread's handle on the target.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use foreread::ReadStream;

use super::bare_memory::BareMemory;
use super::bare_object::BareObject;
use super::slow_device::SlowDevice;

/// One thread's handle.
pub(crate) enum ColdReader {
    Buffered(File),
    Direct {
        file: File,
        device: Option<Arc<Mutex<SlowDevice>>>,
        issued: Arc<IssuedReads>,
    },
    Foreread(ReadStream),
    Memory(BareMemory),
    /// One request for each read.
    Object {
        object: BareObject,
        issued: Arc<IssuedReads>,
    },
}

impl ColdReader {
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
            Self::Memory(memory) => {
                memory.copy(to, offset);
                Ok(())
            }
            Self::Object { object, issued } => {
                issued.reads.fetch_add(1, Ordering::Relaxed);
                issued.bytes.fetch_add(to.len() as u64, Ordering::Relaxed);
                object.read(to, offset)
            }
        }
    }

    /// Pins the page at `offset` and lets it go, without a look at its bytes. In memory it is one
    /// look at a byte there: nothing that finds a page can do with less.
    #[inline]
    pub(crate) fn pin(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::Foreread(stream) => {
                drop(stream.pin(offset)?);
                Ok(())
            }
            Self::Memory(memory) => {
                memory.look(offset);
                Ok(())
            }
            Self::Buffered(_) | Self::Direct { .. } | Self::Object { .. } => {
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }
}

/// Counts the reads issued.
#[derive(Debug, Default)]
pub(crate) struct IssuedReads {
    pub reads: AtomicU64,
    pub bytes: AtomicU64,
}
