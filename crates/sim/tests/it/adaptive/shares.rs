//! Users of one cache: shares of memory, as windows.

use super::{measure, scenario};

/// The mean window of the processes whose names begin so, in pages.
fn mean_window(measured: &foreread_sim::rivals::MeasuredRun, prefix: &str) -> f64 {
    let all = measured.of(prefix);
    let pages: u64 = all.iter().map(|done| done.window_pages).sum();
    let windows: u64 = all.iter().map(|done| done.windows).sum();
    println!("{prefix}: {windows} windows of {} pages", pages as f64 / windows as f64);
    pages as f64 / windows as f64
}

#[test]
fn weights_of_one_and_three_give_windows_of_one_and_three() {
    let measured = measure(&scenario("shares-one-to-three"));
    let ratio = mean_window(&measured, "three-") / mean_window(&measured, "one-");
    assert!((2.7..=3.3).contains(&ratio), "{ratio}");
    assert_eq!(measured.to.evicted_unread, 0);
}

/// Half of the memory is more than one client can use: it has the largest window that there is, an
/// eighth of the frames or what the device can use. Were it one of 101, it would have a hundredth.
#[test]
fn one_client_beside_a_hundred_of_another_user_keeps_what_it_can_use() {
    let measured = measure(&scenario("shares-hundred-beside-one"));
    let (one, others) = (mean_window(&measured, "one-"), mean_window(&measured, "hundred-"));
    assert!(one >= 0.9 * f64::from(measured.ran.frames) / 8.0, "{one} pages");
    assert!(one > 4.0 * others, "{one} {others}");
    assert_eq!(measured.to.evicted_unread, 0);
}
