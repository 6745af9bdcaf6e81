//! The units and rules that are shipped, held to what systemd and udev say of them.
//!
//! In:    packaging/.
//! Out:   units that systemd-analyze finds nothing wrong with; a rule that picks new disks only.
//! Never: a unit started, a rule left in this machine.

use crate::common::Command;
use crate::remember_common;

use std::fs;
use std::path::{Path, PathBuf};

use foreread_tune::remember::rule_path;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::udev::{RuleMatch, UdevDevice, parse};
use remember_common::{Fake, Loop, needs};

const RULE: &str = "99-zz-foreread-new-device.rules";

fn shipped(name: &str) -> String {
    let path = format!("{}/../../packaging/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let test = "systemd_finds_nothing_wrong_with_the_units";
    if !needs("tools", Some("systemd-analyze"), test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, as_name) in [
        ("foreread-tune.service", "foreread-tune.service"),
        ("foreread-tune@.service", "foreread-tune@sdb.service"),
    ] {
        // The program is looked for, and is not installed here.
        let text = shipped(name).replace("/usr/bin/foreread", "/bin/true");
        let path = folder.path().join(as_name);
        fs::write(&path, text).expect("it is written");
        let output =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
        let output = output.expect("systemd-analyze runs");
        let says = String::from_utf8_lossy(&output.stderr);
        let of_ours = says.lines().filter(|line| line.contains("foreread"));
        assert_eq!(of_ours.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}");
        assert!(output.status.success(), "{name}: {says}");
    }
}

#[test]
fn the_units_call_what_the_program_has_and_may_write_where_it_writes() {
    for name in ["foreread-tune.service", "foreread-tune@.service"] {
        let text = shipped(name);
        assert!(text.contains(" --remember --yes\n"), "{name}");
        assert!(!text.contains("--seconds") && !text.contains("--force"), "{name}: a guess");
        let rules = rule_path("x");
        let folder = rules.parent().expect("a folder").display().to_string();
        for line in [
            format!("ConfigurationDirectory={}", folder.trim_start_matches("/etc/")).as_str(),
            "StateDirectory=foreread",
            "RuntimeDirectoryPreserve=yes",
            "DeviceAllow=block-* r",
            "KillSignal=SIGINT",
            // Without it the kernel's own read-ahead is not measured.
            "SystemCallFilter=mincore",
        ] {
            assert!(text.lines().any(|it| it == line), "{name}: {line}");
        }
        // These would make /sys read-only.
        assert!(!text.contains("ProtectKernelTunables="), "{name}");
        assert!(!text.contains("PrivateDevices="), "{name}");
    }
}

#[test]
fn the_rule_sorts_after_those_of_remembered_devices() {
    for id in ["usb-zzz-ffffffffffffffff", "virtio-a-0", "zzz"] {
        let path = rule_path(id);
        assert!(path.file_name().expect("a name").to_str().expect("text") < RULE);
    }
}

/// Whether no line of the rule jumps over the last one.
fn is_picked(fake: &Fake, name: &str) -> bool {
    let device = fake.sys.device(name).expect("it is there");
    let target = UdevDevice::block(&fake.sys, &device);
    let rules = parse(&shipped(RULE));
    let jumps = rules.iter().filter(|rule| rule.pairs.iter().any(|pair| pair.key == "GOTO"));
    assert_eq!(jumps.clone().count(), 7);
    jumps.map(|rule| target.answers("add", &rule.pairs)).all(|answer| answer == RuleMatch::No)
}

#[test]
fn only_new_disks_are_picked() {
    let fake = Fake::new();
    for (name, minor) in [("sdb", 16), ("sdc", 32), ("sdd", 48), ("sde", 64)] {
        fake.stick(name, minor, Some("4C53"));
        fake.file(&format!("/sys/block/{name}/size"), "1000\n");
        fake.file(&format!("/run/udev/data/b8:{minor}"), "E:ID_BUS=usb\n");
    }
    fake.file("/run/udev/data/b8:32", "E:FOREREAD_ID=usb-x-1\n");
    fake.file("/sys/block/sdd/size", "0\n");
    fake.file("/run/udev/data/b8:64", "E:SYNTH_UUID=0\n");
    fake.file("/sys/block/loop0/dev", "7:0\n").file("/sys/block/loop0/size", "1000\n");
    fake.file("/run/udev/data/b7:0", "E:X=1\n");
    let picked: Vec<_> = ["sdb", "sdc", "sdd", "sde", "loop0"]
        .into_iter()
        .filter(|it| is_picked(&fake, it))
        .collect();
    assert_eq!(picked, ["sdb"], "not the remembered, the empty, the old and the loop");
}

/// A file of this machine that is gone at the end.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn udev_starts_the_unit_for_a_new_disk_and_not_for_a_remembered_one() {
    let test = "udev_starts_the_unit_for_a_new_disk_and_not_for_a_remembered_one";
    if !needs("root", None, test)
        || !needs("tools", Some("udevadm"), test)
        || !needs("loop", None, test)
    {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Loop::over(&folder.path().join("new.img"));
    let device = SystemRoot::here().device(&disk.name).expect("it is there");
    // For this one loop device only, and as if loop devices were disks. The name has the process in
    // it, and sorts where the shipped one would.
    let only = format!("ENV{{DEVNAME}}!=\"{}\", GOTO=\"foreread_end\"\n", device.node().display());
    let text = format!("{only}{}", shipped(RULE).replace("loop*|", ""));
    let name = format!("99-zz-foreread-new-device-{}.rules", std::process::id());
    let file = Gone(Path::new("/etc/udev/rules.d").join(name));
    fs::write(&file.0, text).expect("the rule");
    let wants = format!("SYSTEMD_WANTS=foreread-tune@{}.service", disk.name);
    let starts = |action: &str| {
        let path = format!("/sys/block/{}", disk.name);
        let output = Command::new("udevadm").args(["test", "--action", action, &path]).output();
        let output = output.expect("udevadm runs");
        let says = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!String::from_utf8_lossy(&output.stderr).contains("Invalid"), "{output:?}");
        says.lines().any(|line| line == wants)
    };
    assert!(starts("add"));
    assert!(!starts("change"));

    let known = Gone(rule_path(&format!("test-{}", std::process::id())));
    let says =
        format!("ENV{{DEVNAME}}==\"{}\", ENV{{FOREREAD_ID}}=\"x\"\n", device.node().display());
    fs::write(&known.0, says).expect("the rule");
    assert!(!starts("add"), "it is remembered");
    drop(known);
    drop(file);
    assert!(!starts("change"), "and udev's database forgets it");
}
