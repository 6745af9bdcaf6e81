//! What governs mounts, on systems of a few files.

use super::*;
use crate::sysfs::fixture::system;

fn only(sys: &SystemRoot) -> MountWindow {
    let mut windows = mount_windows(sys, &sys.devices());
    assert_eq!(windows.len(), 1, "{windows:#?}");
    windows.remove(0)
}

const RELEASE: &str = "/proc/sys/kernel/osrelease";
const MOUNTS: &str = "/proc/self/mountinfo";

#[test]
fn nfs_has_fifteen_times_rsize_before_5_4_and_128_since() {
    let mount = "40 1 0:52 / /mnt rw - nfs4 srv:/a rw,vers=4.1,rsize=1048576\n";
    for (release, window, part) in [
        ("5.3.18\n", "15360\n", "before Linux 5.4 15 times rsize"),
        ("6.1.0\n", "128\n", "128 KiB since Linux 5.4, regardless"),
        ("6.1.0\n", "4096\n", "changed since the mount"),
    ] {
        let (_root, sys) = system(&[
            (RELEASE, release),
            (MOUNTS, mount),
            ("/sys/class/bdi/0:52/read_ahead_kb", window),
        ]);
        let window = only(&sys);
        assert_eq!(window.governed_by, Governor::Bdi { name: "0:52".into() });
        assert!(window.origin.contains(part), "{window:#?}");
        assert_eq!(window.attribute.as_deref(), Some("/sys/class/bdi/0:52/read_ahead_kb"));
    }
}

#[test]
fn a_name_with_a_counter_is_certain_only_if_there_is_one() {
    let one = "40 1 0:60 / /a rw - cifs //s/a rw,rsize=4194304\n";
    let two = "41 1 0:61 / /b rw - cifs //s/b rw,rsize=4194304\n";
    let (_root, sys) = system(&[
        (RELEASE, "6.12.0\n"),
        (MOUNTS, one),
        ("/sys/class/bdi/cifs-3/read_ahead_kb", "8192\n"),
    ]);
    let window = only(&sys);
    assert_eq!(window.governed_by, Governor::Bdi { name: "cifs-3".into() });
    assert_eq!((window.read_ahead_kb, window.kernel_kb), (Some(8192), Some(8192)));
    let (_root, sys) = system(&[
        (RELEASE, "6.12.0\n"),
        (MOUNTS, &[one, two].concat()),
        ("/sys/class/bdi/cifs-3/read_ahead_kb", "8192\n"),
        ("/sys/class/bdi/cifs-4/read_ahead_kb", "64\n"),
    ]);
    let windows = mount_windows(&sys, &sys.devices());
    assert_eq!(windows.len(), 2);
    for window in windows {
        let why = "it is one of cifs-3, cifs-4".to_owned();
        assert_eq!(window.governed_by, Governor::Unknown { why });
        assert_eq!(window.read_ahead_kb, None);
    }
}

#[test]
fn rules_of_smb_ceph_and_9p() {
    let kernel = |release: &str, fs: &str, options: &str| {
        let mount = format!("40 1 0:60 / /a rw - {fs} src rw,{options}\n");
        let (_root, sys) = system(&[
            (RELEASE, release),
            (MOUNTS, &mount),
            (&format!("/sys/class/bdi/{fs}-1/read_ahead_kb"), "1\n"),
        ]);
        only(&sys).kernel_kb
    };
    assert_eq!(kernel("6.3.0", "cifs", "rsize=4194304"), Some(4096));
    assert_eq!(kernel("6.4.0", "cifs", "rsize=4194304"), Some(8192));
    assert_eq!(kernel("6.4.0", "cifs", "rsize=4194304,rasize=1048576"), Some(1024));
    assert_eq!(kernel("5.10.0", "cifs", "rsize=4194304,rasize=1048576"), Some(4096));
    assert_eq!(kernel("6.8.0", "ceph", "acl"), Some(8192));
    assert_eq!(kernel("6.8.0", "ceph", "rasize=16777216"), Some(16384));
    assert_eq!(kernel("6.8.0", "9p", "cache=loose,msize=131072"), Some(124));
    assert_eq!(kernel("5.10.0", "9p", "cache=loose,msize=131072"), Some(128));
    assert_eq!(kernel("6.8.0", "9p", "trans=virtio"), Some(0));
    assert_eq!(kernel("unknown", "cifs", "rsize=4194304"), None);
}

#[test]
fn an_overlay_has_the_windows_of_its_layers() {
    let (_root, sys) = system(&[(
        MOUNTS,
        "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
         21 20 0:50 / /lower rw - nfs srv:/l rw,rsize=65536\n\
         22 20 0:51 / /merged rw - overlay overlay rw,lowerdir=/lower/a:/lower/b,upperdir=/up,\
         workdir=/work\n",
    )]);
    let windows = mount_windows(&sys, &sys.devices());
    let mounts = vec!["/".to_owned(), "/lower".to_owned()];
    assert_eq!(windows[2].governed_by, Governor::Layers { mounts });
    assert_eq!(windows[2].read_ahead_kb, None);
}

