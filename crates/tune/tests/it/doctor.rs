//! Doctor on systems that are made of text: what it finds, what it does not, what it survives.
//!
//! In:    doctor/trees, each as a real system was.
//! Out:   golden findings (doctor/golden/*.json), which `./dev golden` writes; the diff is the
//!        review.
//! Never: this machine's devices.

mod nonsense;
mod remembered;
mod tree;

use foreread_tune::doctor::{Confidence, Examination, ExaminationInput, Finding, examine};
use foreread_tune::sysfs::{SystemRoot, devices_named};
use tree::{TREES, built, golden, tree};

fn examined(name: &str, facts: &ExaminationInput<'_>) -> Examination {
    let root = tree(name);
    examine(&SystemRoot::at(root.path()), facts)
}

fn of<'e>(examination: &'e Examination, device: &str, check: &str) -> &'e Finding {
    let is_it = |finding: &&Finding| finding.device == device && finding.check == check;
    let found = examination.findings.iter().find(is_it);
    found.unwrap_or_else(|| panic!("{device} {check}: {:#?}", examination.findings))
}

fn checks_of<'e>(examination: &'e Examination, device: &str) -> Vec<&'e str> {
    let findings = examination.findings.iter().filter(|finding| finding.device == device);
    findings.map(|finding| finding.check).collect()
}

#[test]
fn the_findings_of_each_system_are_as_written() {
    for name in TREES {
        let examination = examined(name, &ExaminationInput::default());
        let mut text = serde_json::to_string_pretty(&serde_json::json!({
            "devices": examination.devices,
            "skipped": examination.skipped,
            "findings": examination.findings,
        }))
        .expect("it has no maps with odd keys");
        text.push('\n');
        golden(&format!("{name}.json"), &text);
    }
}

#[test]
fn a_window_that_a_killed_run_has_left_is_named() {
    let root = built(
        "[sys/block/sda]\ndev: 8:0\nsize: 134217728\nqueue/read_ahead_kb: 64\n[proc]\nswaps: x\n",
    );
    let was = serde_json::json!({"Was": {
        "setting": {"device": "sda", "attribute": "queue/read_ahead_kb", "value": "128"},
        "disk": null, "follows": false,
    }});
    let set = serde_json::json!({"Set":
        {"device": "sda", "attribute": "queue/read_ahead_kb", "value": "64"}
    });
    let folder = root.path().join("run/foreread");
    std::fs::create_dir_all(&folder).expect("it is made");
    std::fs::write(folder.join("held-sda.notes"), format!("{was}\n{set}\n")).expect("notes");
    let notes =
        &examine(&SystemRoot::at(root.path()), &ExaminationInput::default()).devices[0].notes;
    assert!(notes.iter().any(|note| note.contains("a killed foreread run")), "{notes:?}");
    assert!(notes.iter().all(|note| !note.contains("was set to")), "{notes:?}");
}

#[test]
fn a_healthy_laptop_has_no_finding() {
    let examination = examined("laptop", &ExaminationInput::default());
    assert_eq!(examination.findings, []);
    let skipped: Vec<_> = examination.skipped.iter().map(|one| one.device.as_str()).collect();
    assert_eq!(skipped, ["loop0", "zram0"]);
}

#[test]
fn each_flag_that_made_a_window_is_named() {
    let nvme = examined("nvme-io-opt", &ExaminationInput::default());
    assert_eq!(checks_of(&nvme, "nvme0n1"), ["read-ahead-from-io-opt"]);
    let usb = examined("usb-stick", &ExaminationInput::default());
    assert_eq!(checks_of(&usb, "sdb"), Vec::<&str>::new(), "an ordinary stick");
    assert_eq!(checks_of(&usb, "sdc"), ["read-ahead-above-size-rule", "size-not-whole-pages"]);
    let bridge = of(&usb, "sdd", "read-ahead-from-io-opt");
    assert!(bridge.evidence.iter().any(|line| line.contains("util-linux 1221")), "{bridge:?}");
    let cloud = examined("cloud-disk", &ExaminationInput::default());
    let sda = of(&cloud, "sda", "read-ahead-from-rotational");
    assert_eq!(sda.confidence, Confidence::Cited);
    let (command, price) = sda.mend[1].split_once(" # ").expect("a price");
    assert_eq!(command, "echo 128 > /sys/block/sda/queue/read_ahead_kb");
    assert!(price.contains("30, not 221 MB/s"), "{price}");
    assert_eq!(checks_of(&cloud, "sdb"), Vec::<&str>::new(), "all reads go through LVM");
    assert_eq!(checks_of(&cloud, "dm-0"), ["read-ahead-from-rotational"]);
}

