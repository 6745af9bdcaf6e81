//! Restarts waits that a signal without effect has interrupted, as they would continue untraced. A
//! wait never continues after a handler has run, or past its time.
//!
//! The kernel drops an ignored signal, unless the thread is traced: then it wakes the thread to
//! notify the tracer. Most waits restart by themselves afterwards. A few return EINTR for any
//! signal, such as `epoll_wait`. For these the tracer replaces the result by the kernel's internal
//! ERESTARTNOHAND: the call restarts, or returns EINTR if a handler runs first.
//!
//! ```text
//!   entry of epoll_wait(.., 300 ms)   the end of the wait is known
//!   signal, EINTR                     result := ERESTARTNOHAND, time-out := the rest
//!   entry again, exit                 register of the time-out := 300 ms
//! ```
//!
//! This works only with the time-out in a register; a wait with its time-out in memory stays
//! interrupted. So do all waits on ARM, where the kernel checks the result before the tracer can
//! replace it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use libc::c_int;

use crate::clock::now;
use crate::filter::{TIMED_WAITS, is_foreign};
use crate::listener::StoppedCall;
use crate::proc_status::{field, status};
use crate::registers::{InterruptedCall, Register, interrupted_call, set_register};

/// Threads in a wait with a time-out.
#[derive(Debug, Default)]
pub(crate) struct InterruptedWaits {
    of_thread: HashMap<u32, TimedWait>,
    /// Threads of a stopped process, as after Ctrl-Z. That interrupts their waits even untraced.
    in_group_stop: HashSet<u32>,
}

#[derive(Clone, Copy, Debug)]
struct TimedWait {
    end: Instant,
    /// The argument from the program.
    timeout: u64,
    /// True if the register holds the rest of the time.
    is_shortened: bool,
}

/// Form of a restarted wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Restart {
    /// Restart with the same arguments: the call has no time-out.
    Same,
    /// Restart with the remaining time.
    Rest,
}

impl InterruptedWaits {
    /// Handles the entry of a call. Returns true if its exit must be seen.
    pub(crate) fn enter(&mut self, call: &StoppedCall) -> bool {
        let is_wait = !is_foreign(call.arch, call.number) && TIMED_WAITS.contains(&call.number);
        if is_wait && self.of_thread.get(&call.thread).is_some_and(|wait| wait.is_shortened) {
            return true;
        }
        match timeout(call.args[3]).filter(|_| is_wait) {
            Some(time) => {
                let (end, timeout) = (now() + time, call.args[3]);
                self.of_thread.insert(call.thread, TimedWait { end, timeout, is_shortened: false });
            }
            None => {
                self.of_thread.remove(&call.thread);
            }
        }
        false
    }

    /// Handles the exit of a call, or a stop after it, and restores the program's register.
    pub(crate) fn leave(&mut self, thread: u32) {
        if let Some(wait) = self.of_thread.get_mut(&thread).filter(|wait| wait.is_shortened) {
            // An error means that the thread has been killed.
            let _ = set_register(thread, Register::Argument3, wait.timeout);
            wait.is_shortened = false;
        }
    }

    /// Forgets a thread that has ended or called exec.
    pub(crate) fn forget(&mut self, thread: u32) {
        self.of_thread.remove(&thread);
        self.in_group_stop.remove(&thread);
    }

    /// Handles a stop of a thread with its whole process.
    pub(crate) fn group_stopped(&mut self, thread: u32) {
        self.in_group_stop.insert(thread);
    }

    /// Handles a stop that the tracer requested, or the end of a stop of the whole process.
    pub(crate) fn stopped(&mut self, thread: u32) {
        let is_after_group_stop = self.in_group_stop.remove(&thread);
        if !is_after_group_stop && is_interrupted(thread) {
            let _ = set_register(thread, Register::Result, RESTART_UNLESS_HANDLED.cast_unsigned());
        }
    }

    /// Handles a stop before a signal delivery. Returns true if the exit of the restarted call must
    /// be seen.
    pub(crate) fn signalled(&mut self, thread: u32, signal: c_int) -> bool {
        self.leave(thread);
        let Some(call) = interrupted_call(thread) else { return false };
        let Some(restart) = restart_of(&call) else { return false };
        if !status(&thread.to_string()).is_some_and(|status| is_ignored(&status, signal)) {
            return false;
        }
        if restart == Restart::Rest {
            let known = self.of_thread.get_mut(&thread);
            let Some(wait) = known.filter(|wait| wait.timeout == call.args[3]) else {
                return false;
            };
            let rest = rest_ms(wait.end.saturating_duration_since(now()));
            if set_register(thread, Register::Argument3, rest).is_err() {
                return false;
            }
            wait.is_shortened = true;
        }
        let _ = set_register(thread, Register::Result, RESTART_UNLESS_HANDLED.cast_unsigned());
        restart == Restart::Rest
    }
}

/// Returns true if a thread is at the end of a wait that may restart with the same arguments.
pub(crate) fn is_interrupted(thread: u32) -> bool {
    interrupted_call(thread).is_some_and(|call| restart_of(&call) == Some(Restart::Same))
}

/// Returns true if the call that a thread is about to make restarts with the same arguments.
pub(crate) fn is_endless(call: StoppedCall) -> bool {
    let StoppedCall { arch, number, args, .. } = call;
    !is_foreign(arch, number)
        && restart_of(&InterruptedCall { number, args }) == Some(Restart::Same)
}

