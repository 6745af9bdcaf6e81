//! Damaged traces of each format, more than the random ones of `round_trip`: a few thousand here;
//! `cargo run --release -p foreread-trace --example mutate` reads millions.

#[path = "support/mutation.rs"]
mod mutation;

use foreread_trace::TraceFormat;

#[test]
fn no_damage_makes_a_reader_panic_or_break_its_promises() {
    for format in TraceFormat::ALL {
        mutation::read_damaged(format, 1, 1500);
    }
}
