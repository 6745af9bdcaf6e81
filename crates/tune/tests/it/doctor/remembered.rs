//! What doctor says of windows that were measured and remembered, or set until the next boot.
//!
//! In:    systems made of text, and what is remembered of their devices.
//! Out:   findings.
//! Never: a record on disk.

use foreread_tune::doctor::{Confidence, ExaminationInput, RememberedWindow};
use foreread_tune::report::WindowResult;

use super::{checks_of, examined, of};

#[test]
fn what_was_measured_and_remembered_is_what_counts() {
    let remembered = |kib| {
        [RememberedWindow {
            device: "sda".into(),
            read_ahead_kb: kib,
            date: "2026-11-20".into(),
            is_until_boot: false,
            rows: Vec::new(),
        }]
    };
    let kept = remembered(8192);
    let examination = examined(
        "cloud-disk",
        &ExaminationInput { remembered: &kept, ..ExaminationInput::default() },
    );
    assert_eq!(checks_of(&examination, "sda"), Vec::<&str>::new(), "as measured");
    let lost = remembered(1024);
    let examination = examined(
        "cloud-disk",
        &ExaminationInput { remembered: &lost, ..ExaminationInput::default() },
    );
    let drift = of(&examination, "sda", "read-ahead-not-as-remembered");
    let command = "echo 1024 > /sys/block/sda/queue/read_ahead_kb";
    assert_eq!(
        drift.mend[0],
        format!("{command} # 8192 KiB (8M) was not measured in the same run")
    );
    assert_eq!(drift.confidence, Confidence::Measured);
}

/// Doctor called a finding what tune had set with --apply.
#[test]
fn what_was_applied_until_the_next_boot_counts_as_long_as_it_is_in_force() {
    let row = |window_kib, mb_per_s| WindowResult {
        window_kib,
        mb_per_s,
        low: 1.0,
        high: 9.0,
        samples: 9,
    };
    let one = |read_ahead_kb, is_until_boot| RememberedWindow {
        device: "sda".into(),
        read_ahead_kb,
        date: "2026-11-20".into(),
        is_until_boot,
        rows: vec![row(1024, 220.7), row(8192, 219.0)],
    };
    let found = |remembered: &[RememberedWindow]| {
        let examination =
            examined("cloud-disk", &ExaminationInput { remembered, ..ExaminationInput::default() });
        let notes =
            examination.devices.iter().find(|it| it.device == "sda").expect("it").notes.join("");
        let mend = examination.findings.iter().find(|it| it.device == "sda");
        (checks_of(&examination, "sda").join(" "), notes, mend.map(|it| it.mend[0].clone()))
    };
    let (checks, notes, _) = found(&[one(8192, true)]);
    assert_eq!(checks, "");
    assert!(notes.contains("set until the next boot"), "{notes}");
    // It lies over what is remembered.
    assert_eq!(found(&[one(1024, false), one(8192, true)]).0, "");
    // Something else has set another value since: what was for this boot only is no claim.
    assert_eq!(found(&[one(1024, true)]).0, "read-ahead-from-rotational");
    let (_, _, mend) = found(&[one(1024, false)]);
    let mend = mend.expect("a command");
    assert!(mend.ends_with("# measured here: 221 MB/s with it, 219 with 8192"), "{mend}");
}
