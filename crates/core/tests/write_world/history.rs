//! What each sector of a file ever held, as its readers saw it.
//!
//! In:    writes, as they become visible; what a flush has promised.
//! Out:   whether a sector that was read, or that survived, is one of those that it may be.
//! Never: an opinion on when the device gets it.

use super::disk::SECTOR;

pub(crate) struct History {
    pub(crate) len: usize,
    /// How long it was, and since when.
    lens: Vec<(u64, usize)>,
    /// Lengths that a driver was told to set, and when it had done so, or had failed to. A read
    /// meanwhile may end there.
    told: Vec<(usize, Option<u64>)>,
    sectors: Vec<Vec<Version>>,
    /// The oldest version that may be found after a cut.
    floor: Vec<usize>,
}

struct Version {
    since: u64,
    bytes: Vec<u8>,
}

impl History {
    /// Of a file with this content, which may have up to `most` bytes.
    pub(crate) fn new(now: u64, content: &[u8], most: usize) -> Self {
        let mut sectors: Vec<_> = content
            .chunks(SECTOR)
            .map(|bytes| vec![Version { since: now, bytes: bytes.to_vec() }])
            .collect();
        // What lies behind the end may hold anything.
        let behind = || vec![Version { since: now, bytes: Vec::new() }];
        sectors.resize_with(most.div_ceil(SECTOR), behind);
        let len = content.len();
        Self {
            len,
            lens: vec![(now, len)],
            told: Vec::new(),
            floor: vec![0; sectors.len()],
            sectors,
        }
    }

    /// The file has another length: what it gets are zeros.
    pub(crate) fn set_len(&mut self, now: u64, len: usize) {
        for sector in self.len.min(len) / SECTOR..self.len.max(len).div_ceil(SECTOR) {
            let mut bytes = self.sectors[sector].last().unwrap().bytes.clone();
            bytes.resize(len.saturating_sub(sector * SECTOR).min(SECTOR), 0);
            self.sectors[sector].push(Version { since: now, bytes });
        }
        self.len = len;
        self.lens.push((now, len));
    }

    /// A driver is told to set the length.
    pub(crate) fn begin_set_len(&mut self, len: usize) {
        self.told.push((len, None));
    }

    /// The driver has set the length, or has failed to.
    pub(crate) fn end_set_len(&mut self, now: u64) {
        let last = self.told.last_mut().expect("a change that ends was told");
        last.1 = Some(now);
    }

    /// The least and the most that it was long since then, and was about to be.
    pub(crate) fn lens_since(&self, since: u64) -> (usize, usize) {
        let first = self.lens.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        let told = self.told.iter().filter(|(_, done)| done.is_none_or(|at| at >= since));
        let lens = self.lens[first..].iter().map(|(_, len)| *len);
        let lens = lens.chain(told.map(|(len, _)| *len));
        (lens.clone().min().unwrap(), lens.max().unwrap())
    }

    /// Whether this is its length, or the one before.
    pub(crate) fn had_just(&self, len: usize) -> bool {
        self.lens.iter().rev().take(2).any(|(_, it)| *it == len)
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
            let fits = |version: &Version| {
                version.bytes.get(skip..).is_some_and(|bytes| bytes.starts_with(part))
            };
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
