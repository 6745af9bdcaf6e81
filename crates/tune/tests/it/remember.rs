//! Remembered, looked after, and forgotten, in fake systems.
//!
//! In:    devices and files of a system in a folder.
//! Out:   the rule as people read it (golden), records, verdicts.
//! Never: this machine's own rules; those are tried in remember_real.rs.

mod applied;
use crate::remember_common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use foreread_tune::identity::identity;
use foreread_tune::remember::conflict::Wins;
use foreread_tune::remember::{
    NotForgotten, NotRemembered, Remembered, Verification, VerifyFinding, forget, list, recall,
    remember, rule_path, store_path, verify,
};
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use remember_common::{Fake, report, window};

const SERIAL: &str = "4C530001230712117";
const DATE: &str = "2026-03-01";

fn stick() -> Fake {
    let fake = Fake::new();
    fake.stick("sdb", 16, Some(SERIAL));
    fake
}

fn keep(sys: &SystemRoot, device: &str, kib: u64) -> Remembered {
    let before = window(device, 128);
    remember(sys, device, &report(device), &window(device, kib), &before, DATE)
        .unwrap_or_else(|why| panic!("{why}"))
}

fn only(sys: &SystemRoot) -> Verification {
    let mut verdicts = verify(sys);
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    verdicts.remove(0)
}

fn of(device: &str, attribute: &str, value: &str) -> DeviceSetting {
    DeviceSetting { device: device.into(), attribute: attribute.into(), value: value.into() }
}

#[test]
fn the_rule_says_what_it_is_and_sets_one_device() {
    let fake = stick();
    let settings = [
        of("sdb", "queue/read_ahead_kb", "512"),
        of("sdb", "queue/nr_requests", "64"),
        of("sdb", "queue/iosched/fifo_batch", "4"),
        of("sdb", "queue/scheduler", "mq-deadline"),
        of("sdb", "/sys/fs/ext4/sdb1/inode_readahead_blks", "64"),
    ];
    let before = [of("sdb", "queue/read_ahead_kb", "128"), of("sdb", "queue/scheduler", "none")];
    let kept = remember(&fake.sys, "sdb", &report("sdb"), &settings, &before, DATE)
        .expect("it is remembered");
    assert_eq!(kept.left_out, settings[4..], "a file system's is not the rule's to set");
    let path = rule_path(&kept.identity.id);
    let text = fake.text(&path).expect("the rule");
    assert_eq!(text, kept.rule);
    let golden = format!("{}/tests/golden/remember.rules", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&golden, &text).expect("it is written");
    }
    assert_eq!(text, fs::read_to_string(&golden).unwrap_or_default(), "./dev golden if meant");
    // A report that came from elsewhere cannot become a rule.
    let commands = text.lines().filter(|line| !line.starts_with('#') && line.contains("RUN"));
    assert_eq!(commands.count(), 0);
    for path in [path, store_path(&kept.identity.id)] {
        let mode = fs::metadata(fake.sys.path(&path)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{}", path.display());
        let folder = fake.sys.path(path.parent().expect("a folder"));
        assert_eq!(fs::read_dir(folder).expect("a folder").count(), 1, "nothing lies beside it");
    }
    assert_eq!(list(&fake.sys).remembered, [kept]);
}

#[test]
fn what_was_before_the_first_time_stays() {
    let fake = stick();
    keep(&fake.sys, "sdb", 512);
    let second = [of("sdb", "queue/nr_requests", "64")];
    // By now what was set before is our own window.
    let before = [of("sdb", "queue/read_ahead_kb", "512"), of("sdb", "queue/nr_requests", "2")];
    let kept = remember(&fake.sys, "sdb", &report("sdb"), &second, &before, DATE).expect("again");
    assert_eq!(
        kept.settings,
        [of("sdb", "queue/nr_requests", "64"), of("sdb", "queue/read_ahead_kb", "512")]
    );
    assert_eq!(
        kept.before,
        [of("sdb", "queue/read_ahead_kb", "128"), of("sdb", "queue/nr_requests", "2")]
    );
    assert_eq!(list(&fake.sys).remembered, [kept]);
}

