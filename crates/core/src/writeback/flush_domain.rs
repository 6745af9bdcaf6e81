//! A flush domain: the files that share one volatile device cache, and the order in which commands
//! to it began and ended. `durability.rs` decides which pages to write again.
//!
//! A failed flush may drop everything that the device had cached, and the driver's reports may
//! arrive in another order than the device's:
//!
//! ```text
//!   device    write A   flush F1 fails, drops A   flush F2 ends well (nothing is cached)
//!   reports                                       F2 ok            F1 failed
//!                                                  ^ must not be acknowledged yet
//! ```
//!
//! A durable command (a flush, a FUA write) that succeeded therefore *settles*: it is acknowledged
//! once all durable commands that were in flight at its end have succeeded, too. If one of them
//! fails, it fails with it. The wait is bounded, because only commands already in flight count.
//!
//! ```text
//!   F1  |------------------------| failed
//!   F2        |-------|~~~~~~~~~~x           settles, then fails with F1
//!   W       |---------------------------|    in flight when F1 failed: suspect, even on success
//!   F3                            |-----|    began afterwards: independent of F1
//! ```

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::driver_io::Fault;
use crate::ids::CommandSeq;

/// The commands of one volatile device cache. `T` is the continuation of a durable one.
#[derive(Debug)]
pub(crate) struct FlushDomain<T> {
    next: u64,
    /// Durable commands in flight.
    in_flight: BTreeSet<u64>,
    /// Commands below this were in flight when a flush failed, or had ended before.
    suspect_below: u64,
    /// Fault of the last failed flush.
    fault: Fault,
    /// Durable commands that succeeded, in the order of their ends.
    settling: VecDeque<Settling<T>>,
    /// Number of devices in the domain.
    pub(crate) devices: u32,
}

#[derive(Debug)]
struct Settling<T> {
    /// The durable commands in flight below this have to end first.
    until: u64,
    end: T,
}

