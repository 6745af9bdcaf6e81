//! `store`: latency, connections, the link.

use foreread_sim::device::DeviceParams;

use crate::devices::bench::{assert_us, ends, in_turn, model, read};

/// 1 ms to the first byte; 4 KiB take 100 us on a connection, and 50 us on the link.
fn store(connections: u32) -> DeviceParams {
    model(&format!(
        "[store]\ncapacity = '1G'\nlatency_ms = 1\nconnection_mb_per_s = 40.96\n\
         link_mb_per_s = 81.92\nconnections = {connections}"
    ))
}

fn times(connections: u32, count: u64) -> Vec<f64> {
    let processes: Vec<_> = (0..count).map(|index| vec![read(index * 1000, 8)]).collect();
    ends(&store(connections), &processes).into_iter().map(|(_, end)| end).collect()
}

#[test]
fn a_request_takes_its_latency_and_its_transfer_on_a_connection() {
    assert_us(&in_turn(&store(1), &[read(0, 8), read(1000, 16)]), &[1100.0, 2300.0]);
    assert_us(&times(1, 3), &[1100.0, 2200.0, 3300.0]);
}

#[test]
fn all_connections_together_have_no_more_than_the_link() {
    assert_us(&times(8, 2), &[1100.0, 1100.0]);
    assert_us(&times(8, 4), &[1100.0, 1100.0, 1150.0, 1200.0]);
}
