//! Partitions of whole disks that sfdisk has made, and images in other formats.
//!
//! In:    a disk with an ext4 file system in one of its partitions.
//! Out:   the names in it; a refusal that says what to run.
//! Never: a loop device.

use super::*;
use common::{Need, needs};

/// A file system in the second or first logical partition of a disk, which begins at 4 MiB.
fn disk(planted: &Planted, script: &str) -> PathBuf {
    let disk = planted.folder.path().join("disk");
    File::create(&disk).and_then(|file| file.set_len(32 << 20)).unwrap();
    let script_file = planted.folder.path().join("script");
    fs::write(&script_file, script).unwrap();
    let input = File::open(&script_file).unwrap();
    let mut sfdisk = Command::new("sfdisk");
    let made = sfdisk.arg("-q").arg(&disk).stdin(input).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let file = File::options().write(true).open(&disk).unwrap();
    file.write_all_at(&fs::read(&planted.image).unwrap(), 4 << 20).unwrap();
    disk
}

const GPT: &str = "label: gpt\nstart=2048,size=2048,type=U\nstart=8192,size=32768,type=L\n";
const LOGICAL: &str =
    "label: dos\nstart=2048,size=2048,type=c\nstart=4096,type=5\nstart=8192,size=32768,type=83\n";

#[test]
fn a_partition_of_a_disk_is_read_as_the_image_alone() {
    const TEST: &str = "a_partition_of_a_disk_is_read_as_the_image_alone";
    if !can_make(TEST) || !needs(Need::Tool("sfdisk"), TEST) {
        return;
    }
    for (script, number) in [(GPT, "2"), (LOGICAL, "5")] {
        let planted = Planted::new(&[]);
        let disk = disk(&planted, script);
        let disk = disk.to_str().unwrap();
        for flags in [["--partition", number], ["--offset", "4M"]] {
            for args in [&["ls", "-R"][..], &["cat"], &["stat"]] {
                let path: &[&str] = if args[0] == "ls" { &[] } else { &["/a/large"] };
                let ours = foreread(&[args, &[disk], path, &flags].concat());
                let alone = foreread(&[args, &[planted.image.to_str().unwrap()], path].concat());
                assert!(ours.status.success(), "{args:?}: {ours:?}");
                assert!(ours.stdout == alone.stdout, "{args:?} {flags:?}");
            }
        }
        is_refused(&foreread(&["ls", disk]), &format!("{number} (16M, Linux)"));
        is_refused(&foreread(&["ls", disk]), &format!("--partition {number}"));
        is_refused(&foreread(&["ls", disk, "--partition", "9"]), "has no partition 9");
        is_refused(&foreread(&["ls", disk, "--offset", "32M"]), "--offset 33554432 is not inside");
        // A copy that was cut.
        File::options().write(true).open(disk).unwrap().set_len(8 << 20).unwrap();
        is_refused(&foreread(&["ls", disk, "--partition", number]), "copy the whole disk");
    }
}

#[test]
fn an_image_in_another_format_is_refused_with_its_name_and_a_remedy() {
    let folder = folder();
    let image = folder.path().join("image");
    for (bytes, name, remedy) in [
        (&b"QFI\xFB\0\0\0\x03"[..], "qcow2", "qemu-img convert -O raw"),
        (b"\x3A\xFF\x26\xED\x01\0\0\0", "Android sparse", "simg2img"),
        (b"\x1F\x8B\x08\0", "gzip", "gunzip"),
        (b"XFSB\0\0\x10\0", "XFS", "kernel's mount"),
    ] {
        fs::write(&image, bytes).unwrap();
        File::options().write(true).open(&image).unwrap().set_len(1 << 20).unwrap();
        let image = image.to_str().unwrap();
        for args in [&["ls", image][..], &["cat", image, "/a"], &["stat", image, "/a"]] {
            is_refused(&foreread(args), name);
            is_refused(&foreread(args), remedy);
        }
        let dir = folder.path().to_str().unwrap();
        let mount = foreread(&["mount", image, dir]);
        let line = String::from_utf8_lossy(&mount.stderr);
        assert_eq!(mount.status.code(), Some(2), "{line}");
    }
    is_refused(
        &foreread(&["ls", image.to_str().unwrap(), "--partition", "1"]),
        "no partition table",
    );
}
