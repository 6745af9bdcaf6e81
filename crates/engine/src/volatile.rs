//! A device in memory with a volatile cache, whose power can be cut: a tool for tests.
//!
//! In:    reads, writes, syncs, from any thread; a cut.
//! Out:   what a disk would have after it lost its power at that moment; flushes that fail, and
//!        drop some of what was cached.
//! Never: a sector that is torn: each is as one of the writes to it left it, or as it last was
//!        durable.
//!
//! ```text
//!                   write begins      write ends        sync        a write that is durable, ends
//!   a sector's      [a, b]            [a, b]            [b]         [c]
//!   versions         |  newest that   |  newest         |           |
//!   from the last    |  a cut may     |  that is read   |           |
//!   durable one on   |  find          |                 |           |
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A disk of so many bytes that is only memory: given to
/// [`OpenOptions::volatile`](crate::OpenOptions::volatile), for engines with
/// [`IoBackend::Threads`](crate::IoBackend::Threads).
#[derive(Debug)]
pub struct VolatileDisk {
    state: Mutex<DiskState>,
    has_written: Condvar,
}

#[derive(Debug)]
struct DiskState {
    /// What no cut takes away.
    durable: Vec<u8>,
    /// What came since, by sector: versions in the order in which their writes ended.
    cached: BTreeMap<usize, Vec<Sector>>,
    /// Writes that have begun, by their number.
    begun: BTreeMap<u64, (usize, Vec<Sector>)>,
    next_write: u64,
    sectors_written: u64,
    syncs: u64,
    failures: Failures,
}

/// Which device flushes fail, those in FUA writes included.
#[derive(Debug, Default)]
struct Failures {
    /// One flush in so many; 0 for none.
    one_in: u64,
    seed: u64,
    failed: u64,
}

type Sector = [u8; SECTOR];

impl VolatileDisk {
    /// A disk with these bytes: whole sectors of 512.
    ///
    /// # Panics
    ///
    /// If they are not.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Arc<Self> {
        assert!(bytes.len().is_multiple_of(SECTOR), "whole sectors");
        let state = DiskState {
            durable: bytes,
            cached: BTreeMap::new(),
            begun: BTreeMap::new(),
            next_write: 0,
            sectors_written: 0,
            syncs: 0,
            failures: Failures::default(),
        };
        Arc::new(Self { state: Mutex::new(state), has_written: Condvar::new() })
    }

    /// The bytes after a power cut at this moment: of each sector any version since the last one
    /// that is durable. The disk itself goes on.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it wrote.
    #[must_use]
    pub fn cut(&self, seed: u64) -> Vec<u8> {
        let state = self.state();
        let mut bytes = state.durable.clone();
        let mut choices: BTreeMap<usize, Vec<&Sector>> = BTreeMap::new();
        for (&at, versions) in &state.cached {
            choices.entry(at).or_default().extend(versions);
        }
        for (first, sectors) in state.begun.values() {
            for (at, sector) in (*first..).zip(sectors) {
                choices.entry(at).or_default().push(sector);
            }
        }
        for (at, versions) in choices {
            let word = mix(seed ^ mix(at as u64));
            let choice = usize::try_from(word % (versions.len() as u64 + 1))
                .expect("a draw is below a length in memory");
            if let Some(version) = versions.get(choice) {
                bytes[range_of(at)].copy_from_slice(*version);
            }
        }
        bytes
    }

    /// The newest bytes, as reads see them.
    #[must_use]
    pub fn newest(&self) -> Vec<u8> {
        self.read(0, self.len())
    }

    /// How many sectors were written, each as often as it was.
    #[must_use]
    pub fn sectors_written(&self) -> u64 {
        self.state().sectors_written
    }

    /// How often it was told to make all durable.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// From now on one flush in `one_in` fails with EIO, chosen by `seed`; with 0 none does. A FUA
    /// write contains a flush. Of each sector that is cached, a flush that fails makes some version
    /// durable, and drops the newer ones or keeps them in the cache.
    pub fn fail_flushes(&self, one_in: u64, seed: u64) {
        let mut state = self.state();
        state.failures = Failures { one_in, seed, failed: state.failures.failed };
    }

    /// How many flushes have failed.
    #[must_use]
    pub fn flushes_failed(&self) -> u64 {
        self.state().failures.failed
    }

    /// Waits until so many sectors were written.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it wrote.
    pub fn wait_written(&self, sectors: u64) {
        let few = |state: &mut DiskState| state.sectors_written < sectors;
        drop(self.has_written.wait_while(self.state(), few).expect(NO_PANIC));
    }

    pub(crate) fn len(&self) -> u64 {
        self.state().durable.len() as u64
    }

    /// As many bytes as there are, up to `len`.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let state = self.state();
        let all = state.durable.len();
        let start = usize::try_from(offset).map_or(all, |start| start.min(all));
        let end = usize::try_from(offset.saturating_add(len)).map_or(all, |end| end.min(all));
        let mut bytes = state.durable[start..end].to_vec();
        for (&at, versions) in state.cached.range(start / SECTOR..end.div_ceil(SECTOR)) {
            let (there, newest) = (
                range_of(at),
                versions.last().expect("a sector that is cached or begun has a version"),
            );
            let (from, to) = (there.start.max(start), there.end.min(end));
            let part = &newest[from - there.start..to - there.start];
            bytes[from - start..to - start].copy_from_slice(part);
        }
        bytes
    }

    /// Writes whole sectors, as far as there are any; gives the bytes that were.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<u32, i32> {
        let offset = usize::try_from(offset).expect("offsets of a disk in memory fit it");
        assert!(offset.is_multiple_of(SECTOR), "a device takes whole sectors");
        assert!(bytes.len().is_multiple_of(SECTOR), "a device takes whole sectors");
        let (sectors, _) = bytes.as_chunks::<SECTOR>();
        let (first, mut state) = (offset / SECTOR, self.state());
        let room = (state.durable.len() / SECTOR).saturating_sub(first).min(sectors.len());
        let number = state.next_write;
        state.next_write += 1;
        state.begun.insert(number, (first, sectors[..room].to_vec()));
        drop(state);
        // Here it is on its way: a cut finds any of it.
        std::thread::yield_now();
        let mut state = self.state();
        let (_, sectors) = state.begun.remove(&number).expect("a write that has begun ends once");
        state.sectors_written += sectors.len() as u64;
        let has_failed = is_durable && state.flush_fails();
        for (at, sector) in (first..).zip(sectors) {
            if is_durable && !has_failed {
                state.durable[range_of(at)].copy_from_slice(&sector);
                state.cached.remove(&at);
            } else {
                state.cached.entry(at).or_default().push(sector);
            }
        }
        if has_failed {
            state.drop_some();
        }
        drop(state);
        self.has_written.notify_all();
        if has_failed {
            return Err(libc::EIO);
        }
        Ok(u32::try_from(room * SECTOR).expect("a request's bytes fit in 32 bits"))
    }

    /// All writes that have ended are durable, if it does not fail.
    pub(crate) fn sync(&self) -> Result<(), i32> {
        let mut state = self.state();
        state.syncs += 1;
        if state.flush_fails() {
            state.drop_some();
            return Err(libc::EIO);
        }
        for (at, versions) in std::mem::take(&mut state.cached) {
            let newest = versions.last().expect("a sector that is cached or begun has a version");
            state.durable[range_of(at)].copy_from_slice(newest);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().expect(NO_PANIC)
    }
}

