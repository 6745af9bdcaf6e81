//! All contents that each sector of a file ever had, as its readers saw it: determines which of
//! them a read, or a cut, may leave.

use super::disk::SECTOR;

pub(crate) struct History {
    pub(crate) len: usize,
    /// Its lengths, and the times since when.
    lens: Vec<(u64, usize)>,
    /// Lengths that a driver was told to set, and the time when it had done so or failed. A read in
    /// between may end there.
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
    /// Creates the history of a file with this content, of up to `most` bytes.
    pub(crate) fn new(now: u64, content: &[u8], most: usize) -> Self {
        let mut sectors: Vec<_> = content
            .chunks(SECTOR)
            .map(|bytes| vec![Version { since: now, bytes: bytes.to_vec() }])
            .collect();
        // Anything may follow the end of the file.
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

    /// Changes the length; added bytes are zeros.
    pub(crate) fn set_len(&mut self, now: u64, len: usize) {
        for sector in self.len.min(len) / SECTOR..self.len.max(len).div_ceil(SECTOR) {
            let mut bytes = self.sectors[sector].last().unwrap().bytes.clone();
            bytes.resize(len.saturating_sub(sector * SECTOR).min(SECTOR), 0);
            self.sectors[sector].push(Version { since: now, bytes });
        }
        self.len = len;
        self.lens.push((now, len));
    }

    /// Records that a driver is told to set the length.
    pub(crate) fn begin_set_len(&mut self, len: usize) {
        self.told.push((len, None));
    }

    /// Records that the driver has set the length, or failed to.
    pub(crate) fn end_set_len(&mut self, now: u64) {
        let last = self.told.last_mut().expect("a change that ends was told");
        last.1 = Some(now);
    }

    /// Returns the smallest and the largest length since then, including lengths being set.
    pub(crate) fn lens_since(&self, since: u64) -> (usize, usize) {
        let first = self.lens.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        let told = self.told.iter().filter(|(_, done)| done.is_none_or(|at| at >= since));
        let lens = self.lens[first..].iter().map(|(_, len)| *len);
        let lens = lens.chain(told.map(|(len, _)| *len));
        (lens.clone().min().unwrap(), lens.max().unwrap())
    }

    /// Returns true if this is its length, or the previous one.
    pub(crate) fn had_just(&self, len: usize) -> bool {
        self.lens.iter().rev().take(2).any(|(_, it)| *it == len)
    }

    /// Returns the current bytes.
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

    /// Returns true if each sector of `bytes` at `pos` existed at some time since `since`.
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

    /// Returns the versions that a flush which begins now will promise.
    pub(crate) fn snapshot(&self) -> Vec<usize> {
        self.sectors.iter().map(|versions| versions.len() - 1).collect()
    }

    /// Records the success of that flush.
    pub(crate) fn promise(&mut self, snapshot: &[usize]) {
        for (floor, version) in self.floor.iter_mut().zip(snapshot) {
            *floor = (*floor).max(*version);
        }
    }

    pub(crate) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// Returns true if `found` is this version of a sector, or a newer one.
    pub(crate) fn is_since(&self, sector: usize, version: usize, found: &[u8]) -> bool {
        self.sectors[sector][version..].iter().any(|it| found.starts_with(&it.bytes))
    }

    /// Returns an error if a sector must not be found like this after a cut.
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
