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
    }
}