#[test]
fn what_no_rule_can_hold_is_refused() {
    let fake = stick();
    for bad in [
        of("sdb", "queue/read_ahead_kb", "512\", RUN+=\"x"),
        of("sdb", "queue/read_ahead_kb", "$env{X}"),
        of("sdb", "queue/read_ahead_kb", ""),
        of("sdb", "queue/../../x", "1"),
        of("sdb", "device/delete", "1"),
    ] {
        let kept =
            remember(&fake.sys, "sdb", &report("sdb"), std::slice::from_ref(&bad), &[], DATE);
        assert!(matches!(kept, Err(NotRemembered::InvalidSetting(it)) if it == bad));
    }
    let mut odd = report("sdb");
    odd.sweep[0].low = f64::NAN;
    let kept = remember(&fake.sys, "sdb", &odd, &window("sdb", 512), &[], DATE);
    assert!(matches!(kept, Err(NotRemembered::File { .. })), "it could not be read again");
    let none = remember(&fake.sys, "sdb", &report("sdb"), &[], &[], DATE);
    assert!(matches!(none, Err(NotRemembered::NothingToKeep { .. })));
    assert!(!fake.sys.path("/etc").exists() && !fake.sys.path("/var").exists());
}

#[test]
fn a_rule_that_cannot_be_written_leaves_nothing_behind() {
    let fake = stick();
    // Where the folder of rules should be there is a file.
    fake.file("/etc/udev/rules.d", "");
    let kept = remember(&fake.sys, "sdb", &report("sdb"), &window("sdb", 512), &[], DATE);
    let error = kept.expect_err("there is no folder").to_string();
    assert!(error.starts_with("/etc/udev/rules.d/99-foreread-usb-") && !error.contains('\n'));
    assert!(list(&fake.sys).remembered.is_empty());
    let id = identity(&fake.sys, "sdb").expect("it has one").id;
    assert!(!fake.sys.path(store_path(&id)).exists());

    // And a record that was there is there again.
    let fake = stick();
    let first = keep(&fake.sys, "sdb", 512);
    let rules = fake.sys.path("/etc/udev/rules.d");
    fs::remove_dir_all(&rules).expect("it is removed");
    fs::write(&rules, "").expect("a file");
    remember(&fake.sys, "sdb", &report("sdb"), &window("sdb", 64), &[], DATE).expect_err("no");
    assert_eq!(list(&fake.sys).remembered, [first]);
}

#[test]
fn a_rule_that_foreread_did_not_write_stays() {
    let theirs = "KERNEL==\"sdb\", ATTR{queue/read_ahead_kb}=\"64\"\n";
    for is_masked in [false, true] {
        let fake = stick();
        let id = identity(&fake.sys, "sdb").expect("it has one").id;
        let rule = rule_path(&id);
        fake.file(rule.to_str().expect("a name"), theirs);
        let place = fake.sys.path(&rule);
        if is_masked {
            fs::remove_file(&place).expect("it is removed");
            symlink("/dev/null", &place).expect("a link");
        }
        let kept = remember(&fake.sys, "sdb", &report("sdb"), &window("sdb", 512), &[], DATE);
        let error = kept.expect_err("it is not ours").to_string();
        let why = if is_masked { "is a symbolic link" } else { "was not written by foreread" };
        assert!(error.contains(why) && error.contains("nothing was remembered"), "{error}");
        assert_eq!(place.is_symlink(), is_masked);
        assert!(is_masked || fake.text(&rule).as_deref() == Some(theirs));
        assert!(list(&fake.sys).remembered.is_empty());
    }
}

#[test]
fn a_broken_record_is_named_and_the_others_are_read() {
    let fake = stick();
    let kept = keep(&fake.sys, "sdb", 512);
    fake.file("/var/lib/foreread/usb-half-1.json", "{\"identity\":");
    fake.file("/var/lib/foreread/other.json", &fake.text(store_path(&kept.identity.id)).expect(""));
    fake.file("/var/lib/foreread/first-boot-done", "");
    let listed = list(&fake.sys);
    assert_eq!(listed.remembered, [kept]);
    let lines: Vec<_> = listed.unreadable.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("/var/lib/foreread/other.json: it is the record of usb-"));
    assert!(lines[1].starts_with("/var/lib/foreread/usb-half-1.json: EOF"), "{}", lines[1]);
    assert!(lines[1].ends_with("foreread tune forget usb-half-1"));
    // It can be forgotten, with its rule.
    fake.file("/etc/udev/rules.d/99-foreread-usb-half-1.rules", "ATTR{x}=\"1\"\n");
    assert_eq!(forget(&fake.sys, "usb-half-1").expect("it is forgotten").removed.len(), 2);
    assert_eq!(verify(&fake.sys).len(), 2);
}

