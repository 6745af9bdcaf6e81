//! One file on a path of its own, for programs that write to it: each step is one event of the
//! driver or the device.
//!
//! In:    calls that begin; steps.
//! Out:   the ends of calls; what a power cut leaves.
//! Never: a byte. Sectors hold numbers, from [`SteppedFile::FIRST_STAMP`] on those of the caller.
//!
//! ```text
//!   caller --> begin_write .. --> path --> device with a cache      step, step, .. take_end
//! ```

use foreread_core::path::{ReadId, WriteId, WriteMode};
use foreread_core::sched::Submitter;
use foreread_core::units::{ByteCount, PageIndex};

use super::cached_disk::{ABSENT, CachedDisk, Stamp, TORN};
use super::outcome::DurabilityOutcome;
use super::program::{self, RunEnd, Sabotage};
use super::world::{Call, CallEnds, CallKind, DurabilityWorld, SECTOR, WrittenStamps};
use crate::rng::Rng;

/// A file on a device whose flushes fail, in virtual time, below any program.
///
/// ```
/// use foreread_sim::durability::{Sabotage, SteppedFile};
///
/// let mut file = SteppedFile::new(7, 64, Sabotage::None);
/// let stamp = SteppedFile::FIRST_STAMP;
/// let write = file.begin_write(8, &[stamp, stamp + 1], true);
/// let end = loop {
///     file.step().expect("every invariant holds");
///     if let Some(end) = file.take_end(write) {
///         break end;
///     }
/// };
/// if end.is_good {
///     assert_eq!(file.after_cut()[8..10], [stamp, stamp + 1], "a durable write");
/// }
/// ```
pub struct SteppedFile {
    world: DurabilityWorld,
    rng: Rng,
    restarts: u64,
}

/// A call of a [`SteppedFile`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SteppedCall(CallId);

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum CallId {
    Write(WriteId),
    Read(ReadId),
}

/// How a call of a [`SteppedFile`] ended.
#[derive(Clone, Debug)]
pub struct SteppedEnd {
    /// Sectors that were read or written: at most those that were asked for.
    pub sectors: usize,
    /// True if the call succeeded.
    pub is_good: bool,
    /// The sectors of a read.
    pub stamps: Vec<u32>,
}

impl SteppedFile {
    /// Lowest stamp that a caller may write. Lower stamps mark the sectors of a new file, and
    /// zeroes ([`Self::is_zeroed`]).
    pub const FIRST_STAMP: u32 = 1 << 26;
    /// Stamp of a sector torn by a power cut or a failed flush.
    pub const TORN: u32 = TORN;

    /// Creates a file of `sectors` sectors.
    #[must_use]
    pub fn new(seed: u64, sectors: usize, sabotage: Sabotage) -> Self {
        let mut rng = Rng::named(seed, "stepped file");
        let disk = CachedDisk::new(sectors, &mut rng);
        Self::over(seed, disk, sectors, sabotage, rng)
    }

    fn over(seed: u64, disk: CachedDisk, sectors: usize, sabotage: Sabotage, mut rng: Rng) -> Self {
        let mut world = DurabilityWorld::empty(seed, sabotage);
        world.add_disk(disk, &[(sectors as u64 * SECTOR, sectors)], &mut rng);
        world.ends = Some(CallEnds::default());
        Self { world, rng, restarts: 0 }
    }

    /// Returns true if a sector with this stamp was zeroed or discarded.
    #[must_use]
    pub const fn is_zeroed(stamp: u32) -> bool {
        stamp == 0 || stamp >= 1 << 20 && stamp < Self::FIRST_STAMP
    }

    /// Begins to write sectors. The result has the number written; the caller writes the rest by
    /// another call.
    pub fn begin_write(&mut self, first: usize, stamps: &[u32], is_durable: bool) -> SteppedCall {
        let mode = if is_durable { WriteMode::Fua } else { WriteMode::WriteBack };
        let world = &mut self.world;
        let (now, file) = (world.tick(), world.files[0].id);
        let (pos, len) = (bytes(first), bytes(stamps.len()));
        let id = world.path.write(now, file, pos, len, mode, Submitter::default());
        let stamps = WrittenStamps::Each(stamps.to_vec());
        let kind =
            CallKind::Write { sectors: first..first, stamps, mode, filled: None, append: None };
        world.calls.insert(id, Call { file: 0, kind });
        SteppedCall(CallId::Write(id))
    }

    /// Begins to read sectors. The result has the number read; the caller reads the rest by another
    /// call.
    pub fn begin_read(&mut self, first: usize, sectors: usize) -> SteppedCall {
        let world = &mut self.world;
        let (view, stream) = (world.files[0].history.view(), world.files[0].stream);
        let now = world.tick();
        let id = world.path.read(now, stream, bytes(first), bytes(sectors), None);
        world.reads.insert(id, (0, first, view));
        SteppedCall(CallId::Read(id))
    }

