//! `hdd`: a disk of which every time can be computed by hand.
//!
//! One turn takes 10 ms and passes 1000 sectors, so a sector takes 10 us and sector n of a track
//! comes by at n x 10 us of each turn. A move of the arm takes 1 ms, and 10 ms more for the whole
//! way, in proportion.

use foreread_sim::device::DeviceParams;

use crate::devices::bench::{after, assert_us, ends, in_turn, model, read, write};

const TURN_US: f64 = 10_000.0;

fn disk(more: &str) -> DeviceParams {
    model(&format!(
        "[hdd]\ncapacity = '1G'\nrpm = 6000\nouter_mb_per_s = 51.2\ninner_mb_per_s = 51.2\n\
         seek_min_ms = 1\nseek_max_ms = 11\nseek_root_share = 0.0\n{more}"
    ))
}

/// Where the last track that is whole begins: in the last of 16 zones, behind 130 others.
const LAST_TRACK: u64 = 2_097_152 / 16 * 15 + 130 * 1000;

#[test]
fn a_read_under_the_head_takes_its_transfer() {
    assert_us(&in_turn(&disk(""), &[read(0, 8)]), &[80.0]);
}

#[test]
fn the_same_track_costs_a_turn_and_no_seek() {
    // Sector 500 comes by at 5 ms; then 100 again, at 11 ms.
    assert_us(&in_turn(&disk(""), &[read(500, 8), read(100, 8)]), &[5080.0, TURN_US + 1080.0]);
}

#[test]
fn the_shortest_move_takes_seek_min() {
    // To the next track: 1.005 ms. Sector 110 of it comes by at 1.1 ms; 90 has passed at 0.9.
    assert_us(&in_turn(&disk(""), &[read(1110, 8)]), &[1180.0]);
    assert_us(&in_turn(&disk(""), &[read(1090, 8)]), &[TURN_US + 980.0]);
}

#[test]
fn the_longest_move_takes_seek_max() {
    // To the last track: 10.995 ms.
    let caught = in_turn(&disk(""), &[read(LAST_TRACK + 110, 8)]);
    assert_us(&caught, &[TURN_US + 1180.0]);
    let missed = in_turn(&disk(""), &[read(LAST_TRACK + 90, 8)]);
    assert_us(&missed, &[2.0 * TURN_US + 980.0]);
}

#[test]
fn the_root_of_the_distance_makes_short_moves_longer() {
    // A quarter of the way is half of the root's: 1 + 10 x 0.5 = 6 ms instead of 3.5.
    let quarter = 2_097_152 / 4;
    let model = |share: f64| {
        let DeviceParams::Hdd(mut disk) = disk("") else { panic!("it is a disk") };
        disk.seek_root_share = share;
        DeviceParams::Hdd(disk)
    };
    // 524288 begins a zone, so sector 500 behind it comes by at 5 ms.
    assert_us(&in_turn(&model(0.0), &[read(quarter + 500, 8)]), &[5080.0]);
    assert_us(&in_turn(&model(1.0), &[read(quarter + 500, 8)]), &[TURN_US + 5080.0]);
}

#[test]
fn inner_tracks_are_slower() {
    let DeviceParams::Hdd(mut disk) = disk("") else { panic!("it is a disk") };
    disk.inner_mb_per_s = 25.6;
    // 500 sectors a turn in the last zone: each takes 20 us, and the 55th comes by at 1.1 ms.
    let zone = 2_097_152 / 16 * 15;
    let at = zone + 260 * 500 + 55;
    assert_us(&in_turn(&DeviceParams::Hdd(disk), &[read(at, 8)]), &[TURN_US + 1100.0 + 160.0]);
}

#[test]
fn a_write_that_goes_on_without_a_buffer_loses_a_turn() {
    // The head is 100 us further when the second write has come.
    let writes = [write(0, 8), write(8, 8)];
    let bare = in_turn(&disk("overhead_us = 100"), &writes);
    assert_us(&bare, &[TURN_US + 80.0, 2.0 * TURN_US + 160.0]);
    let buffered = in_turn(&disk("overhead_us = 100\nwrite_buffer = true"), &writes);
    assert_us(&buffered, &[TURN_US + 80.0, TURN_US + 80.0 + 180.0]);
}

