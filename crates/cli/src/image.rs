//! An ext4 image, read through foreread.
//!
//! Read-only. Errors name the image and the command that repairs it.

pub mod byte_range;
pub mod node;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use foreread::{Advice, Engine, OpenOptions, ReadStream};
use foreread_core::sizes;
use foreread_core::units::ByteCount;
use foreread_ext4::{BlockSource, Error, Ext4, Journal};

use self::byte_range::RangeChoice;
use crate::args::max_window::MaxWindow;
use crate::output::Failure;
use crate::store::{self, StoreAccess, StoreArgs};

/// Cache size, enough for the metadata of millions of files and for any window.
const MEMORY: u64 = 64 << 20;

/// Arguments shared by `ls`, `cat`, `stat` and `mount`.
#[derive(Debug, Args)]
pub struct ImageArgs {
    /// Image of an ext2, ext3 or ext4 file system, a block device with one, or the URL of an object
    /// with one (s3://bucket/key, gs://, az://, https://)
    #[arg(value_parser = store::target())]
    target: PathBuf,

    /// Read an image that needs journal recovery, without replaying the journal
    ///
    /// The data may be stale or inconsistent; the image is never written to. Without this flag,
    /// such an image is refused: it is mounted elsewhere, or was not unmounted.
    #[arg(long)]
    ignore_journal: bool,

    /// Offset of the file system in TARGET, in bytes (or with K, M, G), for a file system inside a
    /// larger file
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, conflicts_with = "partition")]
    offset: Option<ByteCount>,

    /// Read partition N of TARGET, a whole disk with an MBR or GPT
    ///
    /// Partitions have the kernel's numbers; logical ones start at 5. Without this flag, a whole
    /// disk is refused with a list of its partitions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    partition: Option<u32>,

    #[command(flatten)]
    store: StoreArgs,
}

impl ImageArgs {
    /// Resolves the options.
    pub fn resolve(&self) -> ImageTarget {
        ImageTarget {
            target: self.target.clone(),
            journal: if self.ignore_journal { Journal::Ignore } else { Journal::Refuse },
            range: RangeChoice::new(self.offset, self.partition),
            store: self.store.access(),
        }
    }
}

/// Image to read, and the part of its file or object that it is in.
#[derive(Debug)]
pub struct ImageTarget {
    /// File, block device, or URL of an object.
    pub target: PathBuf,
    /// Treatment of an image that needs journal recovery.
    pub journal: Journal,
    pub range: RangeChoice,
    pub store: StoreAccess,
}

impl ImageTarget {
    /// Opens the file system. Without a window, objects learn theirs.
    pub fn open(&self, window: Option<MaxWindow>) -> Result<Ext4<Image>, Failure> {
        let mut builder = Engine::builder().memory(MEMORY);
        if let Some(window) = window.or(self.url().map(|_| MaxWindow::Auto)) {
            builder = window.give(builder);
        }
        let engine = builder.build().map_err(|error| Failure::WrongUse(error.to_string()))?;
        let file = store::open(&engine, &self.target, &OpenOptions::new(), self.store)?;
        let Range { start, end } = self.image_range(&file)?;
        let image = Image { start, size: end - start, ..Image::whole(&file) };
        Ext4::open(image, self.journal).map_err(|error| Failure::WrongUse(self.says(&error)))
    }

    /// Returns the bytes of the file that are the image, by --offset and --partition.
    pub fn image_range(&self, file: &foreread::File) -> Result<Range<u64>, Failure> {
        self.range.choose(&self.target, &Image::whole(file))
    }

    /// Refuses --offset and --partition where TARGET is not read as an image.
    pub fn refuse_image_range(&self) -> Result<(), Failure> {
        let Some(flag) = self.range.flag() else { return Ok(()) };
        let target = self.target.display();
        Err(Failure::WrongUse(format!("{target}: {flag} is for images, with a <PATH> in them")))
    }

    /// Returns the URL, if TARGET is one.
    pub fn url(&self) -> Option<&str> {
        store::url_of(&self.target)
    }

    /// Formats an error of the image as a whole.
    pub fn says(&self, error: &Error) -> String {
        line(&self.target, None, error)
    }

    /// Formats an error at a path.
    pub fn says_at(&self, path: &[u8], error: &Error) -> String {
        line(&self.target, Some(path), error)
    }
}

fn line(target: &Path, path: Option<&[u8]>, error: &Error) -> String {
    let target = target.display();
    let place = path.map(|path| format!("{}: ", node::text(path))).unwrap_or_default();
    let help = if matches!(error, Error::Journal) {
        format!(
            "; unmount it, or run 'e2fsck -p {target}', or read what is in place with \
             --ignore-journal"
        )
    } else if let Error::WholeDisk(table) = error
        && let Some(first) = table.partitions.first()
    {
        let linux = table.partitions.iter().find(|partition| partition.kind.starts_with("Linux"));
        format!("; run it again with --partition {}", linux.unwrap_or(first).number)
    } else if matches!(error, Error::PartitionTable { .. }) {
        " by --offset".to_owned()
    } else if matches!(error, Error::Corrupt { .. }) {
        format!("; 'e2fsck -fn {target}' says what else is")
    } else {
        String::new()
    };
    format!("{target}: {place}{error}{help}")
}

/// Image read through the engine: metadata without read-ahead, contents with it.
#[derive(Debug)]
pub struct Image {
    /// Offset of the image in the file.
    start: u64,
    size: u64,
    metadata: ReadStream,
    contents: ReadStream,
}

impl Image {
    /// Creates the range of all bytes of a file.
    pub fn whole(file: &foreread::File) -> Self {
        let (metadata, contents) = (file.stream(), file.stream());
        // Inodes and blocks of directories lie anywhere; what is ahead of one is another's.
        metadata.advise(Advice::Random);
        Self { start: 0, size: file.len(), metadata, contents }
    }
}

impl BlockSource for Image {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        whole(&self.metadata, self.start.saturating_add(offset), to)
    }

    fn read_contents(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        whole(&self.contents, self.start.saturating_add(offset), to)
    }
}

fn whole(stream: &ReadStream, offset: u64, to: &mut [u8]) -> io::Result<()> {
    let len = stream.read_at(to, offset).map_err(io::Error::other)?;
    if len == to.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
