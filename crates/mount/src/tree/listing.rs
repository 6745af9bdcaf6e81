//! The names in one directory: valid file names, sorted, without duplicates, and found by name or
//! index. Memory use is charged in full.
//!
//! ```text
//!   text    n a m e 1 " e t a g 1 " n a m e 2 ..          name and version of each, joined
//!   slots   |at, lengths, size, time|at, ..|              24 bytes each
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::tree::{TreeFile, TreeName};

/// The names in a directory, during their lifetime.
#[derive(Debug)]
pub(super) struct DirectoryListing {
    text: Box<str>,
    slots: Box<[NameSlot]>,
    pub(super) expires: Instant,
    _charge: MemoryCharge,
}

#[derive(Clone, Copy, Debug)]
struct NameSlot {
    size: u64,
    modified: i64,
    at: u32,
    version_len: u16,
    name_len: u8,
    is_directory: bool,
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub(super) struct MemoryCharge {
    live: Arc<AtomicUsize>,
    bytes: usize,
}

/// A listing under construction.
#[derive(Debug)]
pub(super) struct ListingBuilder {
    text: String,
    slots: Vec<NameSlot>,
    left_out: Vec<String>,
}

/// Result of a search by name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct FoundName<'l> {
    pub(super) name: &'l str,
    pub(super) file: Option<TreeFile>,
}

impl DirectoryListing {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the name at an index; None beyond the last.
    pub(super) fn at(&self, place: usize) -> Option<FoundName<'_>> {
        self.slots.get(place).map(|slot| slot.found(&self.text))
    }

    pub(super) fn find(&self, name: &str) -> Option<FoundName<'_>> {
        let place = self.slots.binary_search_by(|slot| slot.name(&self.text).cmp(name)).ok()?;
        self.at(place)
    }
}

impl NameSlot {
    fn name(self, text: &str) -> &str {
        let at = self.at as usize;
        &text[at..at + usize::from(self.name_len)]
    }

    fn found(self, text: &str) -> FoundName<'_> {
        let name = self.name(text);
        let version_at = self.at as usize + name.len();
        let version = &text[version_at..version_at + usize::from(self.version_len)];
        let Self { size, modified, is_directory, .. } = self;
        let file = (!is_directory).then(|| TreeFile { size, modified, version: version.into() });
        FoundName { name, file }
    }
}

impl MemoryCharge {
    pub(super) fn new(live: Arc<AtomicUsize>) -> Self {
        Self { live, bytes: 0 }
    }

