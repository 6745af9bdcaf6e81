//! Probe for the memory that one more connection may need, run only when the answer can change.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memmap2::MmapMut;
use rustix::process::{Resource, getrlimit};

/// Checks whether the system would still map memory to this process.
///
/// A probe maps and unmaps, which takes the lock of the address space that all threads share.
/// Without a limit (`ulimit -v`, `ulimit -d`, strict overcommit), only the number of mappings and
/// the size of the machine can make it fail, so one probe covers [`PER_PROBE`] connections.
#[derive(Debug)]
pub(crate) struct MapProbe {
    /// Open `/proc/sys/vm/overcommit_memory`; None where `/proc` is not mounted.
    overcommit: Option<File>,
    has_failed: AtomicBool,
    /// Connections since the last probe.
    unprobed: AtomicUsize,
}

impl MapProbe {
    pub(crate) fn new() -> Self {
        let overcommit = File::open("/proc/sys/vm/overcommit_memory").ok();
        Self { overcommit, has_failed: AtomicBool::new(false), unprobed: AtomicUsize::new(0) }
    }

    /// Returns true if the system would map `len` bytes. Nothing stays mapped.
    pub(crate) fn could_map(&self, len: usize) -> bool {
        self.could_map_by(self.is_limited(), || MmapMut::map_anon(len).is_ok())
    }

    fn could_map_by(&self, is_limited: bool, probe: impl FnOnce() -> bool) -> bool {
        let unprobed = self.unprobed.fetch_add(1, Ordering::Relaxed);
        let is_due = unprobed.is_multiple_of(PER_PROBE);
        if !is_limited && !is_due && !self.has_failed.load(Ordering::Relaxed) {
            return true;
        }
        let could = probe();
        self.has_failed.store(!could, Ordering::Relaxed);
        could
    }

    /// Returns true if a limit of the process or the system bounds its mappings. Both may change
    /// while the server runs.
    fn is_limited(&self) -> bool {
        let has_limit = |resource| getrlimit(resource).current.is_some();
        has_limit(Resource::As) || has_limit(Resource::Data) || self.is_overcommit_strict()
    }

    fn is_overcommit_strict(&self) -> bool {
        let mut mode = [0];
        let read = self.overcommit.as_ref().map(|file| file.read_exact_at(&mut mode, 0));
        !matches!(read, Some(Ok(()))) || mode == *b"2"
    }
}

/// Connections that one probe covers without a limit: with their buffers and threads they need a
/// few hundred mappings, of the 65,530 that a process may have.
const PER_PROBE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection mapped and unmapped the whole budget of replies.
    #[test]
    fn a_probe_runs_where_a_limit_or_a_failure_can_change_its_answer() {
        let map_probe = MapProbe::new();
        let mut probes = 0;
        let mut admit = |is_limited, answer: bool| {
            let mut was_run = false;
            let could = map_probe.could_map_by(is_limited, || {
                was_run = true;
                answer
            });
            probes += usize::from(was_run);
            assert!(was_run || could, "only a probe refuses a connection");
            was_run
        };
        assert!(admit(false, true), "the first one");
        let run = (1..3 * PER_PROBE).filter(|_| admit(false, true)).count();
        assert_eq!(run, 2, "one for each {PER_PROBE} connections");
        assert!((0..10).all(|_| admit(true, true)), "each one under a limit");
        assert!(admit(true, false));
        assert!(admit(false, false) && admit(false, true), "until one succeeds");
        assert!(!admit(false, true));
        assert_eq!(probes, 1 + 2 + 10 + 3);
    }

    #[test]
    fn more_than_the_address_space_cannot_be_mapped() {
        let probe = MapProbe::new();
        assert!(probe.could_map(1 << 20));
        let probe = MapProbe::new();
        assert!(!probe.could_map(1 << 60) && !probe.could_map(1 << 60));
        assert!(probe.could_map(1 << 20), "a failure is probed again");
    }
}
