//! Direction of the next batch, reads or writes, chosen alike by all rules.

use crate::sched::Op;

/// A value for each direction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Both<T> {
    pub(super) reads: T,
    pub(super) writes: T,
}

impl<T: Copy> Both<T> {
    pub(super) fn of(self, op: Op) -> T {
        match op {
            Op::Read => self.reads,
            Op::Write => self.writes,
        }
    }
}

/// Chooses the direction of a batch, or None if nothing may go.
///
/// ```text
///   writes_starved = 2     R R W R R W ..    as long as both wait
///   writes_starved = 0     W W W W W W ..    reads go when no write waits
///   writes_starved = -2    W W R W W R ..    the mirror image
/// ```
///
/// `starved` counts the batches of the preferred direction that began while the other one waited.
/// Kernels read a negative number as one of some 4 billion, so that it starves writes, contrary to
/// the proposal that introduced it. Also returns true if the batch is a turn of the other
/// direction, which was passed over before.
pub(super) fn choose(
    waits: Both<bool>,
    starved: &mut u32,
    writes_starved: i32,
) -> Option<(Op, bool)> {
    let is_mirrored = writes_starved < 0;
    let (preferred, other) =
        if is_mirrored { (Op::Write, Op::Read) } else { (Op::Read, Op::Write) };
    let limit = writes_starved.unsigned_abs();
    if waits.of(preferred) {
        if !waits.of(other) {
            return Some((preferred, false));
        }
        if *starved < limit {
            *starved += 1;
            return Some((preferred, false));
        }
    }
    let is_turn = waits.of(preferred);
    debug_assert!(!is_turn || *starved >= limit, "a direction is passed over before its turn");
    *starved = if waits.of(other) { 0 } else { *starved };
    waits.of(other).then_some((other, is_turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directions of batches while both wait.
    fn batches(writes_starved: i32, count: usize) -> String {
        let mut starved = 0;
        let both = Both { reads: true, writes: true };
        let mut next = || choose(both, &mut starved, writes_starved).expect("both wait").0;
        (0..count).map(|_| if next() == Op::Read { 'R' } else { 'W' }).collect()
    }

    #[test]
    fn a_direction_is_passed_over_so_many_times() {
        assert_eq!(batches(2, 9), "RRWRRWRRW");
        assert_eq!(batches(1, 6), "RWRWRW");
        assert_eq!(batches(0, 6), "WWWWWW");
        assert_eq!(batches(-1, 6), "WRWRWR");
        assert_eq!(batches(-4, 10), "WWWWRWWWWR");
    }

    #[test]
    fn a_direction_that_is_alone_goes_and_passes_no_other_over() {
        let mut starved = 0;
        for writes_starved in [2, 0, -2] {
            let reads = Both { reads: true, writes: false };
            assert_eq!(choose(reads, &mut starved, writes_starved), Some((Op::Read, false)));
            let writes = Both { reads: false, writes: true };
            assert_eq!(choose(writes, &mut starved, writes_starved), Some((Op::Write, false)));
            assert_eq!(choose(Both::default(), &mut starved, writes_starved), None);
            assert_eq!(starved, 0);
        }
    }
}
