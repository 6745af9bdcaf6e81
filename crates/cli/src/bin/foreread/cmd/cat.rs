//! `foreread cat`: prints files of an ext4 image, or an object.
//!
//! Only regular files are printed.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use foreread::{Engine, OpenOptions};
use foreread_ext4::{Error, FileKind};

use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, max_window};
use foreread_cli::image::{ImageArgs, ImageTarget};
use foreread_cli::output::{Failure, Printer};
use foreread_cli::store;

/// Print files of an ext4 image without mounting it, or an object
///
/// Prints the contents of each PATH in turn, read through foreread's cache and read-ahead,
/// bypassing the kernel's. Symbolic links are followed within the image. Holes and unwritten
/// extents read as zeros.
///
/// If TARGET is a URL and no PATH is given, the object itself is printed.
///
/// All paths are looked up before the first byte is printed. If damage is found later, the bytes
/// before it have been printed, and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct CatArgs {
    #[command(flatten)]
    target: ImageArgs,

    /// Paths in the image, from its root
    path: Vec<OsString>,

    /// Largest read-ahead window, or auto: learnt from the device [default: auto if TARGET is a
    /// URL, else 128K]
    #[arg(long, value_name = "SIZE", value_parser = max_window)]
    max_window: Option<MaxWindow>,
}

const EXAMPLES: &str = "\
Examples:
  foreread cat disk.img /etc/os-release
  foreread cat /dev/vdb1 /var/log/messages.1 /var/log/messages | less
  foreread cat disk.img /lib/modules.tar | tar -t
  foreread cat s3://bucket/table.parquet > table.parquet
  foreread cat s3://bucket/table.parquet --max-window 32M > table.parquet

";

/// Bytes per read.
const PIECE: usize = 1 << 20;

pub(crate) fn run(args: &CatArgs, out: &mut Printer) -> Result<(), Failure> {
    let target = args.target.resolve();
    if args.path.is_empty() {
        target.refuse_image_range()?;
        return match target.url() {
            Some(url) => cat_object(&target, url, args.max_window, out),
            None => Err(Failure::WrongUse(format!(
                "{}: give the <PATH> of a file in the image; see 'foreread cat --help'",
                target.target.display()
            ))),
        };
    }
    let fs = target.open(args.max_window)?;
    let says = |path: &OsString, error: &Error| target.says_at(path.as_bytes(), error);
    let mut files = Vec::new();
    for path in &args.path {
        let inode = fs.resolve(path.as_bytes()).and_then(|inode| match inode.kind {
            FileKind::Regular => Ok(inode),
            FileKind::Directory
            | FileKind::Symlink
            | FileKind::CharDevice
            | FileKind::BlockDevice
            | FileKind::Fifo
            | FileKind::Socket => Err(Error::WrongKind { wanted: "a regular file" }),
        });
        let inode = inode.map_err(|error| Failure::WrongUse(says(path, &error)))?;
        files.push((path, inode));
    }
    let mut piece = vec![0; PIECE];
    for (path, inode) in files {
        let mut offset = 0;
        while offset < inode.size {
            let len = fs.read_at(&inode, offset, &mut piece);
            let len = len.map_err(|error| {
                // The bytes before the damage are printed, as promised.
                let _ = out.flush();
                Failure::Check(says(path, &error))
            })?;
            out.write_all(&piece[..len])?;
            offset += len as u64;
        }
    }
    Ok(())
}

/// Prints an object of a store.
fn cat_object(
    target: &ImageTarget,
    url: &str,
    window: Option<MaxWindow>,
    out: &mut Printer,
) -> Result<(), Failure> {
    let window = window.unwrap_or(MaxWindow::Auto);
    let engine = window.give(Engine::builder().memory(OBJECT_MEMORY)).build();
    let engine = engine.map_err(|error| Failure::WrongUse(error.to_string()))?;
    let options = OpenOptions::new();
    let file = store::open(&engine, &target.target, &options, target.store)?;
    let stream = file.stream();
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    while offset < file.len() {
        let read = stream.read_at(&mut piece, offset);
        let len = read.map_err(|error| {
            // The bytes before the error are printed, as promised.
            let _ = out.flush();
            Failure::Check(error.to_string())
        })?;
        if len == 0 {
            return Err(Failure::Check(format!("{url}: ended early")));
        }
        out.write_all(&piece[..len])?;
        offset += len as u64;
    }
    Ok(())
}

/// Cache size for objects: windows are at most an eighth of it, and distant stores need large ones.
const OBJECT_MEMORY: u64 = 256 << 20;
