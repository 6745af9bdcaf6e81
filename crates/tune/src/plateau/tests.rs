//! Plateaus of curves that are known.

use super::*;

fn curve(points: &[(u64, f64)]) -> Curve {
    let readings = (0..8).flat_map(|round| {
        points.iter().map(move |(kib, mb_per_s)| Reading {
            window: Bytes(kib << 10),
            round,
            mb_per_s: *mb_per_s,
        })
    });
    Curve::of(&readings.collect::<Vec<_>>())
}

#[test]
fn without_noise_the_plateau_is_the_smallest_window_with_98_percent_of_the_largest() {
    let of = |points: &[(u64, f64)]| curve(points).plateau().map(|at| at.window.0 >> 10);
    assert_eq!(of(&[(4, 97.9), (8, 98.1), (16, 100.0)]), Some(8));
    assert_eq!(of(&[(4, 100.0), (8, 80.0), (16, 100.0)]), Some(4), "a dip is behind it");
    assert_eq!(of(&[(4, 50.0), (8, 120.0), (16, 90.0), (32, 100.0)]), Some(8));
    assert_eq!(of(&[(4, 1.0)]), Some(4));
    assert_eq!(of(&[]), None);
}

#[test]
fn a_device_that_slows_down_takes_nothing_from_the_windows_that_come_last() {
    let readings: Vec<_> = (0..40_u32)
        .flat_map(|round| {
            let slower = 1.0 - 0.01 * f64::from(round);
            // The small window has gone after ten rounds, when the device was still fast.
            let rows = [(4, 90.0), (8, 99.0), (16, 100.0)];
            let rows = rows.into_iter().filter(move |(kib, _)| *kib > 4 || round < 10);
            rows.map(move |(kib, full)| Reading {
                window: Bytes(kib << 10),
                round,
                mb_per_s: full * slower,
            })
        })
        .collect();
    let curve = Curve::of(&readings);
    let share = curve.points[0].mb_per_s() / curve.points[2].mb_per_s();
    assert!((share - 0.9).abs() < 0.005, "{share}");
    assert_eq!(curve.plateau().map(|at| at.window), Some(Bytes(8 << 10)));
    assert!(curve.drift().is_some_and(|share| share > 0.2), "{:?}", curve.drift());
}

#[test]
fn a_stall_in_a_fifth_of_the_readings_moves_nothing() {
    let readings: Vec<_> = (0..20_u32)
        .flat_map(|round| {
            let stalled = if round % 5 == 0 { 0.4 } else { 1.0 };
            let rows = [(4, 96.0, 1.0), (8, 99.0, stalled), (16, 100.0, 1.0)];
            rows.map(|(kib, full, share)| Reading {
                window: Bytes(kib << 10),
                round,
                mb_per_s: full * share,
            })
        })
        .collect();
    let curve = Curve::of(&readings);
    assert!((curve.points[1].mb_per_s() - 99.0).abs() < 0.5, "{:?}", curve.points[1]);
    assert_eq!(curve.plateau().map(|at| at.window), Some(Bytes(8 << 10)));
}