    /// Changes the counted bytes.
    pub(super) fn set(&mut self, bytes: usize) {
        self.live.fetch_add(bytes, Ordering::Relaxed);
        self.live.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl ListingBuilder {
    pub(super) fn new() -> Self {
        Self { text: String::new(), slots: Vec::new(), left_out: Vec::new() }
    }

    /// Adds a name, if it is valid in a file system.
    pub(super) fn add(&mut self, TreeName { name, file }: TreeName) {
        let version = file.as_ref().map_or("", |file| &*file.version);
        let lengths = (u8::try_from(name.len()), u16::try_from(version.len()));
        let what = match lengths {
            _ if matches!(name.as_str(), "" | "." | "..") => "is not a valid file name",
            _ if name.contains(['/', '\0']) => "contains a / or a zero byte",
            (Err(_), _) => "is longer than 255 bytes",
            (_, Err(_)) => "has a version of more than 64 KiB",
            (Ok(name_len), Ok(version_len)) => {
                // Beyond 4 GiB of names the memory limit has long been exceeded.
                let at = u32::try_from(self.text.len()).expect("listings are shorter than 4 GiB");
                let (size, modified) = file.as_ref().map_or((0, 0), |it| (it.size, it.modified));
                self.text.push_str(&name);
                self.text.push_str(version);
                let is_directory = file.is_none();
                let slot = NameSlot { size, modified, at, version_len, name_len, is_directory };
                self.slots.push(slot);
                return;
            }
        };
        self.leave_out(format!("{}: {what}, and is left out", shortened(&name)));
    }

    /// Records a name that cannot be shown.
    pub(super) fn leave_out(&mut self, line: String) {
        if self.left_out.len() < LEFT_OUT_MAX {
            self.left_out.push(line);
        }
    }

    /// Returns the bytes in use.
    pub(super) fn bytes(&self) -> usize {
        self.text.capacity() + self.slots.capacity() * size_of::<NameSlot>()
    }

    /// Returns the listing, and the names left out of it. If a name is both a file and a directory,
    /// the directory wins, because otherwise nothing below it could be reached.
    pub(super) fn finish(
        mut self,
        expires: Instant,
        mut charge: MemoryCharge,
    ) -> (DirectoryListing, Vec<String>) {
        let text = self.text.into_boxed_str();
        self.slots.sort_unstable_by(|a, b| {
            a.name(&text).cmp(b.name(&text)).then(b.is_directory.cmp(&a.is_directory))
        });
        let mut left_out = self.left_out;
        self.slots.dedup_by(|next, first| {
            let is_same = next.name(&text) == first.name(&text);
            let is_hidden = is_same && first.is_directory && !next.is_directory;
            if is_hidden && left_out.len() < LEFT_OUT_MAX {
                let name = shortened(first.name(&text));
                left_out.push(format!("{name}: is also a directory, so the file is left out"));
            }
            is_same
        });
        assert!(self.slots.is_sorted_by(|a, b| a.name(&text) < b.name(&text)), "one of each name");
        let slots = self.slots.into_boxed_slice();
        charge.set(FIXED_BYTES + text.len() + size_of_val(&*slots));
        (DirectoryListing { text, slots, expires, _charge: charge }, left_out)
    }
}

fn shortened(name: &str) -> String {
    let start: String = name.chars().take(40).flat_map(char::escape_default).collect();
    if start.len() < name.len() { format!("{start}..") } else { start }
}

/// Bytes of a listing without its names: the structure, its entry in the cache, and the directory's
/// path.
pub(super) const FIXED_BYTES: usize = 512;

/// Most omitted names that are logged for a directory.
const LEFT_OUT_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn file(name: &str, size: u64) -> TreeName {
        let version = "\"0123456789abcdef0123456789abcdef\"".into();
        TreeName { name: name.to_owned(), file: Some(TreeFile { size, modified: 7, version }) }
    }

    fn directory(name: &str) -> TreeName {
        TreeName { name: name.to_owned(), file: None }
    }

    fn built(names: Vec<TreeName>) -> (DirectoryListing, Vec<String>) {
        let mut builder = ListingBuilder::new();
        names.into_iter().for_each(|name| builder.add(name));
        builder.finish(clock::now(), MemoryCharge::new(Arc::default()))
    }

    #[test]
    fn names_are_sorted_and_found_with_what_was_listed_of_them() {
        let (listing, left_out) = built(vec![file("b", 2), directory("c"), file("a", 1)]);
        let names: Vec<_> = (0..3).filter_map(|at| Some(listing.at(at)?.name)).collect();
        assert_eq!((names, listing.len(), left_out.len()), (vec!["a", "b", "c"], 3, 0));
        assert_eq!(listing.find("b").unwrap().file, file("b", 2).file);
        assert_eq!(listing.find("c").unwrap().file, None);
        assert_eq!((listing.find("d"), listing.at(3)), (None, None));
    }

    #[test]
    fn what_no_file_system_can_name_is_left_out_and_said() {
        let long = "x".repeat(256);
        let odd = ["", ".", "..", "a/b", "a\0b", &long];
        let mut names: Vec<_> = odd.iter().map(|name| file(name, 1)).collect();
        names.extend([file("x", 1), directory("x"), file(&"y".repeat(255), 1)]);
        let (listing, left_out) = built(names);
        assert_eq!((listing.len(), left_out.len()), (2, 7), "{left_out:?}");
        assert_eq!(listing.find("x").unwrap().file, None, "the directory is shown");
    }

    #[test]
    fn an_entry_costs_24_bytes_its_name_and_its_version() {
        let live = Arc::new(AtomicUsize::new(0));
        let mut builder = ListingBuilder::new();
        let count = 10_000;
        for number in 0..count {
            builder.add(file(&format!("{number:020}"), 1));
        }
        let (listing, _) = builder.finish(clock::now(), MemoryCharge::new(Arc::clone(&live)));
        assert_eq!(live.load(Ordering::Relaxed), FIXED_BYTES + count * (24 + 20 + 34));
        drop(listing);
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }
}
