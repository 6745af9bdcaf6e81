//! Directories: listing names in disk order, and looking up a name.
//!
//! `.` and `..` are not listed. A damaged block loses its own names only.
//!
//! A directory is a file of blocks, and every entry is in one of them, even in a directory with an
//! index ([`crate::htree`]). All names can therefore be listed without the index and without
//! hashes.

use crate::block_run::BlockRun;
use crate::dir_block::{self, RawEntry};
use crate::error::{Error, ImageLocation};
use crate::fields::le32;
use crate::inode::{FileKind, Inode};
use crate::sought_name::SoughtName;
use crate::source::BlockSource;
use crate::{Ext4, features, htree};

/// Longest name.
const NAME_MAX: usize = 255;

/// A name in a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// Number of its inode.
    pub inode: u32,
    /// Kind of the file, if the directory stores it.
    pub kind: Option<FileKind>,
    /// Name: any bytes except zero and `/`.
    pub name: Vec<u8>,
    /// Position after this entry, for [`Ext4::read_dir_from`].
    pub next: u64,
}

impl<S: BlockSource> Ext4<S> {
    /// Lists the names in a directory.
    ///
    /// # Errors
    ///
    /// If it is not a directory.
    pub fn read_dir(&self, inode: &Inode) -> Result<ReadDir<'_, S>, Error> {
        self.read_dir_from(inode, 0)
    }

    /// Lists the names after the entry whose [`DirectoryEntry::next`] is given; all names for 0.
    ///
    /// # Errors
    ///
    /// If it is not a directory.
    pub fn read_dir_from(&self, inode: &Inode, position: u64) -> Result<ReadDir<'_, S>, Error> {
        is_directory(inode)?;
        let block_size = u64::from(self.superblock().block_size);
        let is_inline = inode.is_inline();
        let (next, end) =
            if is_inline { (0, 2) } else { (position / block_size, inode.size / block_size) };
        let run = BlockRun { first: 0, blocks: 0, at: None };
        Ok(ReadDir {
            fs: self,
            inode: inode.clone(),
            from: position,
            next,
            end,
            run,
            met: 0,
            part: DirectoryPart::default(),
        })
    }

    /// Returns the inode of a name in a directory; None if there is no such name.
    ///
    /// # Errors
    ///
    /// If it is not a directory, is encrypted, or the blocks that may contain the name are damaged
    /// or cannot be read.
    pub fn lookup(&self, inode: &Inode, name: &[u8]) -> Result<Option<u32>, Error> {
        is_directory(inode)?;
        if name.is_empty() || name.len() > NAME_MAX || name == b"." || name == b".." {
            return Ok(None);
        }
        inode.can_be_read()?;
        let wanted = SoughtName::new(name, inode.is_casefolded(self.superblock()));
        let has_index = self.superblock().features.compat(features::DIR_INDEX);
        if has_index && inode.is_indexed() && !inode.is_inline() {
            match htree::lookup(self, inode, &wanted) {
                // All names can be found without the index, which may be the only damage.
                Err(Error::Corrupt { .. }) | Ok(htree::IndexLookup::NoIndex) => {}
                Err(other) => return Err(other),
                Ok(htree::IndexLookup::Found(found)) => return Ok(Some(found)),
                Ok(htree::IndexLookup::NotThere) => return Ok(None),
            }
        }
        let mut damage = None;
        for entry in self.read_dir(inode)? {
            match entry {
                Ok(entry) if wanted.is(&entry.name) => return Ok(Some(entry.inode)),
                Ok(_) => {}
                Err(error) => damage = damage.or(Some(error)),
            }
        }
        // The name may have been in the lost part.
        damage.map_or(Ok(None), Err)
    }

    /// Returns the parent of a directory, from its `..` entry.
    ///
    /// # Errors
    ///
    /// If it is not a directory, is damaged, or cannot be read.
    pub fn parent(&self, inode: &Inode) -> Result<u32, Error> {
        is_directory(inode)?;
        let place = ImageLocation::Directory { inode: inode.number, block: 0 };
        let parent = if inode.is_inline() {
            le32(inode.area(), 0)
        } else {
            let run = self.run(inode, 0)?;
            let at = run.at.ok_or_else(|| place.is("is a hole"))?;
            let block = self.directory_block(inode, 0, at)?;
            let entry = |start| {
                RawEntry::parse(self.superblock(), &block, start).map_err(|what| place.is(what))
            };
            let second = entry(entry(0)?.end)?;
            place.has(second.name == b"..", "its second entry is not ..")?;
            second.inode
        };
        place.has((1..=self.superblock().inodes).contains(&parent), "has no parent")?;
        Ok(parent)
    }

    /// Reads a directory's block from block `at` of the device.
    pub(crate) fn directory_block(
        &self,
        inode: &Inode,
        number: u64,
        at: u64,
    ) -> Result<Vec<u8>, Error> {
        let block =
            self.block(at, ImageLocation::Directory { inode: inode.number, block: number })?;
        dir_block::check_sum(self.superblock(), inode, number, &block)?;
        Ok(block)
    }
}

