//! Engines that are checked at their end: what was done to their core, done to another, says the
//! same.
//!
//! In:    a builder.
//! Out:   an engine that keeps a log and replays it when it is dropped.
//! Never: in tests that measure memory: a log takes some.

#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::ops::Deref;

use foreread::{Engine, EngineBuilder};

/// An engine with a log of all that is done to its core.
#[derive(Debug)]
pub struct Recorded(Engine);

/// Makes one.
pub fn recorded(builder: EngineBuilder) -> Recorded {
    Recorded(builder.record(usize::MAX).build().unwrap())
}

impl Deref for Recorded {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.replay().unwrap_or_else(|mismatch| panic!("the replay differs: {mismatch}"));
        }
    }
}
