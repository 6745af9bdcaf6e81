//! Parses the kernel's table of mounts, without calls to file systems, which may not answer.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// An entry of the table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct MountEntry {
    /// The kernel's id of the mount. It does not change when the mount is moved.
    pub(crate) id: u64,
    /// Id of the parent mount.
    pub(crate) parent: u64,
    /// Device number of the file system, the same for all of its mounts.
    pub(crate) device: (u32, u32),
    /// Mount point, as the kernel currently names it.
    pub(crate) point: PathBuf,
    /// Type of the file system.
    pub(crate) kind: String,
}

/// The table, open while a mount exists: unmounting reads it even at the limit of open files.
#[derive(Debug)]
pub(crate) struct MountTable(File);

impl MountTable {
    pub(crate) fn open() -> io::Result<Self> {
        File::open(TABLE).map(Self)
    }

    /// Reads the current table. The kernel generates it anew for each read at offset 0.
    pub(crate) fn read(&self) -> io::Result<Vec<MountEntry>> {
        let mut text = Vec::new();
        let mut block = [0; BLOCK];
        loop {
            match self.0.read_at(&mut block, text.len() as u64) {
                Ok(0) => break,
                Ok(read) => text.extend_from_slice(&block[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(text.split(|&byte| byte == b'\n').filter_map(parse).collect())
    }
}

/// Parses `36 35 0:45 / /mnt ro,nosuid shared:1 - fuse.foreread disk.img ro`.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut text = || fields.next().and_then(|field| std::str::from_utf8(field).ok());
    let (id, parent) = (text()?.parse().ok()?, text()?.parse().ok()?);
    let (major, minor) = text()?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    // The second field is the mounted directory of the file system.
    let point = PathBuf::from(unescaped(fields.nth(1)?));
    let kind = fields.skip_while(|&field| field != b"-").nth(1)?;
    let kind = String::from_utf8_lossy(kind).into_owned();
    Some(MountEntry { id, parent, device, point, kind })
}

/// Decodes a path in which the kernel has written blanks, line feeds and backslashes as octal
/// numbers.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) =
            (*first, tail)
        {
            bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    OsString::from_vec(bytes)
}

const TABLE: &str = "/proc/self/mountinfo";
const BLOCK: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_line_is_parsed_and_its_path_unescaped() {
        let line =
            br"36 35 0:45 / /a\040b\134\011c ro,nosuid shared:1 master:2 - fuse.foreread x ro";
        let entry = parse(line).expect("a mount");
        assert_eq!((entry.id, entry.parent, entry.device), (36, 35, (0, 45)));
        assert_eq!(entry.point, Path::new("/a b\\\tc"));
        assert_eq!(entry.kind, "fuse.foreread");
        for line in ["", "36", "36 35 0 / /a ro - ext4 x ro", "36 35 0:45 / /a ro"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(unescaped(br"/a\9\04"), r"/a\9\04");
    }

    #[test]
    fn the_root_is_in_the_table() {
        let table = MountTable::open().expect("the table");
        // Each read starts over.
        for _ in 0..2 {
            let mounts = table.read().expect("the table");
            assert!(mounts.iter().any(|mount| mount.point == Path::new("/")), "{mounts:?}");
        }
    }
}
