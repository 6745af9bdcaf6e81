//! Wait modes of a connection for its client's next bytes: sleep, or spin for a bounded time first.
//!
//! In:    the time of each turn, and how many requests it had.
//! Out:   the way of waiting that serves this client fastest, measured.
//! Never: a spin on a machine with one processor or with time for one, in more threads than half of
//!        the processors (one if bound to one), or longer than [`SPIN`]: an idle server uses no
//!        processor time.
//!
//! ```text
//!   sleep    send, sleep .. [client] .. wake-up, recv      the only one that uses no time
//!   yield    send, recv, yield [client] recv               one processor for both: no wake-up, and
//!                                                          several requests in one recv
//!   spin     send, recv, recv [client] recv                one for each: no wake-up
//!   gather   send, pause [client, client] recv             the same, and several requests in one
//!                                                          recv, several replies in one send
//! ```
//!
//! The best mode depends on the client, on the processor that it runs on, and on the load of the
//! machine; a wake-up takes from 2 us to 50 us on a virtual machine whose processors sleep. The
//! server cannot predict this, so it tries each mode for some turns and picks the one with the
//! least time per request. It probes again at growing intervals, or when the mode becomes slow.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::thread::sched_getaffinity;

/// Strategy of an idle connection for waiting on its socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WaitMode {
    Sleep,
    /// Yields the processor a few times, then sleeps.
    Yield,
    /// Polls the socket in a loop, then sleeps.
    Spin,
    /// The same, but first lets several requests come.
    Gather,
}

/// Count and limit of the server's spinning threads.
#[derive(Debug)]
pub(crate) struct Spinners {
    count: AtomicUsize,
    most: usize,
}

/// Counts a spinning thread until it is dropped.
#[derive(Debug)]
pub(super) struct Spinner<'s>(&'s Spinners);

/// Chooses among the ways of waiting.
#[derive(Debug)]
pub(super) struct WaitModes {
    mode: WaitMode,
    /// The one that is being tried; None while the best one is in force.
    trial: Option<usize>,
    /// Measured time per request in each mode, in ns.
    costs: [u64; MODES.len()],
    /// Turns and requests of this phase, and their time.
    turns: u32,
    requests: u64,
    time: Duration,
    last_turn: Instant,
    /// Phases until the next trial, and between the trials.
    phases_left: u32,
    phases_between: u32,
}

impl Spinners {
    /// Creates the limit for this process. A process bound to one processor may spin, because its
    /// clients may have another. A process with a CPU quota of one processor (in a container) may
    /// not: a spin would use up the quota of all threads.
    pub(crate) fn new() -> Self {
        let has_others = std::fs::read_to_string(ONLINE).is_ok_and(|it| it.trim() != "0");
        let usable = available_parallelism().map_or(1, usize::from);
        let bound = sched_getaffinity(None).map_or(usize::MAX, |set| set.count() as usize);
        let most = if usable >= 2 { usable / 2 } else { usize::from(has_others && bound == 1) };
        Self { count: AtomicUsize::new(0), most }
    }

    /// Lets the calling thread spin until the guard is dropped; None if too many threads spin.
    pub(super) fn join(&self) -> Option<Spinner<'_>> {
        let one_more = |count| (count < self.most).then_some(count + 1);
        let joined = self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        joined.ok().map(|_| Spinner(self))
    }
}