#[test]
fn a_stripe_is_no_lie() {
    let examination = examined("md", &ExaminationInput::default());
    assert_eq!(checks_of(&examination, "md0"), Vec::<&str>::new());
    assert_eq!(checks_of(&examination, "md0p1"), ["partition-off-stripe"]);
    let part = of(&examination, "md0p1", "partition-off-stripe");
    assert_eq!(
        part.mend,
        ["umount /srv && partx --delete --nr 1 /dev/md0 && { echo '4096,' | sfdisk --move-data \
          --no-reread -N 1 /dev/md0; partx --add --nr 1 /dev/md0; }"]
    );
    let raid1 = of(&examination, "md1", "size-not-whole-pages");
    assert_eq!(raid1.mend, ["mdadm --grow /dev/md1 --array-size=1046524"]);
}

/// A regression: the partition of a mounted btrfs was taken for unused, and the command to move it
/// would have moved the data of a file system in use.
#[test]
fn a_btrfs_uses_all_its_devices() {
    let root = built(
        "[proc/self]\n\
         mountinfo: 36 35 0:33 /root / rw shared:1 - btrfs /dev/sda1 rw,subvol=/root\n\
         [sys/fs/btrfs/8b3a/devices]\nsda1: 1\nsda2: 1\n\
         [sys/block/sda]\ndev: 8:0\nsize: 1000000000\nqueue/rotational: 0\n\
         queue/physical_block_size: 512\nqueue/read_ahead_kb: 128\n\
         [sys/block/sda/sda1]\ndev: 8:1\npartition: 1\nstart: 63\nsize: 400000001\n\
         alignment_offset: 0\n\
         [sys/block/sda/sda2]\ndev: 8:2\npartition: 2\nstart: 400000127\nsize: 400000001\n\
         alignment_offset: 0\n",
    );
    let sys = SystemRoot::at(root.path());
    let examination = examine(&sys, &ExaminationInput::default());
    for name in ["sda1", "sda2"] {
        assert_eq!(checks_of(&examination, name), ["partition-misaligned"]);
        let part = of(&examination, name, "partition-misaligned");
        assert_eq!(part.mend, Vec::<String>::new(), "not while it is /");
    }
    assert_eq!(
        devices_named(&sys, "/home").as_deref(),
        Ok(&["sda1".to_owned(), "sda".to_owned()][..])
    );
}

/// `alignment_offset` counts from the chunk where there is one: a partition on whole blocks was
/// said to start inside a block.
#[test]
fn an_offset_of_whole_blocks_is_one_in_the_chunk() {
    let found = |offset: u32| {
        let root = built(&format!(
            "[sys/block/sda]\ndev: 8:0\nsize: 1000000000\nqueue/rotational: 1\n\
             queue/physical_block_size: 4096\nqueue/minimum_io_size: 65536\n\
             queue/optimal_io_size: 262144\nqueue/read_ahead_kb: 512\n\
             [sys/block/sda/sda1]\ndev: 8:1\npartition: 1\nstart: 40\nsize: 400000000\n\
             alignment_offset: {offset}\n"
        ));
        let examination = examine(&SystemRoot::at(root.path()), &ExaminationInput::default());
        checks_of(&examination, "sda1").join(" ")
    };
    assert_eq!(found(45_056), "partition-off-stripe");
    assert_eq!(found(45_568), "partition-misaligned");
}

