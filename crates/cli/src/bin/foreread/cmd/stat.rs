//! `foreread stat`: prints the metadata of a file in an ext4 image, or of an object.

#[cfg(feature = "objects")]
mod object;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use foreread_ext4::{BlockRun, Error, Ext4, FileKind, Inode};
use serde::Serialize;

use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::image::node::{self, ImageNode};
use foreread_cli::image::{Image, ImageArgs};
use foreread_cli::output::{Failure, Printer};

/// Show inode, extended attributes and block map of a file in an ext4 image
///
/// In addition to the fields of stat(1): offset of the inode in the image, flags as in lsattr(1),
/// extended attributes with their values, and the runs of device blocks with the contents; "zeros"
/// is a hole or an unwritten extent. A symbolic link is shown itself unless a / follows it. Times
/// are UTC.
///
/// If TARGET is a URL and no PATH is given, the object itself is shown: size, ETag, modification
/// time.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct StatArgs {
    #[command(flatten)]
    target: ImageArgs,

    /// Paths in the image, from its root
    path: Vec<OsString>,

    /// Print JSON, one data object per path
    ///
    /// The keys of `foreread ls --json`, and: inode_at (byte offset in the image), flags,
    /// generation, block_size, attributes (name, value: \xNN for bytes that are no text), inline
    /// (true if the inode holds the contents), runs (first: block of the file, blocks, at: block of
    /// the device, absent for zeros). For an object: url, size, modified, etag, version.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread stat disk.img /etc/os-release
  foreread stat disk.img / /var/lib/db/table --json | jq '.data[].runs | length'

";

/// Metadata of a file.
#[derive(Serialize)]
struct StatReport {
    #[serde(flatten)]
    node: ImageNode,
    inode_at: u64,
    flags: u32,
    generation: u32,
    block_size: u32,
    attributes: Vec<AttributeReport>,
    inline: bool,
    runs: Vec<BlockRange>,
    #[serde(skip)]
    mode: String,
}

#[derive(Serialize)]
struct AttributeReport {
    name: String,
    value: String,
}

#[derive(Serialize)]
struct BlockRange {
    first: u64,
    blocks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
}

pub(crate) fn run(args: &StatArgs, out: &mut Printer) -> Result<(), Failure> {
    let target = args.target.resolve();
    #[cfg(feature = "objects")]
    if let Some(url) = target.url().filter(|_| args.path.is_empty()) {
        target.refuse_image_range()?;
        return object::print(&target.store.client()?, url, args.json, out);
    }
    if args.path.is_empty() {
        return Err(Failure::WrongUse(format!(
            "{}: give a <PATH> in the image; see 'foreread stat --help'",
            target.target.display()
        )));
    }
    let fs = target.open(None)?;
    let mut shown = Vec::new();
    for path in &args.path {
        let path = path.as_bytes();
        let one = fs.resolve_link(path).and_then(|inode| StatReport::of(&fs, path, &inode));
        shown.push(one.map_err(|error| Failure::WrongUse(target.says_at(path, &error)))?);
    }
    if args.json {
        return out.json("stat", shown);
    }
    for (index, one) in shown.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        one.print(out)?;
    }
    Ok(())
}

impl StatReport {
    fn of(fs: &Ext4<Image>, path: &[u8], inode: &Inode) -> Result<Self, Error> {
        let target = match inode.kind {
            FileKind::Symlink if inode.is_encrypted() => None,
            FileKind::Symlink => Some(fs.read_link(inode)?),
            FileKind::Regular
            | FileKind::Directory
            | FileKind::CharDevice
            | FileKind::BlockDevice
            | FileKind::Fifo
            | FileKind::Socket => None,
        };
        let mut attributes = Vec::new();
        for name in fs.attribute_names(inode)? {
            let value = fs.attribute(inode, &name)?.unwrap_or_default();
            attributes.push(AttributeReport { name: node::text(&name), value: node::text(&value) });
        }
        let block_size = fs.superblock().block_size;
        Ok(Self {
            node: ImageNode::new(path, inode, target.as_deref()),
            inode_at: fs.inode_place(inode.number)?.0,
            flags: inode.flags,
            generation: inode.generation,
            block_size,
            attributes,
            inline: inode.is_inline(),
            runs: runs(fs, inode)?,
            mode: node::mode(inode),
        })
    }

    fn print(&self, out: &mut Printer) -> Result<(), Failure> {
        let node = &self.node;
        let target = node.target.as_ref().map(|target| format!(" -> {target}"));
        writeln!(out, "      file: {}{}", node.name, target.unwrap_or_default())?;
        writeln!(out, "      kind: {}", node.kind)?;
        writeln!(out, "     inode: {} at byte {}", node.inode, self.inode_at)?;
        writeln!(out, "      mode: {} ({})", node.mode, self.mode)?;
        writeln!(out, "     links: {}", node.links)?;
        writeln!(out, "     owner: {}, group {}", node.uid, node.gid)?;
        if let Some(device) = &node.device {
            writeln!(out, "    device: {device}")?;
        }
        writeln!(out, "      size: {} bytes, {} sectors", node.size, node.sectors)?;
        writeln!(out, "  accessed: {}", node.accessed)?;
        writeln!(out, "  modified: {}", node.modified)?;
        writeln!(out, "   changed: {}", node.changed)?;
        if let Some(created) = &node.created {
            writeln!(out, "   created: {created}")?;
        }
        writeln!(out, "     flags: {:#x}, generation {}", self.flags, self.generation)?;
        for AttributeReport { name, value } in &self.attributes {
            writeln!(out, " attribute: {name} = {value}")?;
        }
        if self.inline {
            writeln!(out, "    blocks: none, the contents are in the inode")?;
        }
        for BlockRange { first, blocks, at } in &self.runs {
            let end = first + blocks;
            match at {
                Some(at) => writeln!(out, "    blocks: {first}..{end} at {at}..{}", at + blocks)?,
                None => writeln!(out, "    blocks: {first}..{end} zeros")?,
            }
        }
        Ok(())
    }
}

/// Returns the block map of a file; empty for files without blocks.
fn runs(fs: &Ext4<Image>, inode: &Inode) -> Result<Vec<BlockRange>, Error> {
    let blocks = |BlockRun { first, blocks, at }| BlockRange { first, blocks, at };
    fs.layout(inode).map(|run| run.map(blocks)).collect()
}
