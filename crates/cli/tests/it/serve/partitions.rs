//! `serve --partition` and `--offset`: a part of a disk image.
//!
//! In:    disks that sfdisk has partitioned; nbdinfo, nbdcopy.
//! Out:   the partition's bytes, and the others as they were.
//! Never: a loop device.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Command, Need, needs};
use crate::serve::overlays::Overlaid;
use crate::serve::server::{Place, bytes, foreread, printed};

const GPT: &str = "label: gpt\nstart=2048,size=2048,type=U\nstart=8192,size=16384,type=L\n";
const LOGICAL: &str =
    "label: dos\nstart=63,size=2048,type=c\nstart=4096,type=5\nstart=8192,size=16384,type=83\n";
const LEN: usize = 16 << 20;
/// Where the last partition of each lies.
const START: usize = 4 << 20;
const SIZE: usize = 8 << 20;

/// Partitions a disk by a script for sfdisk.
fn partition(disk: &Path, script: &str) {
    let mut sfdisk = Command::new("sfdisk");
    let mut child = sfdisk.arg("-q").arg(disk).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// A disk of random bytes with partitions.
fn disk(place: &Place, script: &str) -> PathBuf {
    let disk = place.file("disk", LEN);
    partition(&disk, script);
    disk
}

#[test]
fn nbdcopy_copies_a_partition_in_and_out_and_the_others_stay() {
    const TEST: &str = "nbdcopy_copies_a_partition_in_and_out_and_the_others_stay";
    if !needs(Need::Tool("sfdisk"), TEST) || !needs(Need::Tool("nbdcopy"), TEST) {
        return;
    }
    for (script, number) in [(GPT, "2"), (LOGICAL, "5")] {
        let place = Place::new();
        let disk = disk(&place, script);
        let mut expected = fs::read(&disk).unwrap();
        let server = place.serve(&disk, &["--partition", number, "--memory", "4M"]);
        let what = format!("serving partition {number} of {} (8M)", disk.display());
        assert!(server.ready.contains(&what), "{}", server.ready);
        let info = |flag| printed(Command::new("nbdinfo").arg(flag).arg(server.uri()));
        assert_eq!(info("--size"), format!("{SIZE}\n"));
        assert_eq!(server.stats()["export"]["bytes"], SIZE);

        let (copy, new) = (place.path("copy"), place.path("new"));
        printed(Command::new("nbdcopy").arg(server.uri()).arg(&copy));
        assert!(fs::read(&copy).unwrap() == expected[START..START + SIZE], "{script}");
        let bytes: Vec<u8> = bytes(SIZE).iter().map(|byte| !byte).collect();
        fs::write(&new, &bytes).unwrap();
        printed(Command::new("nbdcopy").arg("--flush").arg(&new).arg(server.uri()));
        server.stop();
        expected[START..START + SIZE].copy_from_slice(&bytes);
        assert!(fs::read(&disk).unwrap() == expected, "{script}");
    }
}

#[test]
fn an_offset_serves_the_rest_and_an_unaligned_partition_its_own_bytes() {
    const TEST: &str = "an_offset_serves_the_rest_and_an_unaligned_partition_its_own_bytes";
    if !needs(Need::Tool("sfdisk"), TEST) {
        return;
    }
    let place = Place::new();
    let disk = disk(&place, LOGICAL);
    let mut expected = fs::read(&disk).unwrap();
    for (flags, start, size) in [
        (["--offset", "4M"], START, LEN - START),
        (["--offset", "1000"], 1000, LEN - 1000),
        (["--partition", "1"], 63 * 512, 1 << 20),
    ] {
        let server = place.serve(&disk, &flags);
        let mut session = server.session();
        assert_eq!(session.agreed().size, size as u64, "{flags:?}");
        let end = size as u64 - 5;
        assert_eq!(session.read(0, 5000).unwrap(), expected[start..start + 5000], "{flags:?}");
        session.write(0, b"start", true).unwrap();
        session.write(end, b"the e", false).unwrap();
        assert!(session.write(end, b"beyond", false).is_err(), "{flags:?}");
        expected[start..start + 5].copy_from_slice(b"start");
        expected[start + size - 5..start + size].copy_from_slice(b"the e");
        session.leave().unwrap();
        server.stop();
        assert!(fs::read(&disk).unwrap() == expected, "{flags:?}");
    }
}

#[test]
fn parts_that_are_not_there_are_refused() {
    const TEST: &str = "parts_that_are_not_there_are_refused";
    if !needs(Need::Tool("sfdisk"), TEST) {
        return;
    }
    let place = Place::new();
    let (disk, plain) = (disk(&place, GPT), place.file("plain", 1 << 20));
    let refused = |target: &Path, flags: &[&str], hint: &str| {
        let sock = place.path("sock");
        let mut command = foreread(&["serve"]);
        let output = command.arg(target).args(flags).arg("--unix").arg(&sock).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {line}");
        assert!(line.starts_with("foreread: ") && line.contains(hint), "{flags:?}: {line}");
        assert!(!sock.exists(), "{flags:?}");
    };
    refused(&disk, &["--partition", "9"], "has no partition 9; its partitions: 1 (1M");
    refused(&disk, &["--offset", "16M"], "--offset 16777216 is not inside of its 16777216 bytes");
    refused(&disk, &["--offset", "1M", "--partition", "1"], "cannot be used with");
    refused(&plain, &["--partition", "1"], "no partition table");
    // A copy that was cut.
    File::options().write(true).open(&disk).unwrap().set_len(8 << 20).unwrap();
    refused(&disk, &["--partition", "2"], "copy the whole disk");
}

/// Clients of the whole disk may have made the partitions, which the object does not have.
#[test]
fn a_partition_over_an_object_is_that_of_the_overlay() {
    const TEST: &str = "a_partition_over_an_object_is_that_of_the_overlay";
    if !needs(Need::Tool("sfdisk"), TEST) {
        return;
    }
    let before = bytes(LEN);
    let disk = Overlaid::new(&before);
    let partitioned = disk.place.file("partitioned", LEN);
    partition(&partitioned, LOGICAL);
    let expected = fs::read(&partitioned).unwrap();
    let server = disk.serve(&[]);
    let mut session = server.session();
    for (sector, new) in expected.chunks(512).enumerate() {
        let at = sector * 512;
        if new != &before[at..at + 512] {
            session.write(at as u64, new, false).unwrap();
        }
    }
    session.leave().unwrap();
    server.stop();

    let server = disk.serve(&["--partition", "5"]);
    let mut session = server.session();
    assert_eq!(session.agreed().size, SIZE as u64);
    assert!(session.read(0, 1 << 20).unwrap() == expected[START..START + (1 << 20)]);
    session.write(0, b"written", true).unwrap();
    assert_eq!(session.read(0, 7).unwrap(), b"written");
    session.leave().unwrap();
    server.stop();
    let now = disk.contents();
    assert!(now[..START] == expected[..START] && now[START..START + 7] == *b"written");
    assert!(now[START + 7..] == expected[START + 7..]);
}