/// Returns the restart of a call that returned EINTR. None if the kernel would not restart it after
/// a dropped signal, or its time-out is in memory.
fn restart_of(call: &InterruptedCall) -> Option<Restart> {
    let [_, _, a2, a3, a4, _] = call.args;
    let is_endless = match call.number {
        number if TIMED_WAITS.contains(&number) => {
            return if timeout(a3).is_some() { Some(Restart::Rest) } else { Some(Restart::Same) };
        }
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => a3 == 0,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_semop => true,
        libc::SYS_rt_sigtimedwait => a2 == 0,
        libc::SYS_io_getevents => a4 == 0,
        libc::SYS_io_uring_enter => a3 & RING_TIMEOUT == 0,
        _ => false,
    };
    is_endless.then_some(Restart::Same)
}

/// Converts the time-out of `epoll_wait`: milliseconds; negative for none, 0 for no wait.
fn timeout(argument: u64) -> Option<Duration> {
    let low = u32::try_from(argument & u64::from(u32::MAX)).ok()?;
    let ms = u64::try_from(low.cast_signed()).ok().filter(|ms| *ms > 0)?;
    Some(Duration::from_millis(ms))
}

/// Converts to milliseconds, rounded up: 0 only if the time has passed. A wait of 0 is never
/// interrupted.
fn rest_ms(rest: Duration) -> u64 {
    u64::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns true if a signal has no effect on a process with this status. SIGCONT always has one: it
/// ends a stop, after which a wait returns EINTR even untraced.
fn is_ignored(status: &str, signal: c_int) -> bool {
    let Some(bit) = signal.checked_sub(1).and_then(|n| 1_u64.checked_shl(n.cast_unsigned())) else {
        return false;
    };
    let has = |name| {
        let mask = field(status, name).and_then(|it| u64::from_str_radix(it, 16).ok());
        mask.is_none_or(|mask| mask & bit != 0)
    };
    let is_harmless = matches!(signal, libc::SIGCHLD | libc::SIGWINCH | libc::SIGURG);
    signal != libc::SIGCONT && !has("SigCgt:") && (is_harmless || has("SigIgn:"))
}

/// Kernel result of a call that restarts unless a handler runs.
const RESTART_UNLESS_HANDLED: i64 = -514;

/// `IORING_ENTER_EXT_ARG`: the call may have a time-out in memory.
const RING_TIMEOUT: u64 = 1 << 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: libc::c_long, argument: usize, value: u64) -> InterruptedCall {
        let mut args = [7; 6];
        args[argument] = value;
        InterruptedCall { number, args }
    }

    #[test]
    fn a_call_whose_time_out_is_in_memory_does_not_start_again() {
        for (number, argument) in [
            (libc::SYS_epoll_pwait2, 3),
            (libc::SYS_semtimedop, 3),
            (libc::SYS_rt_sigtimedwait, 2),
            (libc::SYS_io_getevents, 4),
        ] {
            assert_eq!(restart_of(&call(number, argument, 0)), Some(Restart::Same), "{number}");
            assert_eq!(restart_of(&call(number, argument, 4096)), None, "{number}");
        }
        assert_eq!(restart_of(&call(libc::SYS_io_uring_enter, 3, 1)), Some(Restart::Same));
        assert_eq!(restart_of(&call(libc::SYS_io_uring_enter, 3, 1 | RING_TIMEOUT)), None);
        assert_eq!(restart_of(&call(libc::SYS_connect, 3, 0)), None);
        for number in TIMED_WAITS {
            assert_eq!(restart_of(&call(number, 3, u64::MAX)), Some(Restart::Same));
            assert_eq!(restart_of(&call(number, 3, u64::from(u32::MAX))), Some(Restart::Same));
            assert_eq!(restart_of(&call(number, 3, 300)), Some(Restart::Rest));
        }
    }

    #[test]
    fn a_signal_is_ignored_by_disposition_or_by_default() {
        let status = |ignored: u64, caught: u64| {
            format!("SigQ:\t0/1\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n")
        };
        let bit = |signal: c_int| 1_u64 << (signal - 1);
        for signal in [libc::SIGCHLD, libc::SIGWINCH, libc::SIGURG] {
            assert!(is_ignored(&status(0, 0), signal));
            assert!(!is_ignored(&status(0, bit(signal)), signal));
        }
        assert!(!is_ignored(&status(0, 0), libc::SIGUSR1), "it ends the process");
        assert!(is_ignored(&status(bit(libc::SIGUSR1), 0), libc::SIGUSR1));
        assert!(!is_ignored(&status(bit(libc::SIGCONT), 0), libc::SIGCONT));
        assert!(!is_ignored("Name:\ta\n", libc::SIGCHLD), "nothing is known");
        assert!(is_ignored(&status(1 << 63, 0), 64) && !is_ignored(&status(0, 1 << 63), 64));
    }

    #[test]
    fn the_rest_of_a_time_out_is_rounded_up() {
        assert_eq!(rest_ms(Duration::ZERO), 0);
        assert_eq!(rest_ms(Duration::from_nanos(1)), 1);
        assert_eq!(rest_ms(Duration::from_nanos(2_000_001)), 3);
        assert_eq!(timeout(0), None);
        assert_eq!(timeout(5 | 7 << 32), Some(Duration::from_millis(5)), "it is an int");
    }
}