impl Drop for Spinner<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WaitModes {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            mode: MODES[0],
            trial: Some(0),
            costs: [0; MODES.len()],
            turns: 0,
            requests: 0,
            time: Duration::ZERO,
            last_turn: now,
            phases_left: 0,
            phases_between: FEWEST_PHASES,
        }
    }

    pub(super) fn mode(&self) -> WaitMode {
        self.mode
    }

    /// Counts a request.
    pub(super) fn request(&mut self) {
        self.requests += 1;
    }

    /// Counts the end of a wait, which ends a turn.
    pub(super) fn turn(&mut self, now: Instant) {
        // A pause of the client is no evidence for any wait mode.
        self.time += now.duration_since(self.last_turn).min(LONGEST_TURN);
        self.last_turn = now;
        self.turns += 1;
        if self.turns < TURNS {
            return;
        }
        let nanos = u64::try_from(self.time.as_nanos()).expect("some turns are less than a second");
        let cost = nanos / self.requests.max(1);
        (self.turns, self.requests, self.time) = (0, 0, Duration::ZERO);
        match self.trial {
            Some(tried) => {
                self.costs[tried] = cost;
                self.trial = Some(tried + 1).filter(|next| *next < MODES.len());
                match self.trial {
                    Some(next) => self.mode = MODES[next],
                    None => self.choose(),
                }
            }
            None if self.phases_left == 0 => self.try_all(),
            None if cost > 2 * self.cost_of_mode() => {
                self.phases_between = FEWEST_PHASES;
                self.try_all();
            }
            None => self.phases_left -= 1,
        }
    }

    fn try_all(&mut self) {
        (self.mode, self.trial) = (MODES[0], Some(0));
    }

    fn choose(&mut self) {
        let mut best = 0;
        for (at, cost) in self.costs.iter().enumerate() {
            if cost * 10 < self.costs[best] * 9 {
                best = at;
            }
        }
        self.mode = MODES[best];
        self.phases_left = self.phases_between;
        self.phases_between = (self.phases_between * 2).min(MOST_PHASES);
    }

    fn cost_of_mode(&self) -> u64 {
        let at = MODES.iter().position(|mode| *mode == self.mode);
        self.costs[at.expect("all modes are in the list")]
    }
}

/// The first one that is within a tenth of the best is taken.
const MODES: [WaitMode; 4] = [WaitMode::Sleep, WaitMode::Yield, WaitMode::Spin, WaitMode::Gather];
/// The processors of the machine: "0-7".
const ONLINE: &str = "/sys/devices/system/cpu/online";
/// Longest spin: the wake-up of a client on a sleeping processor, plus its work.
pub(super) const SPIN: Duration = Duration::from_micros(100);
/// Time to gather several requests of a pipelining client.
pub(super) const GATHER: Duration = Duration::from_micros(30);
/// Cap of a turn's counted time: more than a wake-up or a spin, less than a pause.
const LONGEST_TURN: Duration = Duration::from_micros(400);
/// Turns per phase.
const TURNS: u32 = 32;
/// Phases between trials: the initial value, and the limit of its doubling.
const FEWEST_PHASES: u32 = 16;
const MOST_PHASES: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of a client whose requests take so many microseconds with each mode; how many of the
    /// last thousand had which.
    fn turns(modes: &mut WaitModes, count: u32, micros: [u64; 4]) -> [u32; 4] {
        let mut seen = [0; 4];
        for turn in 0..count {
            let at = MODES.iter().position(|mode| *mode == modes.mode()).unwrap();
            seen[at] += u32::from(turn + 1000 >= count);
            modes.request();
            modes.turn(modes.last_turn + Duration::from_micros(micros[at]));
        }
        seen
    }

    #[test]
    fn the_fastest_way_is_found_and_found_again_when_it_has_changed() {
        let mut modes = WaitModes::new(crate::clock::now());
        assert!(turns(&mut modes, 20_000, [120, 118, 40, 70])[2] > 900, "a processor each: spin");
        assert!(turns(&mut modes, 20_000, [12, 11, 10, 8])[3] > 900, "many at a time: gather");
        assert!(turns(&mut modes, 20_000, [25, 15, 110, 110])[1] > 900, "one for both: yield");
        assert!(turns(&mut modes, 20_000, [60, 400, 160, 160])[0] > 900, "a busy machine: sleep");
    }

    #[test]
    fn a_client_that_pauses_or_is_served_as_fast_asleep_is_slept_for() {
        for micros in [[5000, 5000, 5000, 5000], [100, 95, 92, 91]] {
            let mut modes = WaitModes::new(crate::clock::now());
            assert!(turns(&mut modes, 20_000, micros)[0] >= 900);
        }
    }

    #[test]
    fn trials_become_rare() {
        let mut modes = WaitModes::new(crate::clock::now());
        turns(&mut modes, 100_000, [120, 118, 40, 70]);
        let slow = (0..50).map(|_| 1000 - turns(&mut modes, 1000, [120, 118, 40, 70])[2]);
        assert!(slow.sum::<u32>() < 50_000 / 50);
    }

    #[test]
    fn no_more_threads_spin_than_may() {
        let none = Spinners { count: AtomicUsize::new(0), most: 0 };
        assert!(none.join().is_none(), "one processor");
        let two = Spinners { count: AtomicUsize::new(0), most: 2 };
        let first = two.join().expect("none spins");
        let _second = two.join().expect("one spins");
        assert!(two.join().is_none());
        drop(first);
        assert!(two.join().is_some());
    }
}