fn is_directory(inode: &Inode) -> Result<(), Error> {
    match inode.kind {
        FileKind::Directory => Ok(()),
        FileKind::Regular
        | FileKind::Symlink
        | FileKind::CharDevice
        | FileKind::BlockDevice
        | FileKind::Fifo
        | FileKind::Socket => Err(Error::NotADirectory),
    }
}

/// Iterator over the names in a directory, created by [`Ext4::read_dir`].
#[derive(Debug)]
pub struct ReadDir<'f, S> {
    fs: &'f Ext4<S>,
    inode: Inode,
    /// Entries that begin before this position are skipped: an earlier call has returned them.
    from: u64,
    /// Block after `part`, and the end; for an inline directory, the part.
    next: u64,
    end: u64,
    /// Location of the blocks at `next`, as far as it is known.
    run: BlockRun,
    /// Number of blocks and holes read: at most the blocks of the file system.
    met: u64,
    part: DirectoryPart,
}

/// A block, or a part of an inline directory.
#[derive(Debug, Default)]
struct DirectoryPart {
    bytes: Vec<u8>,
    /// Start of the part in the directory.
    start: u64,
    /// Offset of the next entry in the part.
    at: usize,
    number: u64,
}

impl<S> ReadDir<'_, S> {
    /// Returns the number of blocks and holes read so far.
    pub(crate) fn met(&self) -> u64 {
        self.met
    }

    /// Skips the rest, and returns the directory's number.
    pub(crate) fn end(&mut self) -> u32 {
        self.next = self.end;
        self.part = DirectoryPart::default();
        self.inode.number
    }
}

impl<S: BlockSource> ReadDir<'_, S> {
    /// Reads the next part; returns false at the end.
    fn advance(&mut self) -> Result<bool, Error> {
        if self.next >= self.end {
            return Ok(false);
        }
        if self.inode.is_encrypted() {
            // The names are encrypted, so no entry is readable.
            self.next = self.end;
            return Err(Error::Encrypted);
        }
        let number = self.next;
        self.next += 1;
        self.part = DirectoryPart::default();
        if self.inode.is_inline() {
            let (head, tail) = self.inode.inline_parts()?;
            // The parent's number comes first.
            let (bytes, start) = match number {
                0 => (head.get(4..).unwrap_or_default(), 4),
                _ => (tail, head.len() as u64),
            };
            self.part = DirectoryPart { bytes: bytes.to_vec(), start, at: 0, number };
            return Ok(true);
        }
        let at = self.place(number).inspect_err(|_| self.next = self.end)?;
        let place = ImageLocation::Directory { inode: self.inode.number, block: number };
        self.met += 1;
        if self.met > self.fs.superblock().blocks {
            self.next = self.end;
            return Err(place.is("has more blocks than the file system"));
        }
        let Some(at) = at else {
            self.next = self.run.end();
            return Err(place.is("is a hole"));
        };
        let bytes = self.fs.directory_block(&self.inode, number, at)?;
        let start = number * bytes.len() as u64;
        self.part = DirectoryPart { bytes, start, at: 0, number };
        Ok(true)
    }

    /// Returns the location of a block of the directory.
    fn place(&mut self, number: u64) -> Result<Option<u64>, Error> {
        if number < self.run.first || number >= self.run.end() {
            self.run = self.fs.run(&self.inode, number)?;
        }
        Ok(self.run.at.map(|at| at + (number - self.run.first)))
    }

    fn step(&mut self) -> Result<Option<DirectoryEntry>, Error> {
        loop {
            while self.part.at < self.part.bytes.len() {
                let part = &mut self.part;
                let place =
                    ImageLocation::Directory { inode: self.inode.number, block: part.number };
                let entry = RawEntry::parse(self.fs.superblock(), &part.bytes, part.at);
                let entry = entry.map_err(|what| {
                    part.at = part.bytes.len();
                    place.is(what)
                })?;
                part.at = entry.end;
                if entry.is_name() && part.start + entry.start as u64 >= self.from {
                    return Ok(Some(DirectoryEntry {
                        inode: entry.inode,
                        kind: entry.kind,
                        name: entry.name.to_vec(),
                        next: part.start + entry.end as u64,
                    }));
                }
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }
}

impl<S: BlockSource> Iterator for ReadDir<'_, S> {
    type Item = Result<DirectoryEntry, Error>;

    /// Returns the next entry. After an error, iteration continues with the undamaged blocks.
    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
