//! Checks paths that only root may be able to change: programs that root runs, records that root
//! trusts.
//!
//! It finds the first file or directory on the way that another user can replace. A link is
//! followed only after its directory was checked, and every component of its target is checked as
//! well.
//!
//! ```text
//!   /home/me/bin/foreread     /home belongs to root, /home/me to me: I can replace bin
//!   /opt/link -> /srv/x       root's; then each directory of /srv/x is checked as well
//!   /tmp/root-dir/foreread    /tmp is cleaned at the next boot, and then any user can make it
//! ```
//!
//! Group and other write bits cover POSIX ACLs as well: the group bits are the ACL's mask.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, StatVfsMountFlags, readlinkat, statat, statfs, statvfs,
};
use rustix::process::geteuid;

/// Intended use of a file, which determines how long it must stay unchanged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrustedUse {
    /// Root runs it, now and after each boot: no directory may be writable by others, even if it is
    /// sticky, and no file system may be mounted `nosuid`.
    Program,
    /// Root reads or writes it now: in a sticky directory it is as safe as its owner.
    State,
}

/// A file or directory that a user other than root can replace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Replaceable {
    /// Path of the file or directory.
    pub path: PathBuf,
    /// Reason, such as "belongs to user 1000".
    pub why: String,
}

impl fmt::Display for Replaceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.why)
    }
}

/// Returns the first component at which a user other than root could replace `path` with another
/// file; None if there is none.
///
/// # Errors
///
/// If the path is not absolute, is missing, or cannot be examined.
pub fn replaceable(path: &Path, used: TrustedUse) -> io::Result<Option<Replaceable>> {
    Walk { top: PathBuf::from("/"), owner: 0, used }.first_replaceable(path)
}

/// Returns the program of this name that root may run, skipping directories in `PATH` that others
/// can write to. For other users it returns the name itself: they run what they choose.
///
/// # Errors
///
/// If no directory has one.
pub fn helper_program(name: &str) -> io::Result<PathBuf> {
    if !geteuid().is_root() {
        return Ok(PathBuf::from(name));
    }
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&search).collect();
    directories.extend(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from));
    let mut skipped = None;
    let paths = directories.iter().map(|directory| directory.join(name));
    for path in paths.filter(|path| path.exists()) {
        match replaceable(&path, TrustedUse::Program) {
            Ok(None) => return Ok(path),
            Ok(Some(by_others)) => skipped = skipped.or(Some(by_others)),
            Err(_) => {}
        }
    }
    Err(match skipped {
        Some(by_others) => io::Error::other(format!("refusing to run {name} as root: {by_others}")),
        None => io::Error::new(io::ErrorKind::NotFound, format!("there is no {name} in PATH")),
    })
}

/// As root, refuses a path in a system directory that another user can write to. Nothing is checked
/// for other users, nor below other directories, which users choose themselves.
pub(crate) fn check_state(path: &Path) -> Result<(), crate::FileError> {
    let is_systems = ["/etc", "/var/lib", "/run"].iter().any(|top| path.starts_with(top));
    if !is_systems || !geteuid().is_root() {
        return Ok(());
    }
    let found = replaceable(path, TrustedUse::State);
    let found = found.map_err(|source| crate::FileError::System {
        path: path.to_owned(),
        doing: "check who can write to it",
        source,
    })?;
    found.map_or(Ok(()), |by_others| {
        Err(crate::FileError::NotOurs {
            path: path.to_owned(),
            what: format!("is not used by root: {by_others}"),
            advice: "remove it, or restrict it to root: chown root:root, chmod go-w",
        })
    })
}

/// A walk from a trusted directory down to a file.
struct Walk {
    top: PathBuf,
    /// User that may own components in addition to root, because tests do not always run as root.
    owner: u32,
    used: TrustedUse,
}

impl Walk {
    fn first_replaceable(&self, path: &Path) -> io::Result<Option<Replaceable>> {
        let below = path
            .strip_prefix(&self.top)
            .map_err(|_| io::Error::other(format!("{} is not an absolute path", path.display())))?;
        let mut here = self.top.clone();
        if let Some(found) = self.look(&here)?.1 {
            return Ok(Some(found));
        }
        // The next name is the last of this list.
        let mut ahead = reversed(below);
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            if name == OsStr::new("..") {
                if here != self.top {
                    here.pop();
                }
                continue;
            }
            here.push(&name);
            let (kind, found) = self.look(&here)?;
            if kind != FileType::Symlink {
                if found.is_some() {
                    return Ok(found);
                }
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(io::Error::other(format!("{}: too many links", path.display())));
            }
            let target = readlinkat(CWD, &here, Vec::new())?;
            let target = Path::new(OsStr::from_bytes(target.as_bytes()));
            if let Ok(below) = target.strip_prefix(&self.top) {
                here.clone_from(&self.top);
                ahead.extend(reversed(below));
            } else {
                here.pop();
                ahead.extend(reversed(target));
            }
        }
        let found = is_on_untrusted_file_system(&here, self.used)?;
        Ok(found.map(|why| Replaceable { path: here, why }))
    }

    /// Returns the type of the file at this path, and the reason why another user can replace it or
    /// its contents.
    fn look(&self, path: &Path) -> io::Result<(FileType, Option<Replaceable>)> {
        let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let why = writable_by(Owned { mode: stat.st_mode, uid: stat.st_uid, kind }, self);
        // A user's process supplies everything on this file system.
        let why = match why {
            None if kind == FileType::Directory => {
                is_on_untrusted_file_system(path, TrustedUse::State)?
            }
            why => why,
        };
        Ok((kind, why.map(|why| Replaceable { path: path.to_owned(), why })))
    }
}

