//! A run held against the lines of another: the first event that differs is named, with both.

use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_core::path::Config;
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, Pages, Sector};
use foreread_sim::device::known;
use foreread_sim::record::{RecordMode, TraceDifference};
use foreread_sim::run::{RunOutcome, SimRun};

/// Two readers of one file, one on from the other.
fn run(keep: RecordMode) -> RunOutcome {
    let config = Config {
        memory: ByteCount(8 << 20),
        policy: Policy::Linux6,
        max_window: Pages(DEFAULT_WINDOW.0 / 4096),
        rules: Rules::default(),
    };
    let mut run = SimRun::new(config, 1, keep).unwrap();
    let model = &known::find("usb-stick-2g").unwrap().model;
    let device = run.device("stick", model, &SchedulerKind::Noop).unwrap();
    let file = run.file(device, Sector(0), ByteCount(4 << 20));
    for name in ["first", "second"] {
        run.spawn(name, async move |process| {
            let reader = process.open(file);
            let mut rng = process.rng(name);
            for _ in 0..20 {
                let pos = ByteCount(rng.below(1000) * 4096);
                reader.read(pos, ByteCount(8192)).await.unwrap();
                reader.read(pos + ByteCount(8192), ByteCount(4096)).await.unwrap();
            }
        });
    }
    run.go(Nanos(u64::MAX));
    run.end()
}

fn lines() -> Vec<String> {
    let ran = run(RecordMode::Lines);
    assert!(ran.lines.len() as u64 == ran.events && ran.events > 100, "{} events", ran.events);
    ran.lines
}

fn difference(lines: Vec<String>) -> Option<TraceDifference> {
    run(RecordMode::Compare(lines)).difference
}

#[test]
fn a_run_does_not_differ_from_itself() {
    assert_eq!(difference(lines()), None);
}

#[test]
fn what_is_kept_does_not_change_a_run() {
    let hash = run(RecordMode::Hash).hash;
    let others = [RecordMode::Lines, RecordMode::Log, RecordMode::Compare(vec!["another".into()])];
    assert_eq!(others.map(|keep| run(keep).hash), [hash; 3]);
}

#[test]
fn a_line_that_was_changed_is_named_with_both_texts() {
    let lines = lines();
    for at in [0, 57, lines.len() - 1] {
        let mut changed = lines.clone();
        changed[at] = "0.000000000 another".into();
        let found = difference(changed).expect("it differs");
        let got = Some(lines[at].clone());
        assert_eq!(
            found,
            TraceDifference { line: at + 1, wanted: Some("0.000000000 another".into()), got }
        );
        let text = format!(
            "event {}: there \"0.000000000 another\", here \"{}\"",
            at + 1,
            lines[at].escape_debug()
        );
        assert_eq!(found.to_string(), text);
    }
}

#[test]
fn of_several_that_were_changed_the_first_is_named() {
    let mut changed = lines();
    changed[90] = "x".into();
    changed[30] = "y".into();
    let found = difference(changed).expect("it differs");
    assert_eq!((found.line, found.wanted.as_deref()), (31, Some("y")));
}

#[test]
fn a_line_that_is_missing_is_where_the_next_one_stands() {
    let lines = lines();
    let mut shorter = lines.clone();
    shorter.remove(57);
    let (wanted, got) = (Some(lines[58].clone()), Some(lines[57].clone()));
    assert_eq!(difference(shorter), Some(TraceDifference { line: 58, wanted, got }));
}

#[test]
fn a_line_too_many_is_named() {
    let lines = lines();
    let mut longer = lines.clone();
    longer.insert(57, "extra".into());
    let (wanted, got) = (Some("extra".into()), Some(lines[57].clone()));
    assert_eq!(difference(longer), Some(TraceDifference { line: 58, wanted, got }));
}

#[test]
fn the_end_of_either_is_a_difference_too() {
    let lines = lines();
    let last = lines.len();
    let (cut, got) = (lines[..last - 1].to_vec(), Some(lines[last - 1].clone()));
    let found = difference(cut).expect("it goes on");
    assert_eq!(found, TraceDifference { line: last, wanted: None, got });
    assert!(found.to_string().contains("there \"(the end)\", here "), "{found}");

    let mut longer = lines;
    longer.push("extra".into());
    let wanted = Some("extra".into());
    let found = difference(longer).expect("it is over");
    assert_eq!(found, TraceDifference { line: last + 1, wanted, got: None });
    assert!(found.to_string().ends_with("here \"(the end)\""), "{found}");
}
