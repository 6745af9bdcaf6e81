//! A test device in memory with a volatile cache, whose power can be cut.
//!
//! In:    reads, writes, syncs, from any thread; a power cut.
//! Out:   the contents that a disk could have after losing power at that moment; failing flushes
//!        that drop some of the cache.
//! Never: a torn sector: each has the contents of one of its writes, or its last durable contents.
//!
//! ```text
//!                   write begins      write ends        sync        a write that is durable, ends
//!   a sector's      [a, b]            [a, b]            [b]         [c]
//!   versions         |  newest that   |  newest         |           |
//!   from the last    |  a cut may     |  that is read   |           |
//!   durable one on   |  find          |                 |           |
//! ```

mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use state::{DiskState, Failures, SECTOR, Sector, Version, mix, range_of};

/// A disk in memory, passed to [`OpenOptions::volatile`](crate::OpenOptions::volatile), for engines
/// with [`IoBackend::Threads`](crate::IoBackend::Threads).
#[derive(Debug)]
pub struct VolatileDisk {
    state: Mutex<DiskState>,
    has_written: Condvar,
}

impl VolatileDisk {
    /// Creates a disk with these contents, a whole number of 512-byte sectors.
    ///
    /// # Panics
    ///
    /// If the length is not a multiple of 512.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Arc<Self> {
        assert!(bytes.len().is_multiple_of(SECTOR), "whole sectors");
        Self::of(DiskState::new(bytes, false))
    }

    /// Creates a file with these contents on such a disk, which can grow and shrink. New space at
    /// its end reads as zeros. A new length becomes durable as data does: with a flush, or with a
    /// durable write.
    #[must_use]
    pub fn file(bytes: Vec<u8>) -> Arc<Self> {
        Self::of(DiskState::new(bytes, true))
    }

    fn of(state: DiskState) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), has_written: Condvar::new() })
    }

    /// Returns the contents after a power cut at this moment: for each sector, any version since
    /// the last durable one, and likewise for the length of a file. The disk itself keeps running.
    ///
    /// # Panics
    ///
    /// If a thread panicked during a write.
    #[must_use]
    pub fn cut(&self, seed: u64) -> Vec<u8> {
        let state = self.state();
        let mut bytes = state.durable.clone();
        let mut choices: BTreeMap<usize, Vec<&Sector>> = BTreeMap::new();
        for (&at, versions) in &state.cached {
            choices.entry(at).or_default().extend(versions.iter().map(|version| &version.bytes));
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
        bytes.truncate(state.any_len(seed));
        bytes
    }

    /// Returns the newest contents, as reads see them.
    #[must_use]
    pub fn newest(&self) -> Vec<u8> {
        self.read(0, self.len())
    }

    /// Returns the number of sector writes.
    #[must_use]
    pub fn sectors_written(&self) -> u64 {
        self.state().sectors_written
    }

    /// Returns the number of flush requests.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Makes one flush in `one_in`, chosen by `seed`, fail with EIO from now on; 0 turns failures
    /// off. A FUA write includes a flush. For each cached sector, a failed flush makes some version
    /// durable, and either drops the newer ones or keeps them in the cache.
    pub fn fail_flushes(&self, one_in: u64, seed: u64) {
        let mut state = self.state();
        state.failures = Failures { one_in, seed, failed: state.failures.failed };
    }

    /// Returns the number of failed flushes.
    #[must_use]
    pub fn flushes_failed(&self) -> u64 {
        self.state().failures.failed
    }

    /// Blocks until this many sectors have been written.
    ///
    /// # Panics
    ///
    /// If a thread panicked during a write.
    pub fn wait_written(&self, sectors: u64) {
        let few = |state: &mut DiskState| state.sectors_written < sectors;
        drop(self.has_written.wait_while(self.state(), few).expect(NO_PANIC));
    }

    pub(crate) fn len(&self) -> u64 {
        self.state().len() as u64
    }

    /// Returns true if it is a file.
    pub(crate) fn is_file(&self) -> bool {
        self.state().is_file
    }

    /// Changes the length of a file.
    pub(crate) fn set_len(&self, len: u64) -> Result<(), i32> {
        let mut state = self.state();
        if !state.is_file {
            return Err(libc::EINVAL);
        }
        let len = usize::try_from(len).map_err(|_| libc::EFBIG)?;
        state.set_len(len);
        Ok(())
    }

    /// Returns up to `len` bytes, fewer at the end.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let state = self.state();
        let all = state.len();
        let start = usize::try_from(offset).map_or(all, |start| start.min(all));
        let end = usize::try_from(offset.saturating_add(len)).map_or(all, |end| end.min(all));
        let mut bytes = state.durable[start..end].to_vec();
        for (&at, versions) in state.cached.range(start / SECTOR..end.div_ceil(SECTOR)) {
            let (there, newest) = (
                range_of(at),
                &versions.last().expect("a sector that is cached or begun has a version").bytes,
            );
            let (from, to) = (there.start.max(start), there.end.min(end));
            let part = &newest[from - there.start..to - there.start];
            bytes[from - start..to - start].copy_from_slice(part);
        }
        bytes
    }

    /// Writes whole sectors up to the end of the disk, or bytes up to the end of a file. Returns
    /// the number of bytes written.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<u32, i32> {
        let offset = usize::try_from(offset).expect("offsets of a disk in memory fit it");
        assert!(offset.is_multiple_of(SECTOR), "a device takes whole sectors");
        let (first, mut state) = (offset / SECTOR, self.state());
        let room = state.len().saturating_sub(offset).min(bytes.len());
        let is_whole = room.is_multiple_of(SECTOR);
        assert!(is_whole || state.is_file, "a device takes whole sectors");
        let number = state.next_write;
        state.next_write += 1;
        let sectors = state.sectors_of(first, &bytes[..room]);
        state.begun.insert(number, (first, sectors));
        drop(state);
        // The write is in flight here: a power cut may include any of it.
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
                let version = Version { bytes: sector, is_cut: false };
                state.cached.entry(at).or_default().push(version);
            }
        }
        if has_failed {
            state.drop_some();
        } else if is_durable {
            state.commit_lengths();
        }
        drop(state);
        self.has_written.notify_all();
        if has_failed {
            return Err(libc::EIO);
        }
        Ok(u32::try_from(room).expect("a request's bytes fit in 32 bits"))
    }

    /// Makes all completed writes durable, unless the flush fails.
    pub(crate) fn sync(&self) -> Result<(), i32> {
        let mut state = self.state();
        state.syncs += 1;
        if state.flush_fails() {
            state.drop_some();
            return Err(libc::EIO);
        }
        for (at, versions) in std::mem::take(&mut state.cached) {
            let newest = versions.last().expect("a sector that is cached or begun has a version");
            state.durable[range_of(at)].copy_from_slice(&newest.bytes);
        }
        state.commit_lengths();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().expect(NO_PANIC)
    }
}

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
