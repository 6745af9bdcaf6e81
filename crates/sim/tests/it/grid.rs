//! The grid of devices: its cells, what is measured in each, and the distribution.
//!
//! `foreread-lab sim grid` runs all cells; the figures are in docs/design/devices.md. Everything is
//! virtual: a test that fails fails everywhere.

use foreread_sim::grid::{self, GridCell, GridLoad, GridSpread};

/// The fixed windows among which the best one of each of these cells is.
const WINDOWS: [u64; 3] = [2 << 20, 8 << 20, 16 << 20];

fn far(latency_us: u32, max_command_kib: u32, readers: u32, load: GridLoad) -> GridCell {
    GridCell { latency_us, parallel: 48, mb_per_s: 1200, max_command_kib, readers, load }
}

#[test]
fn it_has_48_devices_each_with_one_reader_and_with_several() {
    let cells = GridCell::all(8, GridLoad::Full);
    let mut devices: Vec<_> = cells.iter().map(GridCell::device).collect();
    devices.dedup();
    assert_eq!((cells.len(), devices.len()), (96, 48));
    assert!(cells.iter().all(|cell| cell.total_bytes() == u64::from(cell.readers.max(4)) << 28));
    assert_eq!(far(45_000, 256, 1, GridLoad::Full).device(), "45ms-48x-1200MB-256K");
    devices.sort();
    devices.dedup();
    assert_eq!(devices.len(), 48, "no name stands for two devices");
}

#[test]
fn a_cell_runs_alike_again_and_every_load_makes_a_difference() {
    let whole = |load, window| {
        let cell = GridCell { mb_per_s: 180, ..far(7_000, 1024, 1, load) };
        grid::run(&cell, &[window]).best_mb_per_s
    };
    let full = whole(GridLoad::Full, 1 << 20);
    let of = |load| whole(load, 1 << 20) / full;
    let same = of(GridLoad::Full);
    assert!((same - 1.0).abs() < f64::EPSILON, "{same}");
    let (paced, slower, faster) = (of(GridLoad::Paced), of(GridLoad::Slower), of(GridLoad::Faster));
    assert!(paced < 1.0 && slower < 0.7 && faster > 1.05, "{paced} {slower} {faster}");
    let jitter = of(GridLoad::Jitter);
    assert!((0.7..0.999).contains(&jitter), "{jitter}");
}

/// Windows that are too small are seen as such: the best one is looked for among those given.
#[test]
fn the_best_window_is_the_one_that_is_fastest() {
    let cell = far(7_000, 1024, 1, GridLoad::Full);
    let small = grid::run(&cell, &[128 << 10]);
    let best = grid::run(&cell, &[128 << 10, 16 << 20, 1 << 20]);
    assert_eq!(best.best_window, 16 << 20);
    assert!(best.best_mb_per_s > 5.0 * small.best_mb_per_s, "{best:?} {small:?}");
    assert!((best.learnt_mb_per_s - small.learnt_mb_per_s).abs() < f64::EPSILON);
}

#[test]
fn rows_come_in_the_order_of_the_cells() {
    let near = |mb_per_s, readers| GridCell {
        parallel: 8,
        mb_per_s,
        ..far(150, 1024, readers, GridLoad::Full)
    };
    let cells = [near(180, 1), near(1200, 2), near(1200, 1)];
    let rows = grid::run_all(&cells, 2, &|_, _| {});
    assert_eq!(rows.iter().map(|row| row.cell).collect::<Vec<_>>(), cells);
}

#[test]
fn a_spread_counts_the_cells_below_each_limit() {
    let spread = GridSpread::of([0.96, 0.5, 1.0, 0.9]).unwrap();
    assert_eq!((spread.below_90, spread.below_95, spread.below_97), (1, 2, 3));
    assert!((spread.min - 0.5).abs() < 1e-9 && (spread.median - 0.93).abs() < 1e-9);
    assert_eq!(GridSpread::of([]), None);
}

/// On a device with one head more in flight brings nothing, and windows stay small.
#[test]
fn one_head_far_away_is_as_fast_as_with_the_best_window() {
    for readers in [1, 8] {
        let cell = GridCell { parallel: 1, ..far(7_000, 1024, readers, GridLoad::Full) };
        let row = grid::run(&cell, &WINDOWS);
        assert!(row.whole > 0.97 && row.second_half > 0.97, "{row:?}");
    }
}

/// Each size on the way to the right window was tried eight times, one request at a time, and only
/// every second window told how many requests were served at once: 0.71 to 0.82 of the best.
#[test]
fn one_reader_of_a_far_device_learns_in_a_tenth_of_a_gigabyte() {
    for cell in [
        far(45_000, 1024, 1, GridLoad::Full),
        far(45_000, 256, 1, GridLoad::Full),
        far(7_000, 1024, 1, GridLoad::Full),
        GridCell { parallel: 8, ..far(45_000, 1024, 1, GridLoad::Full) },
        GridCell { mb_per_s: 180, ..far(45_000, 1024, 1, GridLoad::Full) },
    ] {
        let row = grid::run(&cell, &WINDOWS);
        assert!(row.whole > 0.89 && row.second_half > 0.97, "{row:?}");
    }
}

/// No reader leaves the device idle, so no request tells its cost: how latency grows with the
/// number of requests in flight does.
#[test]
fn eight_readers_of_far_devices_that_serve_many_have_what_the_best_window_gives() {
    for cell in [
        far(45_000, 1024, 8, GridLoad::Full),
        far(45_000, 256, 8, GridLoad::Full),
        far(7_000, 256, 8, GridLoad::Full),
        GridCell { mb_per_s: 180, ..far(45_000, 256, 8, GridLoad::Full) },
        far(45_000, 1024, 8, GridLoad::Jitter),
    ] {
        let row = grid::run(&cell, &WINDOWS);
        assert!(row.whole > 0.90 && row.second_half > 0.97, "{row:?}");
    }
}

/// By the cost that was learnt before, the device looked as if it served fewer at once, and then
/// fewer still: 0.08 of the best window, with two requests in flight to the end.
#[test]
fn two_readers_of_a_device_that_becomes_slower_keep_their_windows() {
    let cell = GridCell { mb_per_s: 180, ..far(45_000, 256, 2, GridLoad::Slower) };
    let row = grid::run(&cell, &WINDOWS);
    assert!(row.whole > 0.70, "{row:?}");
}
