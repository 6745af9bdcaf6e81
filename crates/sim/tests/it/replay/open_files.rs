//! Programs that keep open what they have read: a trace has no closes.

use std::fmt::Write as _;

use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;
use foreread_sim::replay::{ReplayFigures, ReplayPace};
use foreread_sim::size::Size;

use super::playing::{HEADING, how, play};

/// Each read, as `tar` does it.
const READ: u64 = 10 << 10;

/// The reads of a file of so many bytes, from its start to its end.
fn read_whole(text: &mut String, file: &str, bytes: u64) {
    for offset in (0..bytes).step_by(usize::try_from(READ).unwrap()) {
        let _ = writeln!(text, "0,1,r,{file},{offset},{}", READ.min(bytes - offset));
    }
}

/// So many files of 2 to 44 KiB, and then one of so many MiB.
fn files(small: u64, large_mib: u64) -> String {
    let mut text = HEADING.to_owned();
    for number in 0..small {
        read_whole(&mut text, &format!("/small/{number}"), (1 + number * 7 % 22) << 11);
    }
    read_whole(&mut text, "/large", large_mib << 20);
    text
}

fn replayed(policy: Policy, text: &str) -> ReplayFigures {
    let mut how = how(policy, ReplayPace::Closed { think: 0.0 });
    how.cache.memory = Size(ByteCount(4 << 20));
    play(text, &how)
}

/// All of the small files counted for seconds with what had been ahead of their readers, and the
/// large one had windows of a few pages: a third more waiting than with `linux-6`.
#[test]
fn a_large_file_after_thousands_of_small_ones_is_read_as_fast_as_alone() {
    let large_alone = |policy| {
        let [both, small, large] =
            [files(1500, 24), files(1500, 0), files(0, 24)].map(|text| replayed(policy, &text));
        let after_others = both.requests - small.requests;
        println!("{policy:?}: {after_others} requests after others, {} alone", large.requests);
        (both.waited_ns, after_others, large.requests)
    };
    let (waited_ns, after_others, alone) = large_alone(Policy::Adaptive);
    assert!(after_others <= alone + alone / 20, "{after_others} requests, alone {alone}");
    let (linux_ns, ..) = large_alone(Policy::Linux6);
    assert!(waited_ns <= linux_ns, "{waited_ns} ns of waiting, linux-6 {linux_ns}");
}
