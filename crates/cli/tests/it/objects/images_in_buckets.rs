//! ext4 images that lie in a bucket: `ls`, `cat` and `mount`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::common::{Need, needs, output};
use crate::images::{can_make, folder, make, pattern};
use crate::objects::weed::weed;

#[test]
fn an_image_in_a_bucket_is_read_and_mounted() {
    let test = "an_image_in_a_bucket_is_read_and_mounted";
    if !can_make(test) {
        return;
    }
    let Some(weed) = weed(test) else { return };
    let folder = folder();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a")).unwrap();
    fs::write(tree.join("a/large"), pattern(3_000_000)).unwrap();
    fs::write(tree.join("small"), "small\n").unwrap();
    let image = make(folder.path(), 16, &["-d", tree.to_str().unwrap()]);
    let url = weed.put("images/disk.img", &fs::read(image).unwrap());

    let listed = output(&mut weed.foreread(&["ls", &url, "/a"])).unwrap();
    assert!(listed.trim_end().ends_with(" large"), "{listed}");
    let large = weed.foreread(&["cat", &url, "/a/large"]).output().unwrap();
    assert!(large.stdout == pattern(3_000_000), "{}", String::from_utf8_lossy(&large.stderr));

    if !needs(Need::Root, test) || !needs(Need::Fuse, test) {
        return;
    }
    let dir = folder.path().join("mounted");
    fs::create_dir(&dir).unwrap();
    let mut mount = weed.foreread(&["mount", &url, "--no-remember"]);
    let mut child = mount.arg(&dir).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut ready).unwrap();
    let is_ready = ready.starts_with("foreread: mounted s3://tests/images/disk.img");
    let read = is_ready.then(|| (fs::read(dir.join("a/large")), fs::read(dir.join("small"))));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = child.wait().unwrap();
    let (large, small) = read.unwrap_or_else(|| panic!("{ready}"));
    assert!(large.unwrap() == pattern(3_000_000), "a file through the mount");
    assert_eq!(small.unwrap(), b"small\n");
    assert!(ended.success(), "{ended}");
}
