//! Directories: their names, in the order in which they lie.
//!
//! In:    a directory's inode; where to go on.
//! Out:   entries; a name's inode.
//! Never: `.` and `..`, which a path knows; the end of a list because one block of it is damaged.
//!
//! A directory is a file of blocks, and every entry lies in one of them, also in one with an index
//! ([`crate::htree`]). So all names can be listed without it, and without the hashes.

use crate::block_run::BlockRun;
use crate::dir_block::{self, RawEntry};
use crate::error::{Error, ImageLocation};
use crate::fields::le32;
use crate::inode::{FileKind, Inode};
use crate::sought_name::SoughtName;
use crate::source::BlockSource;
use crate::{Ext4, features, htree};

/// The longest name.
const NAME_MAX: usize = 255;

/// A name in a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The inode that has it.
    pub inode: u32,
    /// What that is, if the directory says so.
    pub kind: Option<FileKind>,
    /// The name: any bytes but zero and `/`.
    pub name: Vec<u8>,
    /// Where to go on behind it: for [`Ext4::read_dir_from`].
    pub next: u64,
}

impl<S: BlockSource> Ext4<S> {
    /// The names in a directory.
    ///
    /// # Errors
    ///
    /// If it is no directory.
    pub fn read_dir(&self, inode: &Inode) -> Result<ReadDir<'_, S>, Error> {
        self.read_dir_from(inode, 0)
    }

    /// The names in a directory behind the one whose [`DirectoryEntry::next`] is given; all behind
    /// 0.
    ///
    /// # Errors
    ///
    /// If it is no directory.
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

    /// The inode that has a name in a directory, if any has.
    ///
    /// # Errors
    ///
    /// If it is no directory, is encrypted, or the blocks where the name would be are damaged or
    /// cannot be read.
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
                // All names can be found without the index, which alone may be damaged.
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
        // It may have been in the part that is lost.
        damage.map_or(Ok(None), Err)
    }

    /// The directory that a directory is in: what `..` says.
    ///
    /// # Errors
    ///
    /// If it is no directory, is damaged, or cannot be read.
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

    /// A directory's block, which lies in block `at`.
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

/// The names in a directory. Made by [`Ext4::read_dir`].
#[derive(Debug)]
pub struct ReadDir<'f, S> {
    fs: &'f Ext4<S>,
    inode: Inode,
    /// Entries that begin before this are skipped: an earlier call has returned them.
    from: u64,
    /// The block after `part`, and one past the last; of an inline directory, the part.
    next: u64,
    end: u64,
    /// Where the blocks at `next` are, as far as that is known.
    run: BlockRun,
    /// How many blocks and holes were met: there are no more than the file system has blocks.
    met: u64,
    part: DirectoryPart,
}

/// A block, or a part of an inline directory.
#[derive(Debug, Default)]
struct DirectoryPart {
    bytes: Vec<u8>,
    /// Where in the directory it begins.
    start: u64,
    /// How far it was read.
    at: usize,
    number: u64,
}

impl<S> ReadDir<'_, S> {
    /// How many blocks and holes were met so far.
    pub(crate) fn met(&self) -> u64 {
        self.met
    }

    /// Leaves out the rest; the directory's number.
    pub(crate) fn end(&mut self) -> u32 {
        self.next = self.end;
        self.part = DirectoryPart::default();
        self.inode.number
    }
}

impl<S: BlockSource> ReadDir<'_, S> {
    /// Reads the next part, if there is one.
    fn advance(&mut self) -> Result<bool, Error> {
        if self.next >= self.end {
            return Ok(false);
        }
        if self.inode.is_encrypted() {
            // Its names are: what can be read of them is no name.
            self.next = self.end;
            return Err(Error::Encrypted);
        }
        let number = self.next;
        self.next += 1;
        self.part = DirectoryPart::default();
        if self.inode.is_inline() {
            let (head, tail) = self.inode.inline_parts()?;
            // The number of the parent is in front.
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

    /// Where a block of the directory is.
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

    /// After an error come the names of the blocks that are not damaged.
    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