impl<T> FlushDomain<T> {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            in_flight: BTreeSet::new(),
            suspect_below: 0,
            fault: Fault::Short,
            settling: VecDeque::new(),
            devices: 0,
        }
    }

    /// Begins a command; `is_durable` if its success means that bytes survive a power cut.
    pub(crate) fn begin(&mut self, is_durable: bool) -> CommandSeq {
        let seq = self.next;
        self.next += 1;
        if is_durable {
            self.in_flight.insert(seq);
        }
        CommandSeq(seq)
    }

    /// Records the success of a durable command, which then settles.
    ///
    /// # Errors
    ///
    /// If a flush failed while it was in flight: returns that fault, and `end`.
    pub(crate) fn succeed(&mut self, seq: CommandSeq, end: T) -> Result<(), (Fault, T)> {
        let was_there = self.in_flight.remove(&seq.0);
        assert!(was_there, "{seq:?} is no durable command in flight");
        if let Some(fault) = self.suspect(seq) {
            return Err((fault, end));
        }
        let last = self.settling.back().map_or(0, |it| it.until);
        assert!(last <= self.next, "commands settle in the order of their ends");
        self.settling.push_back(Settling { until: self.next, end });
        Ok(())
    }

    /// Removes a durable command that was never sent to the device.
    pub(crate) fn cancel(&mut self, seq: CommandSeq) {
        let was_there = self.in_flight.remove(&seq.0);
        assert!(was_there, "{seq:?} is no durable command in flight");
    }

    /// Records the failure of a durable command. Returns the commands that succeeded while it was
    /// in flight, which fail with it.
    pub(crate) fn fail(&mut self, seq: CommandSeq, fault: Fault) -> Vec<T> {
        let was_there = self.in_flight.remove(&seq.0);
        assert!(was_there, "{seq:?} is no durable command in flight");
        assert!(self.suspect_below <= self.next, "commands that have not begun are suspect");
        self.suspect_below = self.next;
        self.fault = fault;
        // The commands are in the order of their ends, so `until` never falls.
        let first = self.settling.partition_point(|it| it.until <= seq.0);
        self.settling.drain(first..).map(|it| it.end).collect()
    }

    /// Returns the fault if a flush failed while this command was in flight.
    pub(crate) fn suspect(&self, seq: CommandSeq) -> Option<Fault> {
        debug_assert!(seq.0 < self.next, "{seq:?} has not begun");
        (seq.0 < self.suspect_below).then_some(self.fault)
    }

    /// Returns true if this durable command has not been reported as ended yet.
    pub(crate) fn is_in_flight(&self, seq: CommandSeq) -> bool {
        self.in_flight.contains(&seq.0)
    }

    /// Returns the durable commands that succeeded and are not acknowledged yet.
    pub(crate) fn settling(&self) -> impl Iterator<Item = &T> {
        self.settling.iter().map(|it| &it.end)
    }

    /// Returns the fault of the last failed flush.
    pub(crate) fn fault(&self) -> Fault {
        self.fault
    }

    /// Takes the next durable command whose success may be acknowledged.
    pub(crate) fn pop_settled(&mut self) -> Option<T> {
        let oldest = self.in_flight.first().copied().unwrap_or(u64::MAX);
        self.settling.pop_front_if(|it| it.until <= oldest).map(|it| it.end)
    }

    /// Checks the order of the commands.
    pub(crate) fn assert_consistent(&self) {
        let last = self.in_flight.last().copied();
        assert!(last.is_none_or(|last| last < self.next), "{last:?} has not begun");
        assert!(self.suspect_below <= self.next, "commands that have not begun are suspect");
        assert!(
            self.settling.iter().is_sorted_by_key(|it| it.until),
            "commands settle in the order of their ends"
        );
        assert!(self.devices > 0 || !self.is_idle(), "a domain goes with its last device");
    }

    /// Returns true if nothing is in flight or settling.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.settling.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIO: Fault = Fault::Io(5);

    fn settled(domain: &mut FlushDomain<char>) -> Vec<char> {
        core::iter::from_fn(|| domain.pop_settled()).collect()
    }

    #[test]
    fn a_command_alone_settles_at_once() {
        let mut domain = FlushDomain::new();
        let a = domain.begin(true);
        assert_eq!(domain.succeed(a, 'a'), Ok(()));
        assert_eq!(settled(&mut domain), ['a']);
        assert!(domain.is_idle());
    }

    #[test]
    fn success_waits_for_those_in_flight_and_for_none_that_begin_later() {
        let mut domain = FlushDomain::new();
        let (a, b) = (domain.begin(true), domain.begin(true));
        assert_eq!(domain.succeed(b, 'b'), Ok(()));
        assert_eq!(settled(&mut domain), []);
        let c = domain.begin(true);
        assert_eq!(domain.succeed(a, 'a'), Ok(()));
        assert_eq!(settled(&mut domain), ['b'], "a waits for c, b does not");
        assert_eq!(domain.succeed(c, 'c'), Ok(()));
        assert_eq!(settled(&mut domain), ['a', 'c']);
    }

    #[test]
    fn a_failure_takes_with_it_what_ended_or_goes_on_beside_it() {
        let mut domain = FlushDomain::new();
        let old = domain.begin(true);
        let early = domain.begin(true);
        assert_eq!(domain.succeed(early, 'e'), Ok(()), "over before the one that fails began");
        let failing = domain.begin(true);
        let beside = domain.begin(true);
        let write = domain.begin(false);
        let late = domain.begin(true);
        assert_eq!(domain.succeed(beside, 'b'), Ok(()));
        assert_eq!(domain.fail(failing, EIO), ['b']);
        assert_eq!(domain.suspect(write), Some(EIO), "it may have been dropped");
        assert_eq!(domain.succeed(late, 'l'), Err((EIO, 'l')));
        assert_eq!(domain.succeed(old, 'o'), Err((EIO, 'o')));
        assert_eq!(settled(&mut domain), ['e']);
        let next = domain.begin(true);
        assert_eq!(domain.suspect(next), None);
        assert_eq!(domain.succeed(next, 'n'), Ok(()));
        assert_eq!(settled(&mut domain), ['n']);
    }

    #[test]
    fn a_cancelled_command_delays_no_other() {
        let mut domain = FlushDomain::new();
        let (a, b) = (domain.begin(true), domain.begin(true));
        assert_eq!(domain.succeed(b, 'b'), Ok(()));
        domain.cancel(a);
        assert_eq!(settled(&mut domain), ['b']);
    }
}
