//! Parses one line of `/proc/self/mountinfo`, with its paths unescaped.

use std::path::Path;

/// A mounted file system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MountEntry {
    /// Ids of the mount and of its parent mount.
    pub id: (u32, u32),
    /// Device number; major 0 if there is no single block device (btrfs, nfs).
    pub number: (u32, u32),
    /// Mount point.
    pub point: String,
    /// File system type: `ext4`, `xfs`, ..
    pub kind: String,
    /// Mounted source: `/dev/sda2`.
    pub source: String,
    /// Options of the mount and of the file system, separated by commas.
    pub options: String,
}

impl MountEntry {
    /// Parses `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: six
    /// fields, then optional ones up to a lone hyphen.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<_> = before.split(' ').collect();
        let mut after = after.split(' ');
        let (major, minor) = before.get(2)?.split_once(':')?;
        let (kind, source) = (after.next()?.to_owned(), unescaped(after.next()?));
        let mut options = unescaped(before.get(5)?);
        if let Some(more) = after.next() {
            options = format!("{options},{}", unescaped(more));
        }
        Some(Self {
            id: (before.first()?.parse().ok()?, before.get(1)?.parse().ok()?),
            number: (major.parse().ok()?, minor.parse().ok()?),
            point: unescaped(before.get(4)?),
            kind,
            source,
            options,
        })
    }

    /// Returns the value of an option: for `rsize` in `rw,rsize=1048576` it is `1048576`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut pairs = self.options.split(',').filter_map(|option| option.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns the number in an option.
    #[must_use]
    pub fn number_of(&self, option: &str) -> Option<u64> {
        self.option(option)?.parse().ok()
    }

    /// Returns the mount that contains a path: the deepest one, and the last of those at the same
    /// point.
    #[must_use]
    pub fn around(mounts: &[Self], path: impl AsRef<Path>) -> Option<&Self> {
        // Mount points are stored with invalid UTF-8 replaced, so the path is, too.
        let path = path.as_ref().to_string_lossy();
        // Compare bytes first: a machine with ten thousand mounts calls this for each layer of
        // each.
        let may_be = mounts.iter().filter(|mount| path.starts_with(&mount.point));
        let above = may_be.filter(|mount| Path::new(&*path).starts_with(&mount.point));
        above.max_by_key(|mount| mount.point.len())
    }
}

/// Unescapes blank, tab, newline and backslash, which the kernel writes as `\040` and so on.
fn unescaped(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        let code = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, code) {
            (b'\\', Some(code)) => {
                plain.push(code);
                rest = &tail[3..];
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_line_of_the_kernel() {
        let line = "36 35 98:3 /mnt1 /my\\040disk rw,noatime master:1 - ext4 /dev/sda3 rw";
        let mount = MountEntry::parse(line).expect("it is one");
        assert_eq!(mount.number, (98, 3));
        assert_eq!(mount.point, "/my disk");
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext4", "/dev/sda3"));
        assert_eq!(mount.options, "rw,noatime,rw");
        assert_eq!(MountEntry::parse("nonsense"), None);
    }

    #[test]
    fn an_option_has_its_value() {
        let line = "40 1 0:52 / /mnt rw,relatime - nfs4 srv:/a rw,vers=4.2,rsize=1048576,hard";
        let mount = MountEntry::parse(line).expect("it is one");
        assert_eq!(mount.number_of("rsize"), Some(1_048_576));
        assert_eq!(mount.option("vers"), Some("4.2"));
        assert_eq!((mount.option("hard"), mount.option("size")), (None, None));
    }

    #[test]
    fn the_nearest_mount_is_the_one() {
        let mount = |point: &str, minor| MountEntry {
            id: (minor, 0),
            number: (8, minor),
            point: point.into(),
            kind: "ext4".into(),
            source: "x".into(),
            options: "rw".into(),
        };
        let mounts = [mount("/", 1), mount("/srv", 2), mount("/srv2", 3), mount("/srv", 4)];
        assert_eq!(
            MountEntry::around(&mounts, "/srv/a.img").map(|mount| mount.number),
            Some((8, 4))
        );
        assert_eq!(MountEntry::around(&mounts, "/home").map(|mount| mount.number), Some((8, 1)));
        assert_eq!(MountEntry::around(&[], "/home"), None);
        let odd = [mount("/", 1), mount("/a\u{fffd}", 2)];
        let bytes = std::ffi::OsStr::from_bytes(b"/a\xff/b");
        assert_eq!(MountEntry::around(&odd, bytes).map(|mount| mount.number), Some((8, 2)));
    }
}