    /// Begins a flush.
    pub fn begin_flush(&mut self) -> SteppedCall {
        SteppedCall(CallId::Write(self.world.flush(0)))
    }

    /// Begins to zero or to discard whole pages.
    pub fn begin_zero(&mut self, pages: std::ops::Range<usize>, is_discard: bool) -> SteppedCall {
        let pages = PageIndex(pages.start as u64)..PageIndex(pages.end as u64);
        SteppedCall(CallId::Write(self.world.zero_pages(0, pages, is_discard)))
    }

    /// Runs one event of the driver or the device.
    ///
    /// # Errors
    ///
    /// The violated invariant of the file.
    pub fn step(&mut self) -> Result<(), String> {
        let op = program::draw_event(&mut self.rng);
        self.world.apply(&op)
    }

    /// Returns how a call ended, once.
    pub fn take_end(&mut self, call: SteppedCall) -> Option<SteppedEnd> {
        let ends = self.world.ends.as_mut()?;
        match call.0 {
            CallId::Write(id) => {
                let (len, fault) = ends.writes.remove(&id)?;
                let sectors = usize::try_from(len.0.div_ceil(SECTOR)).unwrap_or(usize::MAX);
                Some(SteppedEnd { sectors, is_good: fault.is_none(), stamps: Vec::new() })
            }
            CallId::Read(id) => {
                let (stamps, fault) = ends.reads.remove(&id)?;
                Some(SteppedEnd { sectors: stamps.len(), is_good: fault.is_none(), stamps })
            }
        }
    }

    /// Returns the number of times that the file has lost acknowledged writes.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.world.path.losses(self.world.files[0].id)
    }

    /// Returns how often the device has dropped what it had cached. Until the path hears of it, a
    /// read of what is not in memory may find older sectors.
    #[must_use]
    pub const fn drops(&self) -> u64 {
        self.world.drops
    }

    /// Accepts the last loss.
    pub fn accept_lost(&mut self) {
        let file = &mut self.world.files[0];
        if self.world.path.lost(file.id).is_some() {
            // Also of calls that are under way.
            let space = file.history.space();
            file.history.set_undefined(0..space);
        }
        self.world.path.accept_lost(file.id);
    }

    /// Returns what a power cut at this moment may leave of each sector.
    #[must_use]
    pub fn after_cut(&mut self) -> Vec<u32> {
        let mut disk = self.world.disks[0].clone();
        disk.cut(&mut self.rng);
        durable(&disk, self.world.files[0].history.space())
    }

    /// Ends the program with all calls that are under way, by a power cut or a kill, and lets
    /// another one open the file, which flushes first.
    #[must_use]
    pub fn restart(mut self, end: RunEnd) -> Self {
        let space = self.world.files[0].history.space();
        let sabotage = self.world.sabotage;
        self.world.leave_commands();
        let mut disk = self.world.disks.remove(0);
        if end == RunEnd::PowerCut {
            disk.cut(&mut self.rng);
        } else if self.rng.below(3) == 0 {
            // The first try to open it fails.
            disk.fail_flush(&mut self.rng);
        }
        disk.flush(0);
        let restarts = self.restarts + 1;
        let seed = self.rng.any();
        Self { restarts, ..Self::over(seed, disk, space, sabotage, self.rng) }
    }

    /// Returns what has become of it since it was opened.
    #[must_use]
    pub fn outcome(&self) -> DurabilityOutcome {
        self.world.outcome()
    }

    /// Puts these numbers into sectors of a file that is not used yet.
    #[must_use]
    pub fn with_sectors(mut self, seed: u64, first: usize, stamps: &[Stamp]) -> Self {
        let space = self.world.files[0].history.space();
        let (sabotage, mut disk) = (self.world.sabotage, self.world.disks.remove(0));
        (first..).zip(stamps).for_each(|(at, stamp)| disk.write(at, *stamp));
        disk.flush(0);
        Self::over(seed, disk, space, sabotage, self.rng)
    }

    /// Returns what the device has, of a file that was just opened.
    #[must_use]
    pub fn sectors(&self) -> Vec<u32> {
        durable(&self.world.disks[0], self.world.files[0].history.space())
    }
}

impl std::fmt::Debug for SteppedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedFile").field("restarts", &self.restarts).finish_non_exhaustive()
    }
}

fn durable(disk: &CachedDisk, sectors: usize) -> Vec<Stamp> {
    let found: Vec<_> = (0..sectors).map(|at| disk.durable(at)).collect();
    assert!(!found.contains(&ABSENT), "the file keeps its length");
    found
}

fn bytes(sectors: usize) -> ByteCount {
    ByteCount(sectors as u64 * SECTOR)
}
