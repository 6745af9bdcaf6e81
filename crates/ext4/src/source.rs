//! Where the bytes of an image come from.
//!
//! In:    an offset and a buffer.
//! Out:   the bytes, or what the system said.
//! Never: a read outside the image: the caller has checked [`BlockSource::size`].

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// An image, as bytes at offsets.
///
/// The reader keeps nothing of what it has read but a few group descriptors: a source that reads
/// slowly should keep what it read.
pub trait BlockSource {
    /// The image's length in bytes. Asked once, when the image is opened.
    ///
    /// # Errors
    ///
    /// What the system said.
    fn size(&self) -> io::Result<u64>;

    /// Fills `to` with the bytes from `offset` on: metadata, a structure or a block at a time, all
    /// over the image.
    ///
    /// # Errors
    ///
    /// What the system said. A source that ends before `to` is full has become shorter than it
    /// was: [`io::ErrorKind::UnexpectedEof`].
    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()>;

    /// The same for the contents of regular files, which are likely to be read from one end to the
    /// other.
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
        // A block device has no length but its end.
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