#[test]
fn the_layers_of_a_container_are_not_to_be_seen_in_it() {
    let (_root, sys) = system(&[(
        MOUNTS,
        "20 1 0:51 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/l/X,upperdir=/var/u\n",
    )]);
    assert!(matches!(only(&sys).governed_by, Governor::Unknown { .. }), "{:#?}", only(&sys));
}

#[test]
fn a_rule_for_bdi_is_named_if_it_has_the_value() {
    let mount = "40 1 0:52 / /mnt rw - nfs4 srv:/a rw,rsize=1048576\n";
    let rules = "/usr/lib/udev/rules.d/99-nfs.rules";
    let rahead = "SUBSYSTEM==\"bdi\", ACTION==\"add\", PROGRAM=\"/usr/libexec/nfsrahead %k\", \
                  ATTR{read_ahead_kb}=\"%c\"\n";
    let (_root, sys) = system(&[
        (RELEASE, "6.8.0\n"),
        (MOUNTS, mount),
        ("/sys/class/bdi/0:52/read_ahead_kb", "16000\n"),
        (rules, rahead),
        ("/etc/nfs.conf", "[general]\nnfs4=1\n[nfsrahead]\nnfs4=16000 # v4\ndefault=128\n"),
    ]);
    let window = only(&sys);
    assert_eq!(window.origin, format!("the udev rule {rules}:1"));
    assert_eq!(window.cited.as_deref(), Some("nfsrahead(5), with /etc/nfs.conf"));
    let (_root, sys) = system(&[
        (RELEASE, "6.8.0\n"),
        (MOUNTS, mount),
        ("/sys/class/bdi/0:52/read_ahead_kb", "15360\n"),
        (rules, "SUBSYSTEM==\"bdi\", KERNEL==\"0:*\", ATTR{read_ahead_kb}=\"4096\"\n"),
    ]);
    assert!(only(&sys).origin.starts_with("changed since the mount"));
}

/// A rule that udev jumps over was named as the one that has set the window.
#[test]
fn a_rule_that_udev_does_not_come_to_is_not_named() {
    let set = "SUBSYSTEM==\"bdi\", ATTR{read_ahead_kb}=\"4096\"\n";
    let end = "LABEL=\"end\"\n";
    for (jump, label, is_named) in [
        ("SUBSYSTEM!=\"block\", GOTO=\"end\"\n", end, false),
        ("ACTION==\"add\", GOTO=\"end\"\n", end, false),
        ("GOTO=\"end\"\n", end, false),
        ("SUBSYSTEM==\"block\", GOTO=\"end\"\n", end, true),
        ("SUBSYSTEM!=\"block\", GOTO=\"end\"\n", "", true),
        ("ENV{X}==\"1\", GOTO=\"end\"\n", end, true),
        ("# GOTO=\"end\"\n", end, true),
    ] {
        let (_root, sys) = system(&[
            (RELEASE, "6.8.0\n"),
            (MOUNTS, "40 1 0:52 / /mnt rw - nfs4 srv:/a rw,rsize=1048576\n"),
            ("/sys/class/bdi/0:52/read_ahead_kb", "4096\n"),
            ("/etc/udev/rules.d/99-x.rules", &[jump, set, label].concat()),
        ]);
        let origin = only(&sys).origin;
        assert_eq!(origin.starts_with("the udev rule"), is_named, "{jump}{origin}");
    }
}

#[test]
fn a_volume_of_a_csi_driver_is_named() {
    let folder = "/var/lib/kubelet/pods/9/volumes/kubernetes.io~csi/pv-1";
    let (_root, sys) = system(&[
        (RELEASE, "6.8.0\n"),
        (MOUNTS, &format!("40 1 0:52 / {folder}/mount rw - nfs4 fs-1:/ rw,rsize=1048576\n")),
        ("/sys/class/bdi/0:52/read_ahead_kb", "128\n"),
        (&format!("{folder}/vol_data.json"), "{\"driverName\":\"efs.csi.aws.com\"}"),
    ]);
    assert!(only(&sys).notes[0].contains("the CSI driver efs.csi.aws.com"), "{:?}", only(&sys));
}

#[test]
fn a_place_that_is_mounted_over_is_left_out_and_binds_are_counted() {
    let (_root, sys) = system(&[(
        MOUNTS,
        "20 1 0:40 / /a rw - fuse.sshfs h: rw\n\
         21 1 0:41 / /a rw - fuse.sshfs i: rw\n\
         22 1 0:41 / /b rw - fuse.sshfs i: rw\n\
         23 1 0:5 / /proc rw - proc proc rw\n",
    )]);
    let windows = mount_windows(&sys, &sys.devices());
    assert_eq!(windows.len(), 1, "{windows:#?}");
    assert_eq!((windows[0].source.as_str(), windows[0].also_at), ("i:", 1));
}
