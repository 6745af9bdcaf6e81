//! Finds the stored parts of a file, and the largest file of a folder. Holes and unwritten extents
//! are excluded, because reading them does not reach the device.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use foreread_core::units::PAGE_SIZE;
use foreread_files::regular;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::LEAST;
use crate::errno_text::errno_text;
use crate::pages::HugePageBuffer;

/// Returns the stored parts of a file, in whole pages.
pub(super) fn stored(file: &File, len: u64) -> Vec<Range<u64>> {
    let len = len / PAGE_SIZE * PAGE_SIZE;
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < len && parts.len() < PARTS_MAX {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            // The file system does not reveal its holes.
            Err(_) => return std::iter::once(0..len).collect(),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(len).min(len);
        let part = start.next_multiple_of(PAGE_SIZE)..end / PAGE_SIZE * PAGE_SIZE;
        if part.start < part.end {
            parts.push(part);
        }
        at = end.max(start + PAGE_SIZE);
    }
    parts
}

/// Returns the reason why a page of it cannot be read with `O_DIRECT`, if it cannot.
pub(super) fn not_direct(path: &Path, opened: &File, offset: u64) -> Option<String> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open's flags are a C int");
    let is_same = |direct: &File| {
        let (a, b) = (direct.metadata().ok()?, opened.metadata().ok()?);
        Some((a.dev(), a.ino()) == (b.dev(), b.ino()))
    };
    let read = File::options().read(true).custom_flags(flags).open(path).and_then(|direct| {
        let mut page = HugePageBuffer::new(PAGE_SIZE)?;
        direct.read_at(page.bytes(), offset)?;
        Ok(is_same(&direct))
    });
    match read {
        Ok(Some(true)) => None,
        Ok(_) => Some("it was replaced meanwhile".to_owned()),
        Err(error) => Some(format!("no O_DIRECT there: {}", errno_text(&error))),
    }
}

/// Returns the largest readable and stored file below a folder, on the same file system.
pub(super) fn largest_in(folder: &Path) -> Option<PathBuf> {
    let device = fs::metadata(folder).ok()?.dev();
    let mut folders = VecDeque::from([folder.to_owned()]);
    let mut largest: Vec<(u64, PathBuf)> = Vec::new();
    let mut looks = 0;
    while let Some(folder) = folders.pop_front() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looks += 1;
            // The entry's own metadata: links are not followed.
            let Ok(about) = entry.metadata() else { continue };
            if looks > LOOKS_MAX || about.dev() != device {
                continue;
            }
            if about.is_dir() {
                folders.push_back(entry.path());
            } else if about.is_file() && about.blocks() * 512 >= LEAST.0 {
                largest.push((about.size().min(about.blocks() * 512), entry.path()));
                if largest.len() > 2 * CANDIDATES {
                    keep_largest(&mut largest);
                }
            }
        }
        if looks > LOOKS_MAX {
            break;
        }
    }
    keep_largest(&mut largest);
    largest.into_iter().map(|(_, path)| path).find(|path| {
        // A user may have replaced it by a pipe since the listing.
        regular::open(path).is_ok_and(|file| {
            let len = file.metadata().map_or(0, |about| about.size());
            let stored: u64 = stored(&file, len).iter().map(|part| part.end - part.start).sum();
            stored >= LEAST.0
        })
    })
}

fn keep_largest(files: &mut Vec<(u64, PathBuf)>) {
    files.sort_by(|a, b| b.cmp(a));
    files.truncate(CANDIDATES);
}

/// A folder like / has millions; the files seen in one second include a large one.
const LOOKS_MAX: u32 = 50_000;

/// Number of candidate files, since some are unreadable, or preallocated but not stored.
const CANDIDATES: usize = 32;

/// Largest number of parts used of a fragmented file.
const PARTS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_not_stored() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(10 << 20).expect("holes");
        assert_eq!(stored(&file, 10 << 20), []);
        file.write_all_at(&vec![1; 2 << 20], 4 << 20).expect("it is written");
        let parts = stored(&file, 10 << 20);
        assert_eq!((parts.len(), parts[0].clone()), (1, 4 << 20..6 << 20));
    }

    #[test]
    fn the_largest_that_is_stored_is_found_and_no_link_is_followed() {
        let root = tempfile::tempdir().expect("a folder");
        let deep = root.path().join("a/b");
        fs::create_dir_all(&deep).expect("it is made");
        fs::write(root.path().join("small"), vec![1; 2 << 20]).expect("it is written");
        fs::write(deep.join("large"), vec![1; 3 << 20]).expect("it is written");
        fs::write(root.path().join("tiny"), [1; 5000]).expect("it is written");
        File::create(deep.join("holes")).expect("a file").set_len(1 << 30).expect("holes");
        std::os::unix::fs::symlink("/", deep.join("link")).expect("a link");
        assert_eq!(largest_in(root.path()), Some(deep.join("large")));
    }
}
