//! `foreread ls`: lists a directory of an ext4 image, or a bucket prefix.
//!
//! Entries with damaged inodes are listed with the error.

#[cfg(feature = "objects")]
mod prefix;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use foreread_ext4::{Error, Ext4, FileKind, Inode};
use serde::Serialize;

use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::image::node::{self, ImageNode};
use foreread_cli::image::{Image, ImageArgs};
use foreread_cli::output::{Failure, Printer};
#[cfg(feature = "objects")]
use foreread_cli::store;

/// List a directory of an ext4 image without mounting it, or a bucket prefix
///
/// Prints one line per name, sorted bytewise, in the format of `ls -lA`: mode, links, owner, group,
/// size, modification time, name. Owners are numeric and times are UTC. If PATH is neither a
/// directory nor a link to one, only its own line is printed. Root is only needed if TARGET is not
/// readable otherwise.
///
/// If TARGET is the URL of a bucket or ends with /, its objects are listed: size, modification
/// time, name. Keys with a further / are shown as one prefix, or each on its own line with -R. Keys
/// that no request can name (a//b) have ? for size and time.
///
/// Checksums are verified. Damaged entries are printed with the error, the others as usual, and the
/// exit code is 1.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct LsArgs {
    #[command(flatten)]
    target: ImageArgs,

    /// Path in the image, from its root
    #[arg(default_value = "/")]
    path: OsString,

    /// List everything below PATH, with paths relative to it
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Print JSON, one data object per name
    ///
    /// Keys: name (\xNN for bytes that are no text, control characters and backslashes), inode,
    /// kind (file, directory, symlink, char-device, block-device, fifo, socket), mode (octal),
    /// links, uid, gid, size, sectors (of 512 bytes), accessed, modified, changed, created, device
    /// (MAJOR:MINOR), target (of a symlink); absent if a file does not have it. Damaged entries
    /// have only name and error. For a bucket: name, kind (object, prefix, unreadable), size,
    /// modified, etag. Existing keys keep their meaning; keys may be added.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread ls disk.img
  foreread ls disk.img /var/log
  foreread ls -R disk.img --json | jq -r '.data[] | select(.size == 0) | .name'
  foreread ls --ignore-journal /dev/vdb1 /etc
  foreread ls s3://bucket/images/
  foreread ls s3://bucket/images/disk.img /etc

";

/// Directory entry with its inode and the target of a symbolic link.
struct ListedEntry {
    name: Vec<u8>,
    found: Result<(Inode, Option<Vec<u8>>), Error>,
}

pub(crate) fn run(args: &LsArgs, out: &mut Printer) -> Result<(), Failure> {
    let target = args.target.resolve();
    #[cfg(feature = "objects")]
    if let Some(url) = target.url().filter(|url| store::is_prefix(url)) {
        if args.path != "/" {
            let (prefix, path) = (url.trim_end_matches('/'), node::text(args.path.as_bytes()));
            let line = format!(
                "{url}: a <PATH> is valid for images only; to list names below it, \
                 give {prefix}/{}/",
                path.trim_matches('/')
            );
            return Err(Failure::WrongUse(line));
        }
        target.refuse_image_range()?;
        let client = target.store.client()?;
        return prefix::list(&client, url, args.recursive, args.json, out);
    }
    let fs = target.open(None)?;
    let path = args.path.as_bytes();
    let wrong = |error: &Error| Failure::WrongUse(target.says_at(path, error));
    let mut lines = match fs.resolve(path) {
        Ok(inode) if inode.kind == FileKind::Directory => {
            listed(&fs, &inode, args.recursive).map_err(|error| wrong(&error))?
        }
        // A link that leads to no directory, or nowhere, is a file as others are.
        Ok(_) | Err(_) => {
            let inode = fs.resolve_link(path).map_err(|error| wrong(&error))?;
            let found = found(&fs, inode).map_err(|error| wrong(&error))?;
            vec![ListedEntry { name: path.to_vec(), found: Ok(found) }]
        }
    };
    lines.sort_by(|a, b| a.name.cmp(&b.name));

    if args.json {
        out.json("ls", lines.iter().map(ListedKind::of))?;
    } else {
        print(&lines, out)?;
    }
    let errors = lines.iter().filter_map(|line| Some((line, line.found.as_ref().err()?)));
    match errors.clone().next() {
        None => Ok(()),
        Some((line, error)) => {
            out.flush()?;
            let first = target.says_at(&line.name, error);
            let count = errors.count();
            let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
            Err(Failure::Check(first + &more))
        }
    }
}

/// Returns an inode with its target, if it is a symbolic link.
fn found(fs: &Ext4<Image>, inode: Inode) -> Result<(Inode, Option<Vec<u8>>), Error> {
    let is_link = inode.kind == FileKind::Symlink;
    match is_link.then(|| fs.read_link(&inode)).transpose() {
        Err(Error::Encrypted) => Ok((inode, None)),
        target => target.map(|target| (inode, target)),
    }
}

fn listed(fs: &Ext4<Image>, inode: &Inode, is_deep: bool) -> Result<Vec<ListedEntry>, Error> {
    let found = |inode| found(fs, inode);
    if is_deep {
        let walk = fs.walk(inode)?;
        return Ok(walk
            .map(|met| ListedEntry { name: met.path, found: met.inode.and_then(found) })
            .collect());
    }
    let lines = fs.read_dir(inode)?.map(|entry| match entry {
        Ok(entry) => ListedEntry { name: entry.name, found: fs.inode(entry.inode).and_then(found) },
        Err(error) => ListedEntry { name: b".".to_vec(), found: Err(error) },
    });
    Ok(lines.collect())
}

/// Columns as wide as their widest cell.
fn print(lines: &[ListedEntry], out: &mut Printer) -> Result<(), Failure> {
    let rows: Vec<_> = lines.iter().map(|line| line.found.as_ref().ok().map(cells)).collect();
    let mut widths = [0; COLUMNS];
    for row in rows.iter().flatten() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    for (line, row) in lines.iter().zip(&rows) {
        match row {
            Some(row) => {
                for (cell, width) in row.iter().zip(widths) {
                    write!(out, "{cell:>width$} ")?;
                }
                write!(out, "{}", node::text(&line.name))?;
            }
            None => write!(out, "?????????? {}", node::text(&line.name))?,
        }
        match &line.found {
            Ok((_, Some(target))) => writeln!(out, " -> {}", node::text(target))?,
            Ok((_, None)) => writeln!(out)?,
            Err(error) => writeln!(out, ": {error}")?,
        }
    }
    Ok(())
}

/// All but the name.
const COLUMNS: usize = 6;

fn cells((inode, _): &(Inode, Option<Vec<u8>>)) -> [String; COLUMNS] {
    let size = inode.device.map_or_else(
        || inode.size.to_string(),
        |device| format!("{}, {}", device.major, device.minor),
    );
    [
        node::mode(inode),
        inode.links.to_string(),
        inode.uid.to_string(),
        inode.gid.to_string(),
        size,
        node::short_time(inode.modified),
    ]
}

#[derive(Serialize)]
#[serde(untagged)]
enum ListedKind {
    Found(Box<ImageNode>),
    Damaged { name: String, error: String },
}

impl ListedKind {
    fn of(line: &ListedEntry) -> Self {
        match &line.found {
            Ok((inode, target)) => {
                Self::Found(Box::new(ImageNode::new(&line.name, inode, target.as_deref())))
            }
            Err(error) => Self::Damaged { name: node::text(&line.name), error: error.to_string() },
        }
    }
}
