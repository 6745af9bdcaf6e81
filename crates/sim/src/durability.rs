//! Durability campaign in virtual time: random programs over a device with a volatile cache, errors
//! and power cuts at every step, checked against a history of each sector.
//!
//! In:    a seed.
//! Out:   the outcome of the run, or a description of the broken invariant.
//! Never: real bytes. A sector holds the number of the write that it came from.
//!
//! ```text
//!   program --> IoPath --> commands in flight --> device: cache, medium
//!      |          ^             |                     |
//!      |          '-- reports <-'  in any order       |  each command takes effect at one step,
//!      v                                              v  and its end is reported at a later one
//!   history: which versions of each sector ......... compared with what the medium holds
//! ```
//!
//! The order of effects at the device and the order of reports to the driver are drawn
//! independently. A flush may succeed at the device after another one has failed, and be reported
//! first: that is the hard part of durability. docs/guide/durability.md lists the invariants.

#![expect(clippy::cast_possible_truncation, reason = "the files of a run are small")]

mod append_order;
mod appends;
mod cached_disk;
mod driver;
mod effects;
mod ending;
mod history;
mod operations;
mod outcome;
mod program;
mod stepped_file;
mod world;

pub use outcome::DurabilityOutcome;
pub use program::{RunEnd, Sabotage};
pub use stepped_file::{SteppedCall, SteppedEnd, SteppedFile};

use crate::rng::Rng;
use world::DurabilityWorld;

/// Runs the program of a seed.
///
/// # Errors
///
/// If an invariant does not hold: a description, with the step.
///
/// # Example
///
/// ```
/// use foreread_sim::durability::{Sabotage, run};
///
/// let outcome = run(7, Sabotage::None).expect("nothing acknowledged is lost");
/// assert!(outcome.steps > 0);
/// ```
pub fn run(seed: u64, sabotage: Sabotage) -> Result<DurabilityOutcome, String> {
    let mut rng = Rng::named(seed, "program");
    let mut world = DurabilityWorld::new(seed, sabotage, &mut rng);
    let steps = 1 + rng.below(320);
    for step in 0..steps {
        let op = program::draw(&mut rng);
        world.apply(&op).map_err(|why| format!("step {step}, {op:?}: {why}"))?;
    }
    let end = program::draw_end(&mut rng);
    let outcome = DurabilityOutcome { steps, ..world.outcome() };
    world.end(end).map_err(|why| format!("after {steps} steps, {end:?}: {why}"))?;
    Ok(outcome)
}
