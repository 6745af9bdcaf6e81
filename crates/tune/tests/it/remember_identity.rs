//! Which devices can be found again, and how.
//!
//! In:    fake systems with devices of each kind.
//! Out:   the keys that a rule asks; one line where there are none.
//! Never: a device of this machine.

use crate::remember_common;

use foreread_tune::identity::{Identity, NoIdentity, identity};
use remember_common::Fake;

fn asks(fake: &Fake, device: &str) -> String {
    identity(&fake.sys, device).unwrap_or_else(|why| panic!("{why}")).asks()
}

fn refused(fake: &Fake, device: &str) -> String {
    identity(&fake.sys, device).expect_err("it has none").to_string()
}

#[test]
fn each_kind_of_device_has_its_own_key() {
    let fake = Fake::new();
    fake.nvme("nvme0n1", 0, "eui.0025385b71b0a2c1");
    assert_eq!(asks(&fake, "nvme0n1"), "ATTR{wwid}==\"eui.0025385b71b0a2c1\"");

    let scsi = "pci0000:00/ata1/host0/target0:0:0/0:0:0:0";
    fake.disk(scsi, "sda", "8:0\n")
        .file(&format!("/sys/devices/{scsi}/wwid"), "t10.ATA     Disk of 2 TB   WD-1  \n");
    assert_eq!(asks(&fake, "sda"), "ATTR{device/wwid}==\"t10.ATA     Disk of 2 TB   WD-1\"");

    fake.disk("pci0000:00/virtio2", "vda", "254:0\n")
        .file("/sys/devices/pci0000:00/virtio2/block/vda/serial", "root-fs\n");
    assert_eq!(asks(&fake, "vda"), "ATTR{serial}==\"root-fs\"");

    fake.stick("sdb", 16, Some("4C530001230712117"));
    assert_eq!(
        asks(&fake, "sdb"),
        "ATTRS{idVendor}==\"0781\", ATTRS{idProduct}==\"5581\", \
         ATTRS{serial}==\"4C530001230712117\""
    );

    let card = "platform/mmc0/mmc0:0001";
    fake.disk(card, "mmcblk0", "179:0\n").file(&format!("/sys/devices/{card}/cid"), "1501004d\n");
    let boot = format!("{card}/block/mmcblk0");
    fake.disk(&boot, "mmcblk0boot0", "179:8\n");
    assert_eq!(asks(&fake, "mmcblk0"), "ATTR{device/cid}==\"1501004d\"");
    assert!(refused(&fake, "mmcblk0boot0").contains("no serial number"));

    let loop0 = "/sys/block/loop0";
    fake.file(&format!("{loop0}/dev"), "7:0\n")
        .file(&format!("{loop0}/loop/backing_file"), "/srv/a [disk].img\n");
    assert_eq!(asks(&fake, "loop0"), "ATTR{loop/backing_file}==\"/srv/a [[]disk].img\"");

    fake.file("/sys/block/dm-0/dev", "253:0\n")
        .file("/sys/block/dm-0/dm/name", "vg-root\n")
        .file("/sys/block/dm-0/dm/uuid", "LVM-abc\n");
    assert_eq!(asks(&fake, "dm-0"), "ATTR{dm/uuid}==\"LVM-abc\"");

    fake.file("/sys/block/md0/dev", "9:0\n").file("/sys/block/md0/md/level", "raid1\n");
    assert!(refused(&fake, "md0").contains("its UUID"));
    fake.file("/run/udev/data/b9:0", "E:MD_LEVEL=raid1\nE:MD_UUID=51c23289:2afc768b\n");
    assert_eq!(asks(&fake, "md0"), "ENV{MD_UUID}==\"51c23289:2afc768b\"");
    fake.file("/sys/block/md0/md/uuid", "51c23289-2afc-768b\n");
    assert_eq!(asks(&fake, "md0"), "ATTR{md/uuid}==\"51c23289-2afc-768b\"");
}