#[test]
fn before_linux_5_10_only_arrays_asked_for_the_best_size() {
    let found = |release: &str, level: &str| {
        let root = built(&format!(
            "[proc/sys/kernel]\nosrelease: {release}\n[sys/block/sda]\ndev: 8:0\n\
             size: 1000000000\n{level}queue/optimal_io_size: 1048576\n\
             queue/read_ahead_kb: 128\n"
        ));
        examine(&SystemRoot::at(root.path()), &ExaminationInput::default()).devices[0].kernel_kb
    };
    assert_eq!(found("5.4.0-216-generic", ""), Some(128));
    assert_eq!(found("5.4.0-216-generic", "md/level: raid5\n"), Some(2048));
    assert_eq!(found("5.10.0", ""), Some(2048));
}

#[test]
fn the_window_of_a_swap_device_has_no_effect() {
    let found = |swaps: &str| {
        let root = built(&format!(
            "[proc]\nswaps: Filename Type Size Used Priority\nswaps: {swaps}\n\
             [sys/block/sdq]\ndev: 65:0\nsize: 1048576\nqueue/read_ahead_kb: 2560\n"
        ));
        let examination = examine(&SystemRoot::at(root.path()), &ExaminationInput::default());
        checks_of(&examination, "sdq").join(" ")
    };
    assert_eq!(found("/dev/sdq partition 524284 0 -2"), "");
    assert_eq!(found("/dev/sdr partition 524284 0 -2"), "read-ahead-above-size-rule");
}

/// Names in a copy of sysfs are untrusted, and the commands are for a root shell: names are quoted.
#[test]
fn a_name_is_one_word_of_a_command() {
    let root = built(
        "[sys/block/sda; reboot]\ndev: 8:0\nsize: 1000000000\nqueue/rotational: 0\n\
         queue/read_ahead_kb: 0\n",
    );
    let examination = examine(&SystemRoot::at(root.path()), &ExaminationInput::default());
    let off = of(&examination, "sda; reboot", "read-ahead-off");
    assert_eq!(
        off.mend,
        [
            "foreread tune '/dev/sda; reboot' --remember",
            "echo 128 > '/sys/block/sda; reboot/queue/read_ahead_kb'",
        ]
    );
}

#[test]
fn commands_fit_what_the_device_is() {
    let examination = examined("dm-odd-partition", &ExaminationInput::default());
    assert_eq!(checks_of(&examination, "dm-0"), ["window-does-not-reach", "size-not-whole-pages"]);
    let map = of(&examination, "dm-0", "size-not-whole-pages");
    assert_eq!(
        map.mend,
        ["dmsetup table --target linear test | sed 's/^0 1870001 /0 1870000 /' | dmsetup reload \
          test && dmsetup resume test"]
    );
    let part = of(&examination, "sda2", "partition-misaligned");
    assert_eq!(part.mend, Vec::<String>::new(), "not while dm-0 lies on it");

    let examination = examined("loop", &ExaminationInput::default());
    let whole = of(&examination, "loop0", "size-not-whole-pages");
    assert_eq!(
        whole.mend,
        [
            "truncate --size 957444096 '/srv/a disk.img' && losetup --set-capacity /dev/loop0",
            "losetup --detach /dev/loop0 && losetup --sizelimit 957440000 /dev/loop0 \
             '/srv/a disk.img'",
        ]
    );
    let limited = of(&examination, "loop2", "size-not-whole-pages");
    assert_eq!(
        limited.mend,
        ["losetup --detach /dev/loop2 && losetup --offset 1048576 --sizelimit 1073737728 \
          /dev/loop2 /srv/inner.img"]
    );

    let examination = examined("tuned-by-hand", &ExaminationInput::default());
    let part = of(&examination, "sdc3", "size-not-whole-pages");
    assert_eq!(
        part.mend,
        ["echo ',8206504' | sfdisk --no-reread -N 3 /dev/sdc && partx --update /dev/sdc"],
        "behind it is no room"
    );
}

