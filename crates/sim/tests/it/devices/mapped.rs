//! `mapped`: the size of a device, and what it makes of each command.

use foreread_sim::device::DeviceParams;

use crate::devices::bench::{assert_us, ends, in_turn, model, read};

/// 4 KiB in 100 us below, and 10 us for each bio.
fn mapped(capacity: &str, reader: &str) -> DeviceParams {
    model(&format!(
        "[mapped]\non.flash = {{ capacity = '1G', mb_per_s = 40.96, depth = 8 }}\nat = '63s'\n\
         capacity = '{capacity}'\nreader = '{reader}'\nbio_us = 10"
    ))
}

#[test]
fn an_odd_size_costs_a_bio_for_each_sector() {
    let page = [read(0, 8)];
    assert_us(&in_turn(&mapped("1870000s", "per-block"), &page), &[100.0 + 10.0]);
    assert_us(&in_turn(&mapped("1870001s", "per-block"), &page), &[100.0 + 80.0]);
    assert_us(&in_turn(&mapped("1870002s", "per-block"), &page), &[100.0 + 40.0]);
    assert_us(&in_turn(&mapped("1870004s", "per-block"), &page), &[100.0 + 20.0]);
}

#[test]
fn a_reader_of_runs_does_not_see_the_size() {
    let pages = [read(0, 64)];
    for capacity in ["1870000s", "1870001s"] {
        assert_us(&in_turn(&mapped(capacity, "multi-block"), &pages), &[800.0 + 10.0]);
    }
}

#[test]
fn the_device_below_gets_the_next_command_when_the_bios_have_ended() {
    let processes: Vec<_> = (0..3).map(|index| vec![read(index * 1000, 8)]).collect();
    let ends = ends(&mapped("1870001s", "per-block"), &processes);
    let times: Vec<_> = ends.into_iter().map(|(_, end)| end).collect();
    assert_us(&times, &[180.0, 360.0, 540.0]);
}

#[test]
fn a_mapped_disk_knows_where_it_lies() {
    // Ten ms a turn of 1000 sectors: sector 37 is sector 100 below, and comes by at 1 ms.
    let disk = model(
        "[mapped]\nat = '63s'\ncapacity = '1000000s'\nreader = 'multi-block'\nbio_us = 0\n\
         on.hdd = { capacity = '1G', rpm = 6000, outer_mb_per_s = 51.2, inner_mb_per_s = 51.2, \
         seek_min_ms = 1, seek_max_ms = 11 }",
    );
    assert_us(&in_turn(&disk, &[read(37, 8)]), &[1080.0]);
}
