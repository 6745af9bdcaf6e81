//! What each sector of a file ever held, as its readers saw it.
//!
//! In:    writes, as they become visible; what a flush has promised.
//! Out:   whether a sector that was read, or that survived, is one of those that it may be.
//! Never: an opinion on when the device gets it.

use super::disk::SECTOR;

pub(crate) struct History {
    pub(crate) len: usize,
    sectors: Vec<Vec<Version>>,
    /// The oldest version that may be found after a cut.
    floor: Vec<usize>,
}

struct Version {
    since: u64,
    bytes: Vec<u8>,
}

impl History {
    pub(crate) fn new(now: u64, content: &[u8]) -> Self {
        let sectors: Vec<_> = content
            .chunks(SECTOR)
            .map(|bytes| vec![Version { since: now, bytes: bytes.to_vec() }])
            .collect();
        Self { len: content.len(), floor: vec![0; sectors.len()], sectors }
    }

    /// The bytes as they are now.
    pub(crate) fn now(&self, pos: usize, len: usize) -> Vec<u8> {
        let end = (pos + len).min(self.len);
        let touched = pos / SECTOR..end.div_ceil(SECTOR);
        let all = touched.flat_map(|s| self.sectors[s].last().unwrap().bytes.iter().copied());
        all.skip(pos % SECTOR).take(end.saturating_sub(pos)).collect()
    }

    pub(crate) fn write(&mut self, now: u64, pos: usize, data: &[u8]) {
        let first = pos / SECTOR;
        for sector in first..(pos + data.len()).div_ceil(SECTOR) {
            let mut bytes = self.sectors[sector].last().unwrap().bytes.clone();
            for (at, byte) in bytes.iter_mut().enumerate() {
                if let Some(from) = (sector * SECTOR + at).checked_sub(pos)
                    && let Some(new) = data.get(from)
                {
                    *byte = *new;
                }
            }
            self.sectors[sector].push(Version { since: now, bytes });
        }
    }

    /// Whether each sector of `bytes` at `pos` was there at some time since `since`.
    pub(crate) fn was(&self, since: u64, pos: usize, bytes: &[u8]) -> bool {
        let mut at = 0;
        while at < bytes.len() {
            let (sector, skip) = ((pos + at) / SECTOR, (pos + at) % SECTOR);
            let versions = &self.sectors[sector];
            let first = versions.iter().rposition(|version| version.since <= since).unwrap_or(0);
            let part = &bytes[at..bytes.len().min(at + SECTOR - skip)];
            let fits = |version: &Version| version.bytes[skip..].starts_with(part);
            if !versions[first..].iter().any(fits) {
                return false;
            }
            at += part.len();
        }
        true
    }

    /// What a flush that begins now will have promised.
    pub(crate) fn snapshot(&self) -> Vec<usize> {
        self.sectors.iter().map(|versions| versions.len() - 1).collect()
    }

    /// It has.
    pub(crate) fn promise(&mut self, snapshot: &[usize]) {
        for (floor, version) in self.floor.iter_mut().zip(snapshot) {
            *floor = (*floor).max(*version);
        }
    }

    pub(crate) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// Whether `found` is this version of a sector, or a newer one.
    pub(crate) fn is_since(&self, sector: usize, version: usize, found: &[u8]) -> bool {
        self.sectors[sector][version..].iter().any(|it| found.starts_with(&it.bytes))
    }

    /// Whether a sector may be as it was found after a cut.
    pub(crate) fn check(&self, sector: usize, found: &[u8]) -> Result<(), String> {
        let floor = self.floor[sector];
        if self.is_since(sector, floor, found) {
            return Ok(());
        }
        let old = self.sectors[sector].iter().rposition(|it| found.starts_with(&it.bytes));
        Err(match old {
            Some(old) => format!("sector {sector} is version {old}, and {floor} was promised"),
            None => format!("sector {sector} holds what was never written there"),
        })
    }
}