#[test]
fn drift_is_found_and_what_may_have_caused_it() {
    let fake = stick();
    keep(&fake.sys, "sdb", 512);
    let drift = only(&fake.sys);
    assert!(!drift.is_good(), "the rule has not been applied yet");
    let set = |kib| window("sdb", kib)[0].set(&fake.sys).expect("it is set");
    set(512);
    assert_eq!(only(&fake.sys).findings, []);

    set(4096);
    let by_hand = only(&fake.sys).findings[0].to_string();
    assert!(
        by_hand
            .contains("/sys/block/sdb/queue/read_ahead_kb is 4096 instead of the remembered 512")
    );
    assert!(by_hand.ends_with("by hand?"), "{by_hand}");

    let rule = "KERNEL==\"sd*\", ATTR{bdi/read_ahead_kb}=\"4096\"\n";
    fake.file("/etc/udev/rules.d/99-local.rules", rule);
    let verdict = only(&fake.sys);
    let VerifyFinding::Drift { now, who, .. } = &verdict.findings[0] else { panic!("{verdict:?}") };
    assert_eq!(now.as_deref(), Some("4096"));
    assert_eq!(who[0].file.to_str(), Some("/etc/udev/rules.d/99-local.rules"));
    assert!(matches!(&verdict.findings[1], VerifyFinding::Overridden(it) if it.wins == Wins::Yes));

    fake.file("/etc/udev/rules.d/99-local.rules", &rule.replace("4096", "512"));
    set(512);
    assert_eq!(only(&fake.sys).findings, [], "a file that sets the same is no finding");
}

#[test]
fn what_became_of_the_rule() {
    let fake = stick();
    let kept = keep(&fake.sys, "sdb", 512);
    window("sdb", 512)[0].set(&fake.sys).expect("it is set");
    let file = rule_path(&kept.identity.id);
    let here = fake.sys.path(&file);

    let shipped = format!("/usr/lib/udev/rules.d/99-foreread-{}.rules", kept.identity.id);
    fake.file(&shipped, "# of the distribution\n");
    let verdict = only(&fake.sys);
    assert_eq!(verdict.findings, [VerifyFinding::Hides { file: shipped.clone().into() }]);
    assert!(verdict.is_good());
    fs::remove_file(fake.sys.path(shipped)).expect("it is removed");

    fs::write(&here, format!("{}# edited\n", kept.rule)).expect("it is written");
    assert_eq!(only(&fake.sys).findings, [VerifyFinding::Edited { file: file.clone() }]);

    fs::remove_file(&here).expect("it is removed");
    assert_eq!(only(&fake.sys).findings, [VerifyFinding::RuleMissing { file: file.clone() }]);

    symlink("/dev/null", &here).expect("a link");
    assert_eq!(only(&fake.sys).findings, [VerifyFinding::Masked { file: file.clone() }]);

    fs::remove_file(fake.sys.path(store_path(&kept.identity.id))).expect("it is removed");
    fs::remove_file(&here).expect("it is removed");
    fs::write(&here, &kept.rule).expect("it is written");
    assert_eq!(only(&fake.sys).findings, [VerifyFinding::NoRecord { file: file.clone() }]);
    assert_eq!(forget(&fake.sys, &kept.identity.id).expect("by its id").removed, [file]);
}

#[test]
fn a_device_is_known_under_another_name_or_absent() {
    let fake = stick();
    let kept = keep(&fake.sys, "sdb", 512);
    let unplug = || fs::remove_file(fake.sys.path("/sys/block/sdb")).expect("it is gone");
    unplug();
    let absent = only(&fake.sys);
    assert_eq!((absent.device.as_deref(), absent.is_good()), (None, true));
    assert_eq!(absent.findings, [VerifyFinding::Absent]);

    fake.stick("sdf", 80, Some(SERIAL));
    assert_eq!(only(&fake.sys).device.as_deref(), Some("sdf"));
    window("sdf", 512)[0].set(&fake.sys).expect("it is set");
    assert!(only(&fake.sys).is_good());

    // A copy appears: verify says so, and forget sets both back.
    fake.stick("sdg", 96, Some(SERIAL));
    window("sdg", 512)[0].set(&fake.sys).expect("it is set");
    let copies = VerifyFinding::Copies { devices: vec!["sdf".into(), "sdg".into()] };
    assert_eq!(only(&fake.sys).findings, [copies]);
    let forgotten = forget(&fake.sys, "sdf").expect("by its name of today");
    assert_eq!(forgotten.devices, ["sdf", "sdg"]);
    assert_eq!(forgotten.restored, [window("sdf", 128), window("sdg", 128)].concat());
    assert_eq!(forgotten.id, kept.identity.id);
}

