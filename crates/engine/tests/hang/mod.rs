//! Waits for what other threads do, and an end for tests that hang.
//!
//! In:    a condition; the name of a test.
//! Out:   true conditions, however slow the machine is.
//! Never: a number of looks or a time after which a test fails that would have passed. A test that
//!        hangs is ended: [`Watchdog`] says which one it was, and ends the process.
//!
//! Include it by `mod hang;`, from another crate by `#[path]`.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Waits for what another thread is going to do. (A [`Watchdog`] has to be there.)
pub fn wait_until(mut is_done: impl FnMut() -> bool) {
    while !is_done() {
        std::thread::yield_now();
    }
}

/// Ends the process with the test's name if the test takes so long that it must hang.
pub struct Watchdog(Sender<()>);

impl Watchdog {
    pub fn new(test: impl Into<String>) -> Self {
        let (sender, receiver) = channel();
        let test = test.into();
        std::thread::spawn(move || {
            if receiver.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout) {
                let line = format!("HANG {test}: not done after {HANGS:?}\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
                std::process::exit(101);
            }
        });
        Self(sender)
    }
}

/// Many times what any test needs on a slow machine.
const HANGS: Duration = Duration::from_secs(60);
