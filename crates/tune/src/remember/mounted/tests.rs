//! Remembered mounts, in a folder that stands for a system.

use std::fs;

use super::*;
use crate::report::{Compared, Method};

fn report() -> Report {
    Report {
        device: "/mnt".into(),
        seconds: 50.0,
        method: Method::Kernel,
        sweep: Vec::new(),
        random: Vec::new(),
        parallel: Vec::new(),
        plateau_kib: Some(1024),
        best_kib: Some(1024),
        plateau_between_kib: None,
        recommended: None,
        refusals: Vec::new(),
        compared: Compared::default(),
        notes: Vec::new(),
        restored: true,
    }
}

struct MountedSystem {
    _root: tempfile::TempDir,
    sys: SystemRoot,
}

impl MountedSystem {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let machine = Self { _root: root, sys };
        machine.put("/usr/bin/foreread", "");
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.sys.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        fs::write(path, text).expect("it is written");
    }

    /// Mounted at /mnt, with this number and window.
    fn mount(&self, minor: u32, source: &str, window: &str) {
        let line = format!("40 1 0:{minor} / /mnt rw - nfs4 {source} rw,rsize=1048576\n");
        self.put("/proc/self/mountinfo", &line);
        self.put(&format!("/sys/class/bdi/0:{minor}/read_ahead_kb"), window);
    }

    fn window(&self, minor: u32) -> String {
        self.sys.text(format!("/sys/class/bdi/0:{minor}/read_ahead_kb")).expect("it is there")
    }

    fn known(&self, bdi: &str, is_until_unmount: bool, to: u64, before: u64) -> RememberedMount {
        let mount = TunedMount {
            point: "/mnt".into(),
            fs: "nfs4".into(),
            source: "srv:/a".into(),
            bdi: bdi.into(),
            kernel_kib: None,
        };
        RememberedMount {
            id: RememberedMount::id_of(&mount),
            mount: "/mnt".into(),
            fs: "nfs4".into(),
            source: "srv:/a".into(),
            date: "2026-03-01".into(),
            report: report(),
            read_ahead_kb: to,
            before_kb: Some(before),
            is_until_unmount,
            bdi: bdi.into(),
        }
    }

    fn remember(&self, known: RememberedMount) -> RememberedMount {
        remember_mount(&self.sys, known, Path::new("/usr/bin/foreread")).expect("it is noted")
    }
}

#[test]
fn the_window_follows_the_mount_to_its_next_number() {
    let machine = MountedSystem::new();
    machine.mount(52, "srv:/a", "1024\n");
    machine.remember(machine.known("0:52", false, 1024, 128));
    assert!(verify_mounts(&machine.sys)[0].findings.is_empty());
    machine.mount(57, "srv:/a", "128\n");
    assert_eq!(verify_mounts(&machine.sys)[0].findings.len(), 1);
    let followed = follow(&machine.sys, Some("0:57"));
    assert_eq!((followed.len(), &followed[0].result), (1, &Ok(1024)));
    assert_eq!(machine.window(57), "1024");
    assert_eq!(follow(&machine.sys, None), [], "it is in force");
    let undone = forget_mount(&machine.sys, "/mnt").expect("it is removed").expect("it is known");
    assert_eq!(machine.window(57), "128");
    assert_eq!(undone.removed.len(), 2, "{undone:?}");
    assert_eq!(mounts_remembered(&machine.sys), ListedMounts::default());
    assert_eq!(forget_mount(&machine.sys, "/mnt").expect("no file"), None);
}

#[test]
fn another_mount_at_the_same_place_is_left_alone() {
    let machine = MountedSystem::new();
    machine.mount(52, "srv:/a", "1024\n");
    machine.remember(machine.known("0:52", false, 1024, 128));
    machine.mount(53, "other:/b", "128\n");
    assert_eq!(follow(&machine.sys, None), []);
    assert_eq!(machine.window(53), "128");
    let undone = forget_mount(&machine.sys, "/mnt").expect("it is removed").expect("it is known");
    assert_eq!(undone.left.as_deref(), Some("it is not mounted"));
}

#[test]
fn what_was_there_before_the_first_time_is_set_back() {
    let machine = MountedSystem::new();
    machine.mount(52, "srv:/a", "512\n");
    machine.remember(machine.known("0:52", true, 512, 128));
    machine.put("/sys/class/bdi/0:52/read_ahead_kb", "2048\n");
    let known = machine.remember(machine.known("0:52", false, 2048, 512));
    assert_eq!(known.before_kb, Some(128));
    assert_eq!(mounts_remembered(&machine.sys).mounts.len(), 1, "the other note is gone");
    forget_mount(&machine.sys, &known.id).expect("it is removed").expect("it is known");
    assert_eq!(machine.window(52), "128");
}

#[test]
fn a_value_of_another_program_is_left() {
    let machine = MountedSystem::new();
    machine.mount(52, "srv:/a", "4096\n");
    machine.remember(machine.known("0:52", true, 1024, 128));
    let undone = forget_mount(&machine.sys, "/mnt").expect("it is removed").expect("it is known");
    assert!(undone.left.expect("it is left").contains("did not set"));
    assert_eq!(machine.window(52), "4096");
}

#[test]
fn a_rule_that_is_gone_or_a_program_that_moved_is_said() {
    let machine = MountedSystem::new();
    machine.mount(52, "srv:/a", "1024\n");
    machine.remember(machine.known("0:52", false, 1024, 128));
    fs::remove_file(machine.sys.path("/usr/bin/foreread")).expect("it is removed");
    let found = verify_mounts(&machine.sys)[0].findings.join(" ");
    assert!(found.contains("runs /usr/bin/foreread, which does not exist"), "{found}");
    fs::remove_file(machine.sys.path(MOUNT_RULE)).expect("it is removed");
    let found = verify_mounts(&machine.sys)[0].findings.join(" ");
    assert!(found.contains("is gone"), "{found}");
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_the_others_are_read() {
    let machine = MountedSystem::new();
    machine.put("/var/lib/foreread/mounts/mount-x.json", "{");
    machine.mount(52, "srv:/a", "1024\n");
    machine.remember(machine.known("0:52", false, 1024, 128));
    let listed = mounts_remembered(&machine.sys);
    assert_eq!((listed.mounts.len(), listed.unreadable.len()), (1, 1));
    assert_eq!(verify_mounts(&machine.sys).len(), 2);
}
