//! A whole tree as values that can be compared: the kernel's view of it, and ours.
//!
//! In:    a mount point; an image.
//! Out:   for each path all that a program can learn of it.
//! Never: a field that is left out because the two differ in it.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use foreread_ext4::{BlockSource, Ext4, FileKind, Inode, Timestamp};
use rustix::fs::{SeekFrom, major, minor};
use rustix::io::Errno;

/// All that is known of a name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record {
    pub inode: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub links: u64,
    pub sectors: u64,
    pub device: (u32, u32),
    /// Last read, contents changed, inode changed.
    pub times: [(i64, i64); 3],
    pub attributes: BTreeMap<String, Contents>,
    /// Of a link.
    pub target: Vec<u8>,
    /// Of a file: what is in it, if it is not too large, and which parts of it are no holes.
    pub contents: Option<Contents>,
    pub parts: Option<Vec<(u64, u64)>>,
}

/// Bytes that do not fill the screen when they differ.
#[derive(Clone, Eq, PartialEq)]
pub struct Contents(pub Vec<u8>);

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum = self.0.iter().fold(0_u64, |sum, &byte| sum.wrapping_mul(31) + u64::from(byte));
        write!(f, "{} bytes, {sum:016x}", self.0.len())
    }
}

pub type Tree = BTreeMap<Vec<u8>, Record>;

/// Larger files are compared where they are no holes.
const WHOLE_MAX: u64 = 16 << 20;

/// The kernel's view of a mount.
pub fn of_mount(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(path) = ahead.pop() {
        let metadata = fs::symlink_metadata(&path).expect("a name");
        if metadata.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let below = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        tree.insert(below, kernel_record(&path, &metadata));
    }
    tree
}

fn kernel_record(path: &Path, metadata: &Metadata) -> Record {
    let kind = metadata.file_type();
    let file = kind.is_file().then(|| File::open(path).unwrap());
    let parts = file.as_ref().map(|file| kernel_parts(file, metadata.len()));
    Record {
        inode: metadata.ino(),
        mode: metadata.mode(),
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: metadata.size(),
        links: metadata.nlink(),
        sectors: metadata.blocks(),
        device: (major(metadata.rdev()), minor(metadata.rdev())),
        times: [
            (metadata.atime(), metadata.atime_nsec()),
            (metadata.mtime(), metadata.mtime_nsec()),
            (metadata.ctime(), metadata.ctime_nsec()),
        ],
        attributes: kernel_attributes(path),
        target: if kind.is_symlink() {
            fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            Vec::new()
        },
        contents: file.map(|file| {
            let parts = parts.as_deref().expect("of a file");
            contents(metadata.len(), parts, |offset, to| {
                std::os::unix::fs::FileExt::read_exact_at(&file, to, offset).unwrap();
            })
        }),
        parts,
    }
}

fn kernel_parts(file: &File, size: u64) -> Vec<(u64, u64)> {
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => panic!("SEEK_DATA: {error}"),
        };
        at = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap();
        parts.push((start, at));
    }
    parts
}

fn kernel_attributes(path: &Path) -> BTreeMap<String, Contents> {
    let (mut names, mut value) = (vec![0_u8; 1 << 16], vec![0_u8; 1 << 16]);
    let len = rustix::fs::llistxattr(path, &mut names).unwrap();
    let names = names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let len = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
            (name.escape_ascii().to_string(), Contents(value[..len].to_vec()))
        })
        .collect()
}

/// The whole, or of a large file its parts.
fn contents(size: u64, parts: &[(u64, u64)], read: impl Fn(u64, &mut [u8])) -> Contents {
    let whole = [(0, size)];
    let mut bytes = Vec::new();
    for &(start, end) in if size <= WHOLE_MAX { &whole[..] } else { parts } {
        let mut part = vec![0; usize::try_from(end - start).unwrap()];
        read(start, &mut part);
        bytes.extend(part);
    }
    Contents(bytes)
}

/// Our view of an image.
pub fn of_image<S: BlockSource>(fs: &Ext4<S>) -> Tree {
    let root = fs.root().expect("a root");
    let mut tree = Tree::from([(Vec::new(), record(fs, &root))]);
    for met in fs.walk(&root).expect("a directory") {
        let inode = met.inode.unwrap_or_else(|e| panic!("{}: {e}", met.path.escape_ascii()));
        let record = record(fs, &inode);
        assert!(tree.insert(met.path.clone(), record).is_none(), "{}", met.path.escape_ascii());
        let found = fs.resolve_link(&met.path).expect("a name that was met");
        assert_eq!(found.number, inode.number, "{}", met.path.escape_ascii());
        if inode.kind == FileKind::Directory {
            // A directory is met in front of what is in it.
            let above = met.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            let parent = fs.parent(&inode).expect("a parent");
            assert_eq!(u64::from(parent), tree[&met.path[..above]].inode);
        }
    }
    assert_eq!(fs.parent(&root).expect("a parent"), root.number);
    tree
}

fn record<S: BlockSource>(fs: &Ext4<S>, inode: &Inode) -> Record {
    let time = |time: Timestamp| (time.seconds, i64::from(time.nanos));
    let names = fs.attribute_names(inode).expect("attributes");
    let attribute = |name: Vec<u8>| {
        let value = fs.attribute(inode, &name).expect("a value").expect("a name");
        (name.escape_ascii().to_string(), Contents(value))
    };
    let parts = (inode.kind == FileKind::Regular).then(|| parts(fs, inode));
    Record {
        inode: inode.number.into(),
        mode: inode.mode.into(),
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        links: inode.links.into(),
        sectors: inode.sectors,
        device: inode.device.map_or((0, 0), |device| (device.major, device.minor)),
        times: [inode.accessed, inode.modified, inode.changed].map(time),
        attributes: names.into_iter().map(attribute).collect(),
        target: if inode.kind == FileKind::Symlink {
            fs.read_link(inode).expect("a link")
        } else {
            Vec::new()
        },
        contents: parts.as_ref().map(|parts| {
            contents(inode.size, parts, |offset, to| {
                assert_eq!(fs.read_at(inode, offset, to).expect("contents"), to.len());
            })
        }),
        parts,
    }
}

/// What is no hole, merged, in bytes.
fn parts<S: BlockSource>(fs: &Ext4<S>, inode: &Inode) -> Vec<(u64, u64)> {
    if inode.is_inline() {
        return if inode.size > 0 { vec![(0, inode.size)] } else { Vec::new() };
    }
    let block = u64::from(fs.superblock().block_size);
    let mut parts: Vec<(u64, u64)> = Vec::new();
    let mut end = 0;
    for run in fs.layout(inode) {
        let run = run.expect("a run");
        assert_eq!(run.first, end, "a layout without gaps");
        end = run.end();
        let (from, to) = (run.first * block, (end * block).min(inode.size));
        match parts.last_mut() {
            _ if run.at.is_none() => {}
            Some(last) if last.1 == from => last.1 = to,
            _ => parts.push((from, to)),
        }
    }
    parts
}

/// Fails with the first few paths where the two differ.
#[track_caller]
pub fn assert_same(kernel: &Tree, ours: &Tree) {
    let mut differences = Vec::new();
    for path in kernel.keys().chain(ours.keys().filter(|path| !kernel.contains_key(*path))) {
        let (theirs, our) = (kernel.get(path), ours.get(path));
        if theirs != our {
            let path = path.escape_ascii();
            differences.push(format!("/{path}:\n  kernel {theirs:?}\n  ours   {our:?}"));
        }
    }
    differences.truncate(5);
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
    assert!(kernel.len() > 2000, "too few names to say anything");
}
