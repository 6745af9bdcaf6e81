//! A B+tree in a file, with the engine as its page cache: a node is a pinned page, without a copy.
//!
//! In:    `cargo run --example btree_pages > tree` writes a tree; `btree_pages tree 17 23` looks up
//!        two keys.
//! Out:   values, and scans, which may move to another thread.
//! Never: a second page cache; a panic on a damaged file.

use std::io::{self, Write as _};

use foreread::{Engine, File, PageRef, ReadError, ReadErrorKind};

const PAGE: usize = 4096;
const HEAD: usize = 16;
/// Entries of a node: a key, and its value or child.
const FANOUT: usize = (PAGE - HEAD) / 16;
/// Depth limit, above that of a tree of 2^64 keys: a deeper file is damaged.
const DEPTH_MAX: usize = 10;

/// A tree of `u64` keys and values, for any number of threads.
#[derive(Clone, Debug)]
pub struct Tree(File);

/// Iterator over the entries from one key on, in order. It owns its pinned page and borrows
/// nothing.
#[derive(Debug)]
pub struct Scan {
    file: File,
    leaf: Option<Node>,
    at: usize,
    last: Option<u64>,
}

/// A page of the file: two bytes of level, two of count, eight of the next leaf; then entries.
#[derive(Debug)]
enum Node {
    Pinned(PageRef),
    /// Copy of a page, used when the pin limit is reached.
    Copied(Vec<u8>),
}

impl Tree {
    /// Opens the tree of a file. The root is the last page.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self(file)
    }

    /// Returns the value of a key. Pins one page at a time, from the root to the leaf.
    pub fn get(&self, key: u64) -> io::Result<Option<u64>> {
        let (leaf, _) = self.leaf_of(key)?;
        Ok(leaf.place_of(key).map(|at| leaf.entry(at).1))
    }

    /// Begins a scan at the first entry whose key is not smaller.
    pub fn scan(&self, from: u64) -> io::Result<Scan> {
        let (leaf, _) = self.leaf_of(from)?;
        let at = leaf.first(|key| key >= from);
        Ok(Scan { file: self.0.clone(), leaf: Some(leaf), at, last: None })
    }

    /// Replaces the value of a key and returns whether the key exists. A scan that has pinned the
    /// page still returns the old value.
    pub fn update(&self, key: u64, value: u64) -> io::Result<bool> {
        let (leaf, page) = self.leaf_of(key)?;
        let Some(at) = leaf.place_of(key) else { return Ok(false) };
        let offset = page * PAGE as u64 + (HEAD + at * 16 + 8) as u64;
        self.0.write_all_at(&value.to_le_bytes(), offset)?;
        Ok(true)
    }

    fn leaf_of(&self, key: u64) -> io::Result<(Node, u64)> {
        let mut page = (self.0.len() / PAGE as u64).checked_sub(1).ok_or_else(damaged)?;
        for _ in 0..DEPTH_MAX {
            let node = Node::load(&self.0, page)?;
            if node.level() == 0 {
                return Ok((node, page));
            }
            page = node.entry(node.first(|first| first > key).saturating_sub(1)).1;
        }
        Err(damaged())
    }
}

impl Iterator for Scan {
    type Item = io::Result<(u64, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let leaf = self.leaf.as_ref()?;
            if self.at < leaf.count() {
                let (key, value) = leaf.entry(self.at);
                if self.last.is_some_and(|last| last >= key) {
                    self.leaf = None;
                    return Some(Err(damaged()));
                }
                (self.at, self.last) = (self.at + 1, Some(key));
                return Some(Ok((key, value)));
            }
            // Page 0 is the first leaf, so no leaf has it as its next: 0 marks the end.
            let next = leaf.next();
            self.leaf = None;
            if next == 0 {
                return None;
            }
            match Node::load(&self.file, next) {
                Ok(leaf) if leaf.level() == 0 => (self.leaf, self.at) = (Some(leaf), 0),
                Ok(_) => return Some(Err(damaged())),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Node {
    fn load(file: &File, page: u64) -> io::Result<Self> {
        let offset = page.checked_mul(PAGE as u64).ok_or_else(damaged)?;
        let node = match file.pin(offset) {
            Ok(page) => Self::Pinned(page),
            Err(ReadError { kind: ReadErrorKind::PinLimit { .. }, .. }) => {
                let mut copy = vec![0; PAGE];
                let len = file.read_at(&mut copy, offset)?;
                copy.truncate(len);
                Self::Copied(copy)
            }
            Err(error) => return Err(error.into()),
        };
        let is_whole = node.bytes().len() == PAGE && node.count() <= FANOUT;
        if is_whole && (node.level() == 0 || node.count() > 0) { Ok(node) } else { Err(damaged()) }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Pinned(page) => page,
            Self::Copied(copy) => copy,
        }
    }

    fn level(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes()[0], self.bytes()[1]]))
    }

    fn count(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes()[2], self.bytes()[3]]))
    }

    fn next(&self) -> u64 {
        self.word(8)
    }

    fn entry(&self, at: usize) -> (u64, u64) {
        (self.word(HEAD + at * 16), self.word(HEAD + at * 16 + 8))
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes()[at..at + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes are as many"))
    }

    /// Returns the index of the first entry for which `is_there` is true, or the count.
    fn first(&self, is_there: impl Fn(u64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            if is_there(self.entry(middle).0) { high = middle } else { low = middle + 1 }
        }
        low
    }

    fn place_of(&self, key: u64) -> Option<usize> {
        let at = self.first(|other| other >= key);
        (at < self.count() && self.entry(at).0 == key).then_some(at)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this is no tree, or it is damaged: build it again")
}

/// Returns the pages of a tree of these entries, which are sorted by key: the leaves from page 0
/// on, then each level above, the root last.
#[must_use]
pub fn build(entries: &[(u64, u64)]) -> Vec<u8> {
    let mut pages = Vec::new();
    let (mut level, mut entries) = (0_u16, entries.to_vec());
    loop {
        let mut above = Vec::new();
        let nodes = entries.len().div_ceil(FANOUT).max(1);
        for index in 0..nodes {
            let part = entries.chunks(FANOUT).nth(index).unwrap_or_default();
            let page = (pages.len() / PAGE) as u64;
            above.push((part.first().map_or(0, |first| first.0), page));
            let is_last_leaf = level > 0 || index + 1 == nodes;
            let next = if is_last_leaf { 0 } else { page + 1 };
            pages.extend_from_slice(&level.to_le_bytes());
            pages.extend_from_slice(&part.len().to_le_bytes()[..2]);
            pages.extend_from_slice(&[0; 4]);
            pages.extend_from_slice(&next.to_le_bytes());
            for word in part.iter().flat_map(|(key, value)| [key, value]) {
                pages.extend_from_slice(&word.to_le_bytes());
            }
            pages.resize(pages.len().next_multiple_of(PAGE), 0);
        }
        if nodes == 1 {
            return pages;
        }
        (level, entries) = (level + 1, above);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        let squares: Vec<_> = (0..1_000_000).map(|key| (key, key * key)).collect();
        return Ok(io::stdout().write_all(&build(&squares))?);
    };
    let tree = Tree::new(Engine::builder().memory(4 << 20).build()?.open(path)?);
    for key in args {
        println!("{key}: {:?}", tree.get(key.parse()?)?);
    }
    Ok(())
}
