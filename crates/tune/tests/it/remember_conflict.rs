//! Other files that set a window, as people and distributions write them.
//!
//! In:    fake systems with rules, profiles, units and scripts.
//! Out:   each that means the device, with its line, its value in KiB, and which value stays.
//! Never: one that means another device.

use crate::remember_common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use foreread_tune::remember::conflict::{Conflict, Wins, conflicts};
use foreread_tune::setting::READ_AHEAD_KB;
use remember_common::Fake;

fn disk() -> Fake {
    let fake = Fake::new();
    fake.nvme("nvme0n1", 0, "eui.0025385b71b0a2c1");
    fake.disk("pci0000:00/virtio1", "vda", "254:0\n")
        .file("/sys/devices/pci0000:00/virtio1/block/vda/serial", "rootdisk\n")
        .file("/sys/devices/pci0000:00/virtio1/block/vda/vda1/dev", "254:1\n")
        .file("/sys/devices/pci0000:00/virtio1/block/vda/vda1/partition", "1\n")
        .file("/sys/devices/virtual/bdi/254:0/read_ahead_kb", "128\n")
        .link("/sys/devices/pci0000:00/virtio1/block/vda/bdi", "/sys/devices/virtual/bdi/254:0");
    fake
}

fn windows(fake: &Fake) -> Vec<Conflict> {
    conflicts(&fake.sys, "vda", &[READ_AHEAD_KB])
}

/// The one conflict: its line, its value, and which value stays.
#[track_caller]
fn only(fake: &Fake) -> (usize, Option<String>, Wins) {
    let mut found = windows(fake);
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found.remove(0);
    (found.line, found.value, found.wins)
}

fn kib(value: &str) -> Option<String> {
    Some(value.to_owned())
}

fn rules(name: &str, text: &str) -> Fake {
    let fake = disk();
    fake.file(&format!("/etc/udev/rules.d/{name}"), text);
    fake
}

#[test]
fn rules_that_mean_the_device() {
    // As images of machines ship them; the last word is the later name's.
    let pinned = "SUBSYSTEM==\"block\", KERNEL==\"sd[a-z]*|vd[a-z]*\", ACTION==\"add|change\", \\\n\
                  \x20 ATTR{queue/read_ahead_kb}=\"128\"\n";
    assert_eq!(only(&rules("60-disk.rules", pinned)), (1, kib("128"), Wins::No));
    assert_eq!(only(&rules("99-zz.rules", pinned)), (1, kib("128"), Wins::Yes));
    let doubt = "PROGRAM==\"/usr/bin/is-fast %k\", ATTR{bdi/read_ahead_kb}=\"64\"\n";
    assert_eq!(only(&rules("99-zz.rules", doubt)), (1, kib("64"), Wins::Unknown));
    assert_eq!(only(&rules("60-a.rules", doubt)), (1, kib("64"), Wins::No));
    // A command runs after all rules, wherever it stands.
    let run = "\nKERNEL==\"vda\", RUN+=\"/sbin/blockdev --setra 512 /dev/%k\"\n";
    assert_eq!(only(&rules("10-a.rules", run)), (2, None, Wins::Yes));
    // One that was meant for NFS and matches every bdi there is.
    let bdi = "SUBSYSTEM==\"bdi\", ACTION==\"add\", ATTR{read_ahead_kb}=\"15380\"\n";
    assert_eq!(only(&rules("90-nfs-readahead.rules", bdi)), (1, kib("15380"), Wins::Unknown));
}

#[test]
fn rules_that_do_not() {
    for text in [
        "KERNEL==\"sd*\", ATTR{queue/read_ahead_kb}=\"4096\"\n",
        "ACTION==\"remove\", ATTR{queue/read_ahead_kb}=\"4096\"\n",
        "ATTR{queue/read_ahead_kb}==\"4096\", ENV{X}=\"1\"\n",
        "# ATTR{queue/read_ahead_kb}=\"4096\"\n",
        "ENV{DEVTYPE}==\"partition\", ATTR{queue/read_ahead_kb}=\"4096\"\n",
        "SUBSYSTEM!=\"block\", GOTO=\"end\"\nKERNEL!=\"sd*\", GOTO=\"end\"\n\
         ATTR{queue/read_ahead_kb}=\"4096\"\nLABEL=\"end\"\n",
        "SUBSYSTEM==\"bdi\", KERNEL==\"0:*\", ATTR{read_ahead_kb}=\"15380\"\n",
        "ATTRS{model}==\"*\", ATTR{queue/read_ahead_kb}=\"4096\"\n",
        "ATTR{queue/scheduler}=\"bfq\"\n",
    ] {
        assert_eq!(windows(&rules("99-zz.rules", text)), [], "{text}");
    }
}

