//! `foreread-lab sim grid`, as a user runs it, on the devices that take a moment.

use crate::said;

const NEAR: [&str; 3] = ["sim", "grid", "0.15ms-48x-1200MB-1024K"];

#[test]
fn a_row_for_each_device_and_number_of_readers() {
    let args = [&NEAR[..], &["--readers", "3"]].concat();
    let rows = said::json(&[&args[..], &["--json"]].concat());
    let cells: Vec<_> = rows.iter().map(|row| (&row["latency_us"], &row["readers"])).collect();
    assert_eq!(cells, [(&150.into(), &1.into()), (&150.into(), &3.into())]);
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap();
        let ratio = number("learnt_mb_per_s") / number("best_mb_per_s");
        assert!((ratio - number("whole")).abs() < 1e-9, "{row}");
        // No reader is faster than the bus of the device.
        assert!((1.0..=1200.0).contains(&number("learnt_mb_per_s")), "{row}");
    }

    // The table says the same.
    let text = said::stdout(&args);
    let whole = format!("{:.3}", rows[1]["whole"].as_f64().unwrap());
    assert!(text.lines().nth(2).is_some_and(|line| line.contains(&whole)), "{text}");
    assert!(text.contains("of 2 cells"), "{text}");
}

#[test]
fn what_readers_do_changes_the_figures() {
    let mb_per_s = |load: &str| {
        let rows = said::json(&[&NEAR[..], &["--load", load, "--json"]].concat());
        rows[0]["best_mb_per_s"].as_f64().unwrap()
    };
    let full = mb_per_s("full");
    assert!(mb_per_s("paced") <= 150.0 && full > 300.0, "{full}");
}

#[test]
fn an_unknown_device_or_load_is_refused() {
    let text = said::refused(&["sim", "grid", "8ms"]);
    assert!(text.contains("8ms: no device has this in its name"), "{text}");
    let text = said::refused(&["sim", "grid", "--readers", "1"]);
    assert!(text.contains("2..=64"), "{text}");
}