impl DiskState {
    fn flush_fails(&mut self) -> bool {
        let Failures { one_in, seed, failed } = &mut self.failures;
        if *one_in == 0 {
            return false;
        }
        *seed = mix(*seed);
        let fails = *seed % *one_in == 0;
        *failed += u64::from(fails);
        fails
    }

    /// What a failed flush leaves of the cache.
    fn drop_some(&mut self) {
        for (at, mut versions) in std::mem::take(&mut self.cached) {
            let word = mix(self.failures.seed ^ mix(at as u64));
            let survives = usize::try_from(word % (versions.len() as u64 + 1))
                .expect("a draw is below a length in memory");
            let newer = versions.split_off(survives);
            if let Some(survivor) = versions.last() {
                self.durable[range_of(at)].copy_from_slice(survivor);
            }
            if !newer.is_empty() && word >> 32 & 1 == 0 {
                self.cached.insert(at, newer);
            }
        }
    }
}

fn range_of(sector: usize) -> Range<usize> {
    sector * SECTOR..(sector + 1) * SECTOR
}

/// A number that looks random, from one that does not.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a device writes as a whole or not at all.
const SECTOR: usize = 512;

const NO_PANIC: &str = "a test that panicked in here says so itself";

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(device: &VolatileDisk) -> Vec<[u8; 2]> {
        let mut found: Vec<_> = (0..64)
            .map(|seed| device.cut(seed))
            .map(|bytes| {
                assert!(bytes[..512].iter().all(|&byte| byte == bytes[0]), "torn");
                [bytes[0], bytes[512]]
            })
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn a_cut_finds_any_version_of_each_sector_since_the_last_sync() {
        let device = VolatileDisk::new(vec![0; 1024]);
        assert_eq!(device.write(0, &[1; 1024], false), Ok(1024));
        assert_eq!(cuts(&device), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(device.sync(), Ok(()));
        assert_eq!(cuts(&device), [[1, 1]]);
        assert_eq!(device.write(512, &[2; 512], false), Ok(512));
        assert_eq!(device.write(512, &[3; 512], false), Ok(512));
        assert_eq!(cuts(&device), [[1, 1], [1, 2], [1, 3]]);
        assert_eq!(device.newest()[512], 3);
        assert_eq!(device.write(512, &[4; 512], true), Ok(512));
        assert_eq!(cuts(&device), [[1, 4]]);
    }

    #[test]
    fn reads_and_writes_end_where_the_device_does() {
        let device = VolatileDisk::new(vec![7; 1024]);
        assert_eq!(device.write(512, &[1; 1024], false), Ok(512));
        assert_eq!(device.write(2048, &[1; 512], false), Ok(0));
        assert_eq!(device.read(511, 4096), [&[7][..], &[1; 512]].concat());
        assert!(device.read(1024, 1).is_empty());
    }

    #[test]
    fn a_flush_that_fails_drops_some_of_what_was_cached() {
        let device = VolatileDisk::new(vec![0; 64 * 512]);
        device.fail_flushes(1, 7);
        for round in 1..=3 {
            assert_eq!(device.write(0, &[round; 64 * 512], false), Ok(64 * 512));
        }
        assert_eq!(device.write(0, &[4; 512], true), Err(libc::EIO), "a FUA write has a flush");
        assert_eq!(device.flushes_failed(), 1);
        let newest = device.newest();
        let versions = newest.chunks(512).map(|sector| sector[0]);
        let kept = versions.clone().filter(|&version| version == 3).count();
        assert!((1..64).contains(&kept), "{kept} sectors of 64 have their newest version");
        assert!(versions.clone().any(|version| version == 0), "some have lost all");
        device.fail_flushes(0, 0);
        assert_eq!(device.sync(), Ok(()));
        assert_eq!(device.cut(1), newest, "all that was left is durable");
    }
}