#[test]
fn jumps_are_followed() {
    let jump = |ask: &str| {
        format!(
            "{ask}, GOTO=\"fast\"\nATTR{{queue/read_ahead_kb}}=\"128\"\nGOTO=\"end\"\n\
             LABEL=\"fast\"\nATTR{{queue/read_ahead_kb}}=\"4096\"\nLABEL=\"end\"\n"
        )
    };
    assert_eq!(only(&rules("99-z.rules", &jump("KERNEL==\"vd*\""))), (5, kib("4096"), Wins::Yes));
    assert_eq!(only(&rules("99-z.rules", &jump("KERNEL==\"sd*\""))), (2, kib("128"), Wins::Yes));
    let both = windows(&rules("99-z.rules", &jump("PROGRAM==\"x\"")));
    let wins: Vec<_> = both.iter().map(|it| (it.line, it.wins)).collect();
    assert_eq!(wins[0], (2, Wins::Unknown));
    let nowhere = "GOTO=\"x\"\nATTR{queue/read_ahead_kb}=\"1\"\n";
    assert_eq!(only(&rules("99-z.rules", nowhere)), (2, kib("1"), Wins::Yes), "no such label");
    // Only a removal is jumped over: what follows is reached.
    let text = "ACTION!=\"add\", GOTO=\"end\"\nATTR{queue/read_ahead_kb}=\"1\"\nLABEL=\"end\"\n";
    assert_eq!(only(&rules("99-z.rules", text)), (2, kib("1"), Wins::Yes));
}

#[test]
fn a_masked_or_hidden_rule_sets_nothing() {
    let set = "ATTR{queue/read_ahead_kb}=\"4096\"\n";
    let fake = disk();
    fake.file("/usr/lib/udev/rules.d/99-x.rules", set);
    assert_eq!(only(&fake).2, Wins::Yes);
    fs::create_dir_all(fake.sys.path("/etc/udev/rules.d")).expect("a folder");
    let mask = fake.sys.path("/etc/udev/rules.d/99-x.rules");
    symlink("/dev/null", &mask).expect("a link");
    assert_eq!(windows(&fake), []);
    fs::remove_file(&mask).expect("it is removed");
    fake.file("/run/udev/rules.d/99-x.rules", "ATTR{queue/read_ahead_kb}=\"64\"\n");
    assert_eq!(only(&fake), (1, kib("64"), Wins::Yes));
}

#[test]
fn a_script_that_a_rule_runs_is_read() {
    let run = "KERNEL==\"vd?\", RUN+=\"/usr/local/sbin/disk.sh %k\"\n";
    let fake = rules("50-x.rules", run);
    assert_eq!(windows(&fake), []);
    fake.file("/usr/local/sbin/disk.sh", "#!/bin/sh\nblockdev --setra 256 /dev/$1\n");
    assert_eq!(only(&fake), (1, None, Wins::Yes));
}

#[test]
fn tuned_with_its_includes_units_and_folders() {
    let fake = disk();
    fake.file("/etc/tuned/active_profile", "mine\n");
    fake.file(
        "/etc/tuned/profiles/mine/tuned.conf",
        "[main]\ninclude=throughput-performance\n\n[disk]\nreadahead = ${window}\n\n\
         [variables]\nwindow=8192 s\n",
    );
    fake.file(
        "/usr/lib/tuned/throughput-performance/tuned.conf",
        "[disk]\n# readahead=1\nreadahead=>4096\n",
    );
    assert_eq!(only(&fake), (5, kib("4096"), Wins::Unknown), "it may not be started");
    let wants = "/etc/systemd/system/multi-user.target.wants";
    fs::create_dir_all(fake.sys.path(wants)).expect("a folder");
    let link = fake.sys.path(wants).join("tuned.service");
    symlink("/usr/lib/systemd/system/tuned.service", link).expect("a link");
    let found = windows(&fake).remove(0);
    assert_eq!(found.wins, Wins::Yes);
    assert!(found.what.ends_with("readahead=8192 s, in sectors: 4096 KiB"), "{}", found.what);

    fake.file("/etc/tuned/active_profile", "throughput-performance\n");
    assert_eq!(only(&fake), (3, None, Wins::Yes), "a least value is no value");
    // /etc before /usr/lib; a list of devices; a circle of includes.
    fake.file(
        "/etc/tuned/throughput-performance/tuned.conf",
        "[main]\ninclude=throughput-performance\n[fast]\ntype=disk\ndevices=sd*\nreadahead=1\n",
    );
    assert_eq!(windows(&fake), []);
    fake.file("/etc/tuned/active_profile", "\n");
    assert_eq!(windows(&fake), [], "tuned-adm off");
}