#[test]
fn a_small_window_is_a_finding_where_streams_wait_for_it() {
    let found = |more: &str, window: u64| {
        let root = built(&format!(
            "[sys/block/sda]\ndev: 8:0\nsize: 7814037168\nqueue/read_ahead_kb: {window}\n{more}"
        ));
        let examination = examine(&SystemRoot::at(root.path()), &ExaminationInput::default());
        let finding = examination.findings.into_iter().next();
        finding.map(|finding| (finding.check, finding.what, finding.mend))
    };
    let (check, what, mend) =
        found("stat: 5000 0 1280000 20500 0 0 0 0 0 0 0\n", 128).expect("4.1 ms a read");
    assert_eq!(check, "read-ahead-small-for-streams");
    assert!(what.contains("128, and a read of this device takes 4.1 ms on average"), "{what}");
    assert_eq!(mend, ["foreread tune /dev/sda --remember"], "no value that was not measured");
    assert!(found("queue/rotational: 1\n", 128).is_some(), "a disk with an arm");
    for (more, window) in [
        ("queue/rotational: 0\n", 128),
        ("queue/rotational: 1\nremovable: 1\n", 128),
        ("queue/rotational: 1\n", 1024),
        ("stat: 5000 0 1280000 500 0 0 0 0 0 0 0\nqueue/rotational: 1\n", 128),
        ("stat: 20 0 5120 200 0 0 0 0 0 0 0\n", 128),
        ("stat: 5000 0 81920000 20500 0 0 0 0 0 0 0\n", 128),
    ] {
        assert_eq!(found(more, window), None, "{more}");
    }
}

#[test]
fn a_disk_of_metal_is_judged_by_what_it_says_and_a_virtual_one_is_not() {
    let found = |model: &str| {
        let root = built(&format!(
            "[proc/sys/kernel]\nosrelease: 6.18.0\n[sys/block/sda]\ndev: 8:0\n\
             size: 7814037168\nqueue/read_ahead_kb: 8192\nqueue/rotational: 1\n\
             queue/max_sectors_kb: 4096\nqueue/scheduler: none [mq-deadline]\n\
             queue/iosched/fifo_batch: 16\nqueue/iosched/async_depth: 254\n\
             device/model: {model}\ndevice/queue_depth: 254\n"
        ));
        let examination = examine(&SystemRoot::at(root.path()), &ExaminationInput::default());
        checks_of(&examination, "sda").join(" ")
    };
    assert_eq!(found("ST4000NM0025"), "deep-queue-under-deadline");
    assert_eq!(found("QEMU HARDDISK"), "read-ahead-from-rotational");
}

#[test]
fn only_the_devices_that_were_named_are_looked_at() {
    let root = tree("dm-odd-partition");
    let sys = SystemRoot::at(root.path());
    for (text, devices) in [
        ("sda", vec!["sda", "sda1", "sda2"]),
        ("/dev/sda2", vec!["sda2", "sda"]),
        ("/dev/mapper/test", vec!["dm-0"]),
        ("dm-0", vec!["dm-0"]),
        ("/home/alice", vec!["sda1", "sda"]),
    ] {
        assert_eq!(devices_named(&sys, text).expect(text), devices, "{text}");
    }
    for text in ["sdz", "/dev/sdz9", "", "relative/path"] {
        let error = devices_named(&sys, text).expect_err(text);
        assert!(error.contains("give a name (sda)"), "{error}");
    }
    let only = devices_named(&sys, "dm-0").expect("it is there");
    let examination =
        examine(&sys, &ExaminationInput { only: &only, ..ExaminationInput::default() });
    let names: Vec<_> = examination.devices.iter().map(|one| one.device.as_str()).collect();
    assert_eq!(names, ["dm-0"]);
    assert!(examination.findings.iter().all(|finding| finding.device == "dm-0"));
}

/// Every command and every sentence has to stand on one line of a terminal's history.
#[test]
fn findings_are_lines() {
    for name in TREES {
        for finding in examined(name, &ExaminationInput::default()).findings {
            let mut texts = vec![finding.what, finding.why];
            texts.extend(finding.evidence);
            texts.extend(finding.mend);
            for text in texts {
                assert!(!text.contains('\n') && !text.contains("  "), "{name}: {text}");
                assert!(!text.trim().is_empty(), "{name}");
            }
        }
    }
}

#[test]
fn an_empty_system_and_no_system_have_no_devices() {
    let root = built("");
    for path in [root.path(), std::path::Path::new("/nonexistent")] {
        let examination = examine(&SystemRoot::at(path), &ExaminationInput::default());
        assert_eq!(examination, Examination::default());
    }
}
