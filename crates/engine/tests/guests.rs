//! Code of others that runs inside calls of the engine, and what it may do there: wakers that are
//! dropped or called, iterators, panics that unwind.

mod common;
mod support;

use foreread::{Engine, Policy};
use support::{PAGE, Watchdog, read_and_check, wait_until_idle, write_file};
use tempfile::TempDir;

/// A database finds its next pages by reading others: its iterator once waited for the engine's
/// mutex, which its caller held.
#[test]
fn the_ranges_of_a_hint_may_come_from_reads_of_the_same_engine() {
    let _watchdog = Watchdog::new("the_ranges_of_a_hint_may_come_from_reads");
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, 4 << 20);
    let engine = Engine::builder().memory(8 << 20).policy(Policy::None).build().unwrap();
    let file = engine.open(&path).unwrap();
    let ranges = (0..4).map(|number| {
        let at = number << 20;
        read_and_check(&file, 1, &mut [0; 8], at);
        at + PAGE..at + 3 * PAGE
    });
    assert_eq!(file.will_need(ranges).unwrap(), 8);
    wait_until_idle(&engine);
}
