//! Damaged traces of each format, more than the random ones of `round_trip`: a few thousand here;
//! `cargo run --release -p foreread-trace --example mutate -- --seconds 600` reads millions.

use crate::mutation;

use mutation::Subject;

#[test]
fn no_damage_makes_a_reader_panic_or_break_its_promises() {
    for subject in Subject::all() {
        assert!(mutation::read_damaged(subject, 1, 0..1500) > 0);
    }
}