/// The fields of a stat that determine write access.
#[derive(Clone, Copy)]
struct Owned {
    mode: u32,
    uid: u32,
    kind: FileType,
}

/// Returns the reason why an untrusted user can write to it. A link cannot be written to; its
/// directory determines who can replace it.
fn writable_by(found: Owned, walk: &Walk) -> Option<String> {
    if found.kind == FileType::Symlink {
        return None;
    }
    if found.uid != 0 && found.uid != walk.owner {
        return Some(format!("belongs to user {}", found.uid));
    }
    let mode = Mode::from_raw_mode(found.mode);
    let is_sticky = found.kind == FileType::Directory && mode.contains(Mode::SVTX);
    if is_sticky && walk.used == TrustedUse::State {
        return None;
    }
    if mode.contains(Mode::WOTH) {
        return Some("can be written to by all users".to_owned());
    }
    let is_groups = mode.contains(Mode::WGRP);
    is_groups.then(|| "can be written to by a group, or by users of its ACL".to_owned())
}

/// Returns the reason why a user other than root may control the contents of the file system at a
/// path. Mounts made by users, including FUSE, are `nosuid`.
fn is_on_untrusted_file_system(path: &Path, used: TrustedUse) -> io::Result<Option<String>> {
    let is_nosuid = statvfs(path)?.f_flag.contains(StatVfsMountFlags::NOSUID);
    if !is_nosuid {
        return Ok(None);
    }
    if statfs(path)?.f_type == FUSE_MAGIC {
        return Ok(Some("is on a file system that a user's process serves".to_owned()));
    }
    let is_program = used == TrustedUse::Program;
    Ok(is_program.then(|| "is on a file system that is mounted nosuid".to_owned()))
}

/// Returns the names of a path in reverse order.
fn reversed(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// The kernel's limit.
const LINKS_MAX: usize = 40;

/// FUSE's type number in `statfs`.
const FUSE_MAGIC: rustix::fs::FsWord = 0x6573_5546;

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    /// `sudo ~/.cargo/bin/foreread tune MOUNT --remember` wrote a rule that root runs at each
    /// mount, with a program that its user could replace.
    #[test]
    fn a_place_that_others_can_write_to_is_named() {
        let root = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(root.path()).expect("it is there");
        let at = |name: &str| top.join(name);
        for directory in ["safe/bin", "open/bin", "group/bin", "sticky/bin"] {
            fs::create_dir_all(at(directory)).unwrap();
            fs::set_permissions(at(directory), Permissions::from_mode(0o755)).unwrap();
            fs::write(at(directory).join("program"), "").unwrap();
            fs::set_permissions(at(directory).join("program"), Permissions::from_mode(0o755))
                .unwrap();
        }
        for (directory, mode) in
            [("safe", 0o755), ("open", 0o757), ("group", 0o775), ("sticky", 0o1777)]
        {
            fs::set_permissions(at(directory), Permissions::from_mode(mode)).unwrap();
        }
        symlink("../open/bin", at("safe/link")).unwrap();
        symlink(at("safe/bin"), at("safe/absolute")).unwrap();
        symlink("circle", at("safe/circle")).unwrap();
        let owner = fs::metadata(&top).unwrap().uid();
        let by = |used, path: &str| {
            let walk = Walk { top: top.clone(), owner, used };
            let found = walk.first_replaceable(&at(path)).expect("it is there");
            found.map(|found| found.path.strip_prefix(&top).unwrap().to_owned())
        };
        let program = |path| by(TrustedUse::Program, path);
        let is = |path: &str| Some(PathBuf::from(path));
        assert_eq!(by(TrustedUse::State, "safe/bin/program"), None);
        assert_eq!(program("open/bin/program"), is("open"));
        assert_eq!(program("group/bin/program"), is("group"));
        assert_eq!(program("sticky/bin/program"), is("sticky"));
        assert_eq!(by(TrustedUse::State, "sticky/bin/program"), None);
        assert_eq!(by(TrustedUse::State, "safe/absolute/program"), None);
        assert_eq!(program("safe/link/program"), is("open"), "behind a link");
        assert_eq!(program("safe/bin/../../group/bin/program"), is("group"));
        fs::set_permissions(at("safe/bin/program"), Permissions::from_mode(0o775)).unwrap();
        assert_eq!(program("safe/bin/program"), is("safe/bin/program"), "the file itself");
        let walk = Walk { top: top.clone(), owner, used: TrustedUse::Program };
        walk.first_replaceable(&at("safe/circle")).expect_err("it has no end");
        walk.first_replaceable(&at("safe/missing")).expect_err("it is not there");
        walk.first_replaceable(Path::new("safe")).expect_err("it is relative");
    }

    #[test]
    fn another_owner_can_write_whatever_the_mode() {
        let walk = Walk { top: "/".into(), owner: 0, used: TrustedUse::State };
        let found = |mode, uid, kind| writable_by(Owned { mode, uid, kind }, &walk);
        let why = found(0o555, 1000, FileType::Directory).expect("its owner can chmod");
        assert_eq!(why, "belongs to user 1000");
        assert_eq!(found(0o1777, 1000, FileType::Directory), Some(why));
        assert_eq!(found(0o777, 1000, FileType::Symlink), None);
        assert_eq!(found(0o1755, 0, FileType::RegularFile), None);
        assert!(found(0o1777, 0, FileType::RegularFile).is_some(), "sticky files are nothing");
    }
}