#[test]
fn a_read_buffer_reads_on_while_the_host_thinks() {
    let reads = [read(0, 8), after(5000, read(8, 256))];
    // It waits for sector 8 to come round again.
    let bare = in_turn(&disk("overhead_us = 100"), &reads);
    assert_us(&bare, &[TURN_US + 80.0, 2.0 * TURN_US + 80.0 + 2560.0]);
    // The drive has read 64K of the 128K, as far as its buffer goes: half of the transfer is left.
    let text = "overhead_us = 100\nread_buffer = '64K'";
    let buffered = in_turn(&disk(text), &reads);
    assert_us(&buffered, &[TURN_US + 80.0, TURN_US + 80.0 + 5000.0 + 100.0 + 1280.0]);
}

#[test]
fn a_drive_has_read_nothing_before_its_first_command() {
    // The bug this found: a drive at rest had its buffer full of what lies at sector 0.
    let text = "overhead_us = 100\nread_buffer = '64K'";
    let first = in_turn(&disk(text), &[after(5000, read(0, 8))]);
    assert_us(&first, &[TURN_US + 80.0]);
}

#[test]
fn a_read_buffer_is_of_no_use_to_a_write_between() {
    let text = "overhead_us = 100\nread_buffer = '64K'";
    let ends = in_turn(&disk(text), &[read(0, 8), write(8, 8)]);
    assert_us(&ends, &[TURN_US + 80.0, 2.0 * TURN_US + 160.0]);
}

/// Four commands at once: the first begins at once, the others wait inside.
fn order(model: &DeviceParams) -> Vec<usize> {
    // Half a turn away; two thirds of the disk away; a track away; half of the disk away.
    let far = LAST_TRACK - 100_000 + 900;
    let middle = 2_097_152 / 16 * 7 + 82_000 + 200;
    let starts = [0, far, 3500, middle];
    let processes = starts.map(|start| vec![read(start, 8)]);
    ends(model, &processes).into_iter().map(|(index, _)| index).collect()
}

#[test]
fn a_drive_that_picks_the_nearest_reorders_what_it_holds() {
    assert_eq!(order(&disk("depth = 4\npick = 'oldest'")), [0, 1, 2, 3]);
    assert_eq!(order(&disk("depth = 4\npick = 'nearest'")), [0, 2, 3, 1]);
}

#[test]
fn what_the_drive_does_not_hold_it_cannot_pick() {
    // Of two, one is at work, and the other is the only choice when that has ended.
    assert_eq!(order(&disk("depth = 1\npick = 'nearest'")), [0, 1, 2, 3]);
    assert_eq!(order(&disk("depth = 2\npick = 'nearest'")), [0, 1, 2, 3]);
    assert_eq!(order(&disk("depth = 3\npick = 'nearest'")), [0, 2, 3, 1]);
}

/// How many of 600 near reads end before one that is far and was asked first but one.
fn bypasses(age_weight: &str) -> usize {
    let near = |lane: u64| (0..200).map(|turn| read(lane * 300 + turn % 10 * 20, 8)).collect();
    let far = vec![read(LAST_TRACK, 8)];
    let processes = [near(0), far, near(1), near(2)];
    let model = disk(&format!("depth = 4\npick = 'nearest'\nage_weight = {age_weight}"));
    ends(&model, &processes).iter().take_while(|(index, _)| *index != 1).count()
}

#[test]
fn a_drive_that_is_blind_to_age_lets_one_wait_for_ever() {
    assert_eq!(bypasses("0"), 600, "all of the others");
}

#[test]
fn a_weight_for_age_ends_the_waiting() {
    let aged = bypasses("1");
    assert!((1..=10).contains(&aged), "{aged} went before it");
}