#[test]
fn what_runs_at_boot_or_by_the_clock() {
    let sets = |path: &str, text: &str| {
        let fake = disk();
        fake.file(path, text);
        let here = fake.sys.path(path);
        fs::set_permissions(here, fs::Permissions::from_mode(0o755)).expect("its mode");
        fake
    };
    for (path, text, found) in [
        (
            "/etc/tmpfiles.d/disk.conf",
            "# w /sys/block/vda/queue/read_ahead_kb\n\
             w /sys/block/vd*/queue/read_ahead_kb - - - - 4096\n",
            (2, kib("4096"), Wins::Unknown),
        ),
        (
            "/etc/rc.local",
            "#!/bin/sh\n/sbin/blockdev --setra 8192 /dev/vda1\nexit 0\n",
            (2, kib("4096"), Wins::Yes),
        ),
        (
            "/etc/rc.local",
            "for d in /sys/block/*; do echo 64 > $d/queue/read_ahead_kb; done\n",
            (1, kib("64"), Wins::Yes),
        ),
        (
            "/etc/sysfs.conf",
            "block/sda/queue/read_ahead_kb = 1\nblock/vda/queue/read_ahead_kb = 1024\n",
            (2, kib("1024"), Wins::Unknown),
        ),
        (
            "/etc/cron.d/disks",
            "@reboot root echo 2048 > /sys/class/bdi/254:0/read_ahead_kb\n",
            (1, kib("2048"), Wins::Yes),
        ),
        (
            "/etc/sysctl.d/90-disk.conf",
            "sys.block.vda.queue.read_ahead_kb = 4096\n",
            (1, kib("4096"), Wins::No),
        ),
        (
            "/etc/systemd/system/setra.service",
            "[Service]\nExecStart=/sbin/blockdev --setra 512 /dev/vda\n",
            (2, kib("256"), Wins::Unknown),
        ),
        (
            "/var/spool/cron/crontabs/root",
            "0 3 * * * hdparm /dev/sda; blockdev --setra $RA /dev/$DISK\n",
            (1, None, Wins::Unknown),
        ),
    ] {
        assert_eq!(only(&sets(path, text)), found, "{path}");
    }
    for (path, text) in [
        ("/etc/rc.local", "blockdev --setra 8192 /dev/sda\n"),
        ("/etc/tmpfiles.d/disk.conf", "w /sys/block/sd*/queue/read_ahead_kb - - - - 4096\n"),
        ("/etc/rc.local", "echo bfq > /sys/block/vda/queue/scheduler\n"),
    ] {
        assert_eq!(windows(&sets(path, text)), [], "{path}: {text}");
    }
    let off = sets("/etc/rc.local", "blockdev --setra 8192 /dev/vda\n");
    let mode = fs::Permissions::from_mode(0o644);
    fs::set_permissions(off.sys.path("/etc/rc.local"), mode).expect("its mode");
    assert_eq!(windows(&off), [], "it is not run");
}

#[test]
fn an_enabled_unit_and_the_script_that_it_runs() {
    let fake = disk();
    let unit = "/etc/systemd/system/disks.service";
    fake.file(unit, "[Service]\nExecStart=-/usr/local/bin/disks --all\n");
    fake.file(
        "/usr/local/bin/disks",
        "#!/bin/bash\n\n# --setra\necho 96 > /sys/block/vda/queue/read_ahead_kb\n",
    );
    assert_eq!(only(&fake), (4, kib("96"), Wins::Unknown));
    let wants = "/etc/systemd/system/multi-user.target.wants";
    fs::create_dir_all(fake.sys.path(wants)).expect("a folder");
    symlink("../disks.service", fake.sys.path(wants).join("disks.service")).expect("a link");
    let found = windows(&fake).remove(0);
    assert_eq!(found.wins, Wins::Yes);
    assert_eq!(found.file.to_str(), Some("/usr/local/bin/disks"));
    assert!(found.to_string().ends_with("; it wins)"), "{found}");
}

#[test]
fn schedulers_are_asked_for_by_their_own_name() {
    let fake = rules("60-ioschedulers.rules", "KERNEL==\"vd*\", ATTR{queue/scheduler}=\"none\"\n");
    assert_eq!(windows(&fake), []);
    let found = conflicts(&fake.sys, "vda", &[READ_AHEAD_KB, "queue/scheduler"]);
    assert_eq!(found[0].attribute, "queue/scheduler");
    assert_eq!(
        found[0].to_string(),
        "/etc/udev/rules.d/60-ioschedulers.rules:1 (udev: \
         ATTR{queue/scheduler}=\"none\"; the remembered value wins)"
    );
}

#[test]
fn a_machine_without_any_of_it_has_no_conflicts() {
    assert_eq!(windows(&disk()), []);
    assert_eq!(conflicts(&disk().sys, "sdx", &[READ_AHEAD_KB]), []);
}
