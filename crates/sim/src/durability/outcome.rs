//! The outcome of a run, and the sum of several.

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DurabilityOutcome {
    /// Steps of the program.
    pub steps: u64,
    /// Flushes and FUA writes that were acknowledged.
    pub acknowledged: u64,
    /// Device flushes that failed, those in FUA writes included.
    pub flush_failures: u64,
    /// Pages written again because of that.
    pub pages_rewritten: u64,
    /// Flushes that said that acknowledged writes are lost.
    pub lost: u64,
    /// Changes of a file's length that were done.
    pub length_changes: u64,
    /// Appends and writes past the end that were begun.
    pub appends: u64,
    /// Those that their callers have left before they were complete.
    pub dropped_appends: u64,
    /// FUA writes that were acknowledged on file systems that ignore the flag.
    pub fuse_acknowledged: u64,
    /// Commands that a device failed or cut short, and steps that a driver did not do.
    pub injected: u64,
}

impl DurabilityOutcome {
    /// Adds what another run came to.
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.acknowledged += other.acknowledged;
        self.flush_failures += other.flush_failures;
        self.pages_rewritten += other.pages_rewritten;
        self.lost += other.lost;
        self.length_changes += other.length_changes;
        self.appends += other.appends;
        self.dropped_appends += other.dropped_appends;
        self.fuse_acknowledged += other.fuse_acknowledged;
        self.injected += other.injected;
    }
}
