//! The rule on real devices, as udev itself takes it.
//!
//! In:    loop devices, this machine's `/etc/udev/rules.d` and `udevadm test`.
//! Out:   one device is set, another is not, and then all is as it was.
//! Never: a rule that stays: it is removed also when a test fails. Its name is that of a file which
//!        only this test has, so it could match nothing else.

use crate::common::Command;
use crate::remember_common;

use std::fs;
use std::path::{Path, PathBuf};

use foreread_tune::identity::identity;
use foreread_tune::remember::{forget, remember, rule_path, store_path, verify};
use foreread_tune::sysfs::SystemRoot;
use remember_common::{Fake, Loop, needs, report, window};

const DATE: &str = "2026-03-01";

/// A file of this machine that is gone at the end.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn can(test: &str) -> bool {
    needs("root", None, test)
        && needs("tools", Some("udevadm"), test)
        && needs("tools", Some("losetup"), test)
        && needs("loop", None, test)
}

/// What `udevadm test` says of a device, and its properties: it applies the rules' attributes.
fn udev(action: &str, name: &str) -> String {
    let device = format!("/sys/block/{name}");
    let output = Command::new("udevadm").args(["test", "--action", action, &device]).output();
    let output = output.expect("udevadm runs");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

fn is_remembered(text: &str, id: &str) -> bool {
    text.lines().any(|line| line == format!("FOREREAD_ID={id}"))
}

#[test]
fn udev_sets_this_device_and_no_other() {
    let test = "udev_sets_this_device_and_no_other";
    if !can(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // All that is special in udev's patterns and can be quoted; the second file differs in one
    // character that a careless pattern would match as well.
    let ours = Loop::over(&folder.path().join("a*b [c]?\"d\\e$f%k.img"));
    let other = Loop::over(&folder.path().join("axb [c]?\"d\\e$f%k.img"));
    let sys = SystemRoot::here();
    let (was_kib, other_kib) = (ours.window_kib(), other.window_kib());
    let kib = was_kib + 128;

    let id = identity(&sys, &ours.name).expect("it has one").id;
    let guards = [rule_path(&id), store_path(&id)].map(Gone);
    let (settings, before) = (window(&ours.name, kib), window(&ours.name, was_kib));
    let kept = remember(&sys, &ours.name, &report(&ours.name), &settings, &before, DATE)
        .unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(kept.identity.id, id);

    for action in ["add", "change"] {
        let text = udev(action, &ours.name);
        assert!(is_remembered(&text, &id), "{action}: {text}");
        assert!(!text.contains("99-foreread-loop-") || !text.contains("nvalid"), "{text}");
        assert_eq!(ours.window_kib(), kib, "{action}: {text}");
        window(&ours.name, was_kib)[0].set(&sys).expect("it is set back");
        let text = udev(action, &other.name);
        assert!(!is_remembered(&text, &id), "{action}: {text}");
        assert_eq!(other.window_kib(), other_kib, "{action}: {text}");
    }
    udev("remove", &ours.name);
    assert_eq!(ours.window_kib(), was_kib, "a device that goes is left alone");

    udev("add", &ours.name);
    let verdict = verify(&sys).into_iter().find(|verdict| verdict.id == id).expect("it is there");
    assert!(verdict.is_good(), "{verdict:?}");
    assert_eq!(verdict.device.as_deref(), Some(ours.name.as_str()));

    let forgotten = forget(&sys, &ours.name).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(forgotten.restored, before);
    assert_eq!(ours.window_kib(), was_kib);
    assert!(!is_remembered(&udev("add", &ours.name), &id));
    assert_eq!(ours.window_kib(), was_kib);
    assert!(guards.iter().all(|Gone(path)| !path.exists()));
}

#[test]
fn a_name_with_blanks_at_its_end_is_found_by_udev() {
    let test = "a_name_with_blanks_at_its_end_is_found_by_udev";
    if !can(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Loop::over(&folder.path().join("serial numbers end so.img  "));
    let sys = SystemRoot::here();
    let id = identity(&sys, &ours.name).expect("it has one").id;
    let _guards = [rule_path(&id), store_path(&id)].map(Gone);
    let settings = window(&ours.name, ours.window_kib());
    remember(&sys, &ours.name, &report(&ours.name), &settings, &[], DATE).expect("remembered");
    assert!(is_remembered(&udev("change", &ours.name), &id));
    forget(&sys, &id).expect("it is forgotten");
    assert!(!is_remembered(&udev("change", &ours.name), &id), "nor does udev remember it");
}

#[test]
fn two_loops_over_one_file_are_refused() {
    let test = "two_loops_over_one_file_are_refused";
    if !can(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let one = Loop::over(&folder.path().join("twice.img"));
    let other = Loop::over(&one.backing);
    let line = identity(&SystemRoot::here(), &one.name).expect_err("there are two").to_string();
    assert!(line.contains(&one.name) && line.contains(&other.name), "{line}");
}

/// A small file system over a folder; it is unmounted at the end.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: &Path, kib: u64) -> Self {
        fs::create_dir_all(at).expect("a folder");
        let options = format!("size={kib}k");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(at)
            .status()
            .expect("mount runs");
        assert!(status.success(), "a tmpfs can be mounted");
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = crate::common::unmount(&self.0);
    }
}

#[test]
fn a_full_or_read_only_disk_leaves_nothing_and_says_so() {
    let test = "a_full_or_read_only_disk_leaves_nothing_and_says_so";
    if !needs("root", None, test) || !needs("tools", Some("mount"), test) {
        return;
    }
    for (folder, other) in
        [("/etc/udev/rules.d", "/var/lib/foreread"), ("/var/lib/foreread", "/etc/udev/rules.d")]
    {
        let fake = Fake::new();
        fake.nvme("nvme0n1", 0, "eui.0025385b71b0a2c1");
        let at = fake.sys.path(folder);
        let mounted = Mounted::tmpfs(&at, 16);
        let try_it = || {
            let settings = window("nvme0n1", 512);
            remember(&fake.sys, "nvme0n1", &report("nvme0n1"), &settings, &settings, DATE)
        };
        let is_empty = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count) == 0;

        fs::write(at.join("fill"), vec![1; 16 << 10]).expect("it fits");
        let error = try_it().expect_err("it is full").to_string();
        assert!(error.starts_with(folder) && error.contains("No space left"), "{error}");
        assert!(error.contains("nothing was remembered") && !error.contains('\n'), "{error}");
        fs::remove_file(at.join("fill")).expect("it is removed");
        assert!(is_empty(&at) && is_empty(&fake.sys.path(other)));

        let status =
            Command::new("mount").args(["-o", "remount,ro"]).arg(&at).status().expect("mount runs");
        assert!(status.success());
        let error = try_it().expect_err("it is read-only").to_string();
        assert!(error.starts_with(folder) && error.contains("Read-only"), "{error}");
        assert!(is_empty(&at) && is_empty(&fake.sys.path(other)));
        drop(mounted);
        try_it().expect("now it can");
    }
}