#[test]
fn what_cannot_be_found_again_is_refused_with_a_reason() {
    let fake = Fake::new();
    fake.file("/sys/block/zram0/dev", "252:0\n")
        .file("/sys/block/ram0/dev", "1:0\n")
        .file("/sys/block/loop0/dev", "7:0\n")
        .file("/sys/block/loop1/dev", "7:1\n")
        .file("/sys/block/loop1/loop/backing_file", "/tmp/x (deleted)\n")
        .file("/sys/block/loop2/dev", "7:2\n")
        .file("/sys/block/loop2/loop/backing_file", "/tmp/a|b\n")
        .file("/sys/block/dm-1/dev", "253:1\n")
        .file("/sys/block/dm-1/dm/name", "test\n")
        .file("/sys/block/dm-1/dm/uuid", "\n")
        .file("/sys/block/sda/dev", "8:0\n")
        .file("/sys/block/sda/device/wwid", "naa.5000c500a1b2c3d4\n")
        .file("/sys/block/sde/dev", "8:64\n")
        .file("/sys/block/sde/device/wwid", "naa.5000000000000000\n")
        .file("/sys/block/sda/sda1/dev", "8:1\n")
        .file("/sys/block/sda/sda1/partition", "1\n")
        .file("/sys/block/sr0/dev", "11:0\n")
        .file("/sys/block/sr0/device/type", "5\n")
        .file("/sys/block/sr0/device/wwid", "t10.drive\n");
    fake.stick("sdc", 32, None).stick("sdd", 48, Some("000000000000"));
    for (device, says) in [
        ("zram0", "memory"),
        ("ram0", "memory"),
        ("loop0", "no file is bound"),
        ("loop1", "deleted"),
        ("loop2", "rename it"),
        ("dm-1", "without a UUID"),
        ("sda1", "or a partition"),
        ("sdx", "no such block device"),
        ("sr0", "removable discs"),
        ("sdc", "no serial number"),
        ("sdd", "many sticks have"),
        ("sde", "many disks have"),
    ] {
        let line = refused(&fake, device);
        assert!(line.contains(says) && line.starts_with(device), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
    assert_eq!(asks(&fake, "sda"), "ATTR{device/wwid}==\"naa.5000c500a1b2c3d4\"");
}

#[test]
fn two_with_one_number_are_refused_and_both_are_named() {
    let fake = Fake::new();
    fake.stick("sdb", 16, Some("4C530001230712117")).stick("sdc", 32, Some("4C530001230712117"));
    fake.stick("sdd", 48, Some("4C530001230712118"));
    let line = refused(&fake, "sdb");
    assert!(line.starts_with("sdb and sdc have the same ID"), "{line}");
    identity(&fake.sys, "sdd").expect("it is another one");

    let paths = Fake::new();
    for (name, minor) in [("sda", 0), ("sdb", 16)] {
        let parents = format!("pci0000:00/host{minor}/0:0:0:{minor}");
        paths
            .disk(&parents, name, &format!("8:{minor}\n"))
            .file(&format!("/sys/devices/{parents}/wwid"), "naa.600508b1001c\n")
            .file(&format!("/sys/devices/{parents}/block/{name}/holders/dm-0/dev"), "253:0\n");
    }
    assert_eq!(
        identity(&paths.sys, "sda"),
        Err(NoIdentity::Twins {
            device: "sda".into(),
            others: vec!["sdb".into()],
            above: Some("dm-0".into())
        })
    );
    assert!(refused(&paths, "sda").contains("remember dm-0"));

    // The paths of an NVMe multipath disk are hidden disks; udev never sees them.
    let nvme = Fake::new();
    nvme.nvme("nvme0n1", 0, "eui.00253").nvme("nvme0c0n1", 1, "eui.00253");
    let hidden = "/sys/block/nvme0c0n1/hidden";
    nvme.file(hidden, "1\n");
    identity(&nvme.sys, "nvme0n1").expect("it is one disk");
}

#[test]
fn the_id_is_the_same_wherever_the_device_is_plugged_in() {
    let one = Fake::new();
    one.stick("sdb", 16, Some("4C530001230712117"));
    let other = Fake::new();
    other.stick("sdf", 80, Some("4C530001230712117"));
    let at = |fake: &Fake, name| identity(&fake.sys, name).expect("it has one");
    assert_eq!(at(&one, "sdb"), at(&other, "sdf"));
    // Names of files that lie on people's machines: they must not change.
    assert_eq!(at(&one, "sdb").id, "usb-4C530001230712117-fdc9fc8a30d3b69e");
    let devices = |identity: Identity| identity.devices(&other.sys);
    assert_eq!(devices(at(&one, "sdb"))[0].name, "sdf");
}

#[test]
fn a_bridge_with_another_disk_behind_it_is_another_device() {
    let fake = Fake::new();
    fake.stick("sdb", 16, Some("4C530001230712117"));
    let wwid = "/sys/devices/pci0000:00/usb1/1-16/1-16:1.0/host6/target6:0:0/6:0:0:16/wwid";
    fake.file(wwid, "naa.5000c500a1b2c3d4\n");
    let before = identity(&fake.sys, "sdb").expect("it has one");
    assert!(before.asks().ends_with("ATTR{device/wwid}==\"naa.5000c500a1b2c3d4\""));
    fake.file(wwid, "naa.5000c500ffffffff\n");
    assert!(before.devices(&fake.sys).is_empty());
}
