//! The source of an image's bytes. The caller has checked reads against [`BlockSource::size`].

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// An image, as bytes at offsets.
///
/// The reader caches only a few group descriptors, so a slow source should have its own cache.
pub trait BlockSource {
    /// Returns the image's length in bytes. Called once, when the image is opened.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    fn size(&self) -> io::Result<u64>;

    /// Fills `to` with the bytes from `offset` on. Used for metadata: one structure or block at a
    /// time, at scattered offsets.
    ///
    /// # Errors
    ///
    /// The error of the system call. A source that ends before `to` is full has become shorter:
    /// [`io::ErrorKind::UnexpectedEof`].
    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()>;

    /// Fills `to` with contents of regular files, which are likely to be read sequentially.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    fn read_contents(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.read(offset, to)
    }
}

impl BlockSource for File {
    fn size(&self) -> io::Result<u64> {
        // The length of a block device is only available by seeking to its end.
        let mut file = self;
        file.seek(SeekFrom::End(0))
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(to, offset)
    }
}

impl BlockSource for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.as_slice().len() as u64)
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let bytes = self.get(start..).and_then(|rest| rest.get(..to.len()));
        to.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

macro_rules! passed_on {
    ($($pointer:ty),*) => {$(
        impl<S: BlockSource + ?Sized> BlockSource for $pointer {
            fn size(&self) -> io::Result<u64> {
                (**self).size()
            }

            fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
                (**self).read(offset, to)
            }

            fn read_contents(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
                (**self).read_contents(offset, to)
            }
        }
    )*};
}

passed_on!(&S, Arc<S>, Box<S>);
