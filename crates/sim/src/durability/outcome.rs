//! The outcome of a run, and the sum of several.

/// Outcome of a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DurabilityOutcome {
    /// Steps of the program.
    pub steps: u64,
    /// Acknowledged flushes and FUA writes.
    pub acknowledged: u64,
    /// Failed device flushes, including those in FUA writes.
    pub flush_failures: u64,
    /// Pages written again because of that.
    pub pages_rewritten: u64,
    /// Flushes that reported lost writes.
    pub lost: u64,
    /// Completed changes of length.
    pub length_changes: u64,
    /// Appends and writes past the end that were started.
    pub appends: u64,
    /// Appends and writes past the end that their callers abandoned.
    pub dropped_appends: u64,
    /// Acknowledged FUA writes on file systems that ignore the flag.
    pub fuse_acknowledged: u64,
    /// Commands that a device failed or cut short, and steps that a driver skipped.
    pub injected: u64,
}

impl DurabilityOutcome {
    /// Adds the outcome of another run.
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
