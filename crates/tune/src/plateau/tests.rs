//! Plateaus of curves that are known.

use super::*;

fn curve(points: &[(u64, f64)]) -> Curve {
    let readings = (0..8).flat_map(|round| {
        points.iter().map(move |(kib, mb_per_s)| Reading {
            window: ByteCount(kib << 10),
            round,
            mb_per_s: *mb_per_s,
        })
    });
    Curve::of(&readings.collect::<Vec<_>>())
}

#[test]
fn without_noise_the_plateau_is_the_smallest_window_with_98_percent_of_the_best() {
    let of = |points: &[(u64, f64)]| curve(points).plateau().map(|at| at.window.0 >> 10);
    assert_eq!(of(&[(4, 97.9), (8, 98.1), (16, 100.0)]), Some(8));
    assert_eq!(of(&[(4, 100.0), (8, 80.0), (16, 100.0)]), Some(4), "a dip is behind it");
    assert_eq!(of(&[(4, 50.0), (8, 120.0), (16, 90.0), (32, 100.0)]), Some(8));
    assert_eq!(of(&[(4, 90.0), (8, 100.0), (16, 120.0), (32, 91.0)]), Some(16), "it falls again");
    assert_eq!(of(&[(4, 1.0)]), Some(4));
    assert_eq!(of(&[]), None);
}

#[test]
fn another_share_is_another_line() {
    let readings: Vec<_> = (0..8)
        .flat_map(|round| {
            [(4, 96.9), (8, 97.1), (16, 100.0)].map(|(kib, mb_per_s)| Reading {
                window: ByteCount(kib << 10),
                round,
                mb_per_s,
            })
        })
        .collect();
    let of = |share| Curve::with_share(&readings, share).plateau().map(|at| at.window.0 >> 10);
    assert_eq!((of(0.96), of(0.97), of(0.98)), (Some(4), Some(8), Some(16)));
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
                window: ByteCount(kib << 10),
                round,
                mb_per_s: full * slower,
            })
        })
        .collect();
    let curve = Curve::of(&readings);
    let share = curve.points[0].mb_per_s() / curve.points[2].mb_per_s();
    assert!((share - 0.9).abs() < 0.005, "{share}");
    assert_eq!(curve.plateau().map(|at| at.window), Some(ByteCount(8 << 10)));
    assert!(curve.drift().is_some_and(|share| share > 0.2), "{:?}", curve.drift());
}

#[test]
fn a_stall_in_a_fifth_of_the_readings_moves_nothing() {
    let readings: Vec<_> = (0..20_u32)
        .flat_map(|round| {
            let stalled = if round % 5 == 0 { 0.4 } else { 1.0 };
            let rows = [(4, 96.0, 1.0), (8, 99.0, stalled), (16, 100.0, 1.0)];
            rows.map(|(kib, full, share)| Reading {
                window: ByteCount(kib << 10),
                round,
                mb_per_s: full * share,
            })
        })
        .collect();
    let curve = Curve::of(&readings);
    assert!((curve.points[1].mb_per_s() - 99.0).abs() < 0.5, "{:?}", curve.points[1]);
    assert_eq!(curve.plateau().map(|at| at.window), Some(ByteCount(8 << 10)));
}

/// The loop device that was set from 2560K (10535 MB/s) to 128K: the largest window was as slow as
/// 128K, and that was the reference.
#[test]
fn a_curve_that_falls_behind_its_best_is_measured_against_its_best() {
    let found = [(64, 3100.0), (128, 4430.0), (256, 6900.0), (512, 9800.0), (1024, 11914.0)];
    let behind = [(2048, 10535.0), (4096, 8100.0), (8192, 6000.0), (16384, 4480.0)];
    let points: Vec<_> = found.into_iter().chain(behind).collect();
    let plateau = curve(&points).plateau().expect("a plateau");
    assert_eq!((plateau.window.0 >> 10, plateau.best.0 >> 10), (1024, 1024));
}

#[test]
fn one_lucky_reading_is_no_reference() {
    let mut readings: Vec<_> = (0..12_u32)
        .flat_map(|round| {
            let noise = 1.0 + 0.03 * f64::from(round % 3) - 0.03;
            [(4, 50.0), (8, 99.5), (16, 100.0)].map(|(kib, full)| Reading {
                window: ByteCount(kib << 10),
                round,
                mb_per_s: full * noise,
            })
        })
        .collect();
    readings.push(Reading { window: ByteCount(12 << 10), round: 11, mb_per_s: 109.0 });
    let found = Curve::of(&readings);
    let plateau = found.plateau().expect("a plateau");
    assert_eq!((plateau.window.0 >> 10, plateau.best.0 >> 10), (8, 16));
    assert_eq!(found.contender(), Some(ByteCount(12 << 10)), "it is read again");
}