#[test]
fn forgotten_is_as_before() {
    let fake = stick();
    keep(&fake.sys, "sdb", 512);
    window("sdb", 512)[0].set(&fake.sys).expect("it is set");
    let forgotten = forget(&fake.sys, "/dev/sdb").expect("it is forgotten");
    assert_eq!(window("sdb", 0)[0].in_force(&fake.sys).as_deref(), Some("128"));
    assert_eq!(forgotten.removed.len(), 2);
    assert!(forgotten.to_string().contains("restored /sys/block/sdb/queue/read_ahead_kb = 128"));
    assert!(verify(&fake.sys).is_empty());
    let again = forget(&fake.sys, "sdb").expect_err("it is gone");
    assert_eq!(again.to_string(), "sdb: not remembered; see foreread tune --list");
}

#[test]
fn a_file_systems_setting_is_undone_while_it_is_ours_and_its_name_is_the_same() {
    let blocks = |value: &str| of("sdb", "/sys/fs/ext4/sdb1/inode_readahead_blks", value);
    let kept = |fake: &Fake| {
        fake.file("/sys/fs/ext4/sdb1/inode_readahead_blks", "32\n");
        let settings = [window("sdb", 512), vec![blocks("16")]].concat();
        let before = [window("sdb", 128), vec![blocks("32")]].concat();
        remember(&fake.sys, "sdb", &report("sdb"), &settings, &before, DATE).expect("remembered");
        settings.iter().for_each(|setting| setting.set(&fake.sys).expect("it is set"));
    };
    let fake = stick();
    kept(&fake);
    assert_eq!(forget(&fake.sys, "sdb").expect("it is forgotten").restored.len(), 2);
    assert_eq!(blocks("").in_force(&fake.sys).as_deref(), Some("32"));

    // What was mounted anew since has the file system's own.
    let fake = stick();
    kept(&fake);
    blocks("8").set(&fake.sys).expect("it is set");
    let forgotten = forget(&fake.sys, "sdb").expect("it is forgotten");
    assert_eq!((forgotten.restored.len(), forgotten.left), (1, vec![]));

    // Another disk is sdb today: its file system is none of ours.
    let fake = stick();
    kept(&fake);
    fs::remove_file(fake.sys.path("/sys/block/sdb")).expect("it is gone");
    fake.stick("sdf", 80, Some(SERIAL));
    window("sdf", 512)[0].set(&fake.sys).expect("it is set");
    assert_eq!(forget(&fake.sys, "sdf").expect("it is forgotten").restored, window("sdf", 128));
    assert_eq!(blocks("").in_force(&fake.sys).as_deref(), Some("16"));
}

#[test]
fn a_value_set_by_another_process_since_is_left() {
    let fake = stick();
    keep(&fake.sys, "sdb", 512);
    window("sdb", 777)[0].set(&fake.sys).expect("it is set");
    let forgotten = forget(&fake.sys, "sdb").expect("it is forgotten");
    assert!(forgotten.restored.is_empty());
    assert_eq!(forgotten.left[0].1, "it is 777 now, a value that foreread did not set");
    assert_eq!(window("sdb", 0)[0].in_force(&fake.sys).as_deref(), Some("777"));
}

#[test]
fn the_old_name_counts_only_while_no_other_device_has_it() {
    let fake = stick();
    let kept = keep(&fake.sys, "sdb", 512);
    fs::remove_file(fake.sys.path("/sys/block/sdb")).expect("it is gone");
    let other = Fake::new();
    // Another stick is sdb today.
    let fake_id = kept.identity.id.clone();
    fake.stick("sdb-of-another", 32, Some("another"));
    let to = fs::read_link(fake.sys.path("/sys/block/sdb-of-another")).expect("a link");
    symlink(to, fake.sys.path("/sys/block/sdb")).expect("a link");
    let refused = forget(&fake.sys, "sdb").expect_err("it is not the one");
    assert!(matches!(&refused, NotForgotten::Unknown { meant, .. } if *meant == [fake_id.clone()]));
    assert!(refused.to_string().ends_with(&format!("foreread tune forget {fake_id}")));
    fs::remove_file(fake.sys.path("/sys/block/sdb")).expect("it is gone");
    let forgotten = forget(&fake.sys, "sdb").expect("now it can only be the one");
    assert!(forgotten.devices.is_empty() && forgotten.removed.len() == 2);
    assert!(forgotten.to_string().contains("its device is not attached"));
    assert!(forget(&other.sys, "sdb").is_err());
}

#[test]
fn a_partition_is_forgotten_with_its_disk() {
    let fake = stick();
    keep(&fake.sys, "sdb", 512);
    let part = "/sys/block/sdb/sdb1";
    fake.file(&format!("{part}/dev"), "8:17\n").file(&format!("{part}/partition"), "1\n");
    assert_eq!(recall(&fake.sys, "sdb1").expect("it is known").device, "sdb");
    assert_eq!(forget(&fake.sys, "sdb1").expect("it is forgotten").devices, ["sdb"]);
}
