//! Windows that are set until the next boot, and how they are forgotten.
//!
//! In:    `tune --apply` on a device of a fake system.
//! Out:   the note of it, and the values after it is forgotten.
//! Never: a device that was not set.

use std::fs;

use foreread_tune::remember::{
    Applied, NotForgotten, applied, applied_on, forget, forget_applied, note_applied, original,
    remember,
};
use foreread_tune::sysfs::SystemRoot;

use super::remember_common::{report, window};
use super::{DATE, stick};

/// Sets a window until the next boot, as `tune --apply` does.
fn apply(sys: &SystemRoot, device: &str, kib: u64) {
    let now = window(device, 0)[0].in_force(sys).expect("it has one");
    let settings = window(device, kib);
    let before = window(device, now.parse().expect("a number"));
    let (device, date) = (device.to_owned(), DATE.to_owned());
    let report = report(&device);
    let applied = Applied { device, diskseq: None, date, report, settings, before };
    note_applied(sys, applied.clone()).expect("it is noted");
    applied.settings[0].set(sys).expect("it is set");
}

fn in_force(sys: &SystemRoot, device: &str) -> String {
    window(device, 0)[0].in_force(sys).expect("it has one")
}

#[test]
fn what_was_applied_until_the_next_boot_is_forgotten_too() {
    let fake = stick();
    let sys = &fake.sys;
    let first = in_force(sys, "sdb");
    apply(sys, "sdb", 1024);
    apply(sys, "sdb", 2048);
    assert_eq!(applied(sys).len(), 1);
    let done = forget(sys, "/dev/sdb").expect("it is undone");
    assert_eq!(done.restored.len(), 1, "{done:?}");
    assert_eq!(in_force(sys, "sdb"), first, "as before the first of them");
    assert_eq!(applied_on(sys, "sdb"), None);
    assert!(matches!(forget(sys, "sdb"), Err(NotForgotten::Unknown { .. })));
}

#[test]
fn what_others_have_set_since_an_apply_is_left() {
    let fake = stick();
    apply(&fake.sys, "sdb", 1024);
    window("sdb", 300)[0].set(&fake.sys).expect("it is set");
    let done = forget(&fake.sys, "sdb").expect("it is undone");
    assert_eq!((done.restored.len(), done.left.len()), (0, 1), "{done:?}");
    assert_eq!(in_force(&fake.sys, "sdb"), "300");
}

#[test]
fn to_remember_after_an_apply_goes_back_to_before_it() {
    let fake = stick();
    let sys = &fake.sys;
    let first = in_force(sys, "sdb");
    apply(sys, "sdb", 1024);
    let before = original(applied_on(sys, "sdb").as_ref(), &window("sdb", 1024));
    assert_eq!(before[0].value, first);
    remember(sys, "sdb", &report("sdb"), &window("sdb", 512), &before, DATE).expect("remembered");
    assert!(forget_applied(sys, "sdb").expect("the note is gone"));
    window("sdb", 512)[0].set(sys).expect("it is set");
    // And an apply that lies over what is remembered is undone first.
    apply(sys, "sdb", 4096);
    forget(sys, "sdb").expect("both are undone");
    assert_eq!(in_force(sys, "sdb"), first);
}

#[test]
fn another_device_of_the_same_name_is_not_the_one_that_was_set() {
    let fake = stick();
    let seq = |number: &str| {
        let folder = fs::canonicalize(fake.sys.path("/sys/block/sdb")).expect("its folder");
        fs::write(folder.join("diskseq"), number).expect("it is written");
    };
    seq("17\n");
    apply(&fake.sys, "sdb", 1024);
    seq("18\n");
    assert_eq!(applied_on(&fake.sys, "sdb"), None);
    assert_eq!(applied(&fake.sys), []);
    assert!(matches!(forget(&fake.sys, "sdb"), Err(NotForgotten::Unknown { .. })));
}
