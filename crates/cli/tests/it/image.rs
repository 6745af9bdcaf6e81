//! `foreread ls`, `cat` and `stat`: an image that mkfs.ext4 has made of a tree, and the tree.
//!
//! In:    the real binary.
//! Out:   what it prints, its exit code, its one line on stderr.
//! Never: a mount: the command needs none.

use crate::common;
use crate::common::Command;
use crate::images;

mod partitions;
use crate::said;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use images::{can_make, debugfs_write, folder, make, pattern};
use serde_json::Value;

/// A tree, and an image of it.
struct Planted {
    folder: tempfile::TempDir,
    image: PathBuf,
}

impl Planted {
    fn new(options: &[&str]) -> Self {
        let folder = folder();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/large"), pattern(3_000_000)).unwrap();
        fs::write(tree.join("a/b/small"), "small\n").unwrap();
        fs::set_permissions(tree.join("a/b/small"), fs::Permissions::from_mode(0o4751)).unwrap();
        fs::write(tree.join("a/new\nline"), "").unwrap();
        symlink("b/small", tree.join("a/link")).unwrap();
        let sparse = File::create(tree.join("sparse")).unwrap();
        sparse.write_all_at(b"end", 2_000_000).unwrap();
        let options = [options, &["-d", tree.to_str().unwrap()]].concat();
        let image = make(folder.path(), 16, &options);
        Self { folder, image }
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn foreread(&self, verb: &str, args: &[&str]) -> Output {
        let image = self.image.to_str().unwrap();
        foreread(&[&[verb, image], args].concat())
    }

    fn json(&self, verb: &str, args: &[&str]) -> Vec<Value> {
        let output = self.foreread(verb, &[args, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        said::data(&output.stdout)
    }
}

fn foreread(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreread")).args(args).output().unwrap()
}

/// The exit code, nothing on stdout, one line on stderr with `hint` in it.
#[track_caller]
fn is_refused(output: &Output, hint: &str) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(output.stdout.is_empty(), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("foreread: ") && line.contains(hint), "{line}");
}

#[test]
fn a_listing_has_every_name_with_its_columns() {
    if !can_make("a_listing_has_every_name_with_its_columns") {
        return;
    }
    let planted = Planted::new(&[]);
    let output = planted.foreread("ls", &["/a"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    let names: Vec<_> = lines.iter().map(|line| line[7]).collect();
    assert_eq!(names, ["b", "large", "link", "new\\x0aline"]);
    assert_eq!(lines[1][0], "-rw-r--r--");
    assert_eq!(lines[1][4], "3000000");
    assert_eq!(lines[2][7..], ["link", "->", "b/small"]);

    let output = planted.foreread("ls", &["a/b/small"]);
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(line.starts_with("-rwsr-x--x 1 ") && line.ends_with(" a/b/small\n"), "{line}");
}

#[test]
fn a_link_is_listed_wherever_it_leads() {
    if !can_make("a_link_is_listed_wherever_it_leads") {
        return;
    }
    let planted = Planted::new(&[]);
    for (name, target) in [("circle", "circle"), ("nowhere", "b/c"), ("directory", "a")] {
        debugfs_write(&planted.image, &format!("symlink /{name} {target}"));
    }
    for (path, target) in [("/circle", "circle"), ("/nowhere", "b/c"), ("/a/link", "b/small")] {
        let output = planted.foreread("ls", &[path]);
        let line = String::from_utf8(output.stdout).unwrap();
        assert!(line.starts_with("lrwxrwxrwx 1 "), "{path}: {line}");
        assert!(line.ends_with(&format!(" {path} -> {target}\n")), "{path}: {line}");
        assert_eq!(planted.json("ls", &[path])[0]["target"], target);
    }
    let through = planted.foreread("ls", &["/directory"]);
    assert_eq!(through.stdout, planted.foreread("ls", &["/a"]).stdout);
    is_refused(&planted.foreread("ls", &["/nowhere/"]), "/nowhere/: no such file or directory");
}

#[test]
fn a_listing_in_depth_has_the_whole_tree() {
    if !can_make("a_listing_in_depth_has_the_whole_tree") {
        return;
    }
    let planted = Planted::new(&["-b", "1024"]);
    let listed = planted.json("ls", &["-R"]);
    let names: BTreeSet<_> = listed.iter().map(|node| node["name"].as_str().unwrap()).collect();
    let want =
        ["a", "a/b", "a/b/small", "a/large", "a/link", "a/new\\x0aline", "lost+found", "sparse"];
    assert_eq!(names, BTreeSet::from(want));
    let small = listed.iter().find(|node| node["name"] == "a/b/small").unwrap();
    let metadata = fs::metadata(planted.tree().join("a/b/small")).unwrap();
    assert_eq!(small["size"], metadata.len());
    assert_eq!(small["mode"], "4751");
    assert_eq!(small["kind"], "file");
}

#[test]
fn contents_are_those_of_the_tree() {
    if !can_make("contents_are_those_of_the_tree") {
        return;
    }
    for options in [&[][..], &["-b", "1024", "-O", "inline_data"], &["-b", "65536"]] {
        let planted = Planted::new(options);
        for path in ["a/large", "a/b/small", "a/new\nline", "sparse"] {
            let output = planted.foreread("cat", &[path]);
            assert!(output.status.success(), "{path}");
            assert!(output.stdout == fs::read(planted.tree().join(path)).unwrap(), "{path}");
        }
        let output = planted.foreread("cat", &["/a/link", "/a/../a/b/./small"]);
        assert_eq!(output.stdout, b"small\nsmall\n", "{output:?}");
    }
}

#[test]
fn what_a_file_is_and_where_it_lies() {
    if !can_make("what_a_file_is_and_where_it_lies") {
        return;
    }
    let planted = Planted::new(&["-b", "4096"]);
    debugfs_write(&planted.image, "ea_set /sparse user.colour green");
    let nodes = planted.json("stat", &["/sparse", "/a/link", "/"]);
    let [sparse, link, root] = &nodes[..] else { panic!("{nodes:?}") };
    assert_eq!(sparse["size"], 2_000_003);
    assert_eq!(sparse["attributes"][0]["name"], "user.colour");
    assert_eq!(sparse["attributes"][0]["value"], "green");
    let runs = sparse["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert!(runs[0].get("at").is_none() && runs[1]["at"].is_u64(), "{runs:?}");
    assert_eq!(runs[1]["first"], 2_000_000 / 4096);
    // The blocks are where the bytes are.
    let at = runs[1]["at"].as_u64().unwrap() * 4096 + 2_000_000 % 4096;
    let mut end = [0; 3];
    File::open(&planted.image).unwrap().read_exact_at(&mut end, at).unwrap();
    assert_eq!(&end, b"end");
    assert_eq!(link["target"], "b/small");
    assert_eq!(root["inode"], 2);

    let output = planted.foreread("stat", &["/sparse"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["file: /sparse", "attribute: user.colour = green", "blocks: 0..488 zeros"] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn what_cannot_be_answered_is_one_line() {
    if !can_make("what_cannot_be_answered_is_one_line") {
        return;
    }
    let planted = Planted::new(&[]);
    for (verb, path, hint) in [
        ("ls", "/nowhere", "/nowhere: no such file or directory"),
        ("ls", "/a/large/below", "not a directory"),
        ("ls", "/a/large/", "not a directory"),
        ("cat", "/a", "/a: not a regular file"),
        ("cat", "/nowhere", "no such file"),
        ("stat", "/a/b/nowhere", "no such file"),
    ] {
        is_refused(&planted.foreread(verb, &[path]), hint);
    }
    let tree = planted.tree();
    let large = tree.join("a/large");
    is_refused(&foreread(&["ls", large.to_str().unwrap()]), "not an ext4 file system");
    is_refused(&foreread(&["ls", "/nonexistent/image"]), "/nonexistent/image");
    is_refused(&foreread(&["ls", tree.to_str().unwrap()]), tree.to_str().unwrap());
    is_refused(&foreread(&["cat", large.to_str().unwrap()]), "<PATH>");

    let cut = File::options().write(true).open(&planted.image).unwrap();
    cut.set_len(8 << 20).unwrap();
    is_refused(&planted.foreread("ls", &[]), "copy the whole image");
}

#[test]
fn a_feature_that_is_not_read_is_named() {
    if !can_make("a_feature_that_is_not_read_is_named") {
        return;
    }
    let folder = folder();
    let image = make(folder.path(), 8, &["-O", "^metadata_csum"]);
    debugfs_write(&image, "feature dirdata");
    is_refused(&foreread(&["ls", image.to_str().unwrap()]), "unsupported features: dirdata");
}

#[test]
fn a_journal_with_changes_is_refused_with_what_to_do() {
    if !can_make("a_journal_with_changes_is_refused_with_what_to_do") {
        return;
    }
    let planted = Planted::new(&[]);
    debugfs_write(&planted.image, "feature needs_recovery");
    let refused = planted.foreread("ls", &[]);
    is_refused(&refused, &format!("e2fsck -p {}", planted.image.display()));
    is_refused(&refused, "--ignore-journal");
    let output = planted.foreread("cat", &["--ignore-journal", "/a/b/small"]);
    assert_eq!(output.stdout, b"small\n", "{output:?}");
}

/// One damaged inode is one line; what is beside it is listed all the same.
#[test]
fn damage_is_named_and_the_rest_is_listed() {
    if !can_make("damage_is_named_and_the_rest_is_listed") {
        return;
    }
    let planted = Planted::new(&[]);
    let at = planted.json("stat", &["/a/large"])[0]["inode_at"].as_u64().unwrap();
    flip(&planted.image, at + 4);
    let output = planted.foreread("ls", &["/a"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (text, line) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("?????????? large: damaged: inode "), "{text}");
    assert!(text.contains(" link -> b/small"), "{text}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains("large: damaged: inode ") && line.contains("e2fsck -fn"), "{line}");

    let output = planted.foreread("ls", &["/a", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let nodes = said::data(&output.stdout);
    let large = nodes.iter().find(|node| node["name"] == "large").unwrap();
    assert!(large["error"].as_str().unwrap().contains("checksum does not match"), "{large}");
    is_refused(&planted.foreread("cat", &["/a/b/small", "/a/large"]), "checksum does not match");
}

fn flip(image: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn inode_tables_of_an_image_are_explained_inode_by_inode() {
    if !can_make("inode_tables_of_an_image_are_explained_inode_by_inode") {
        return;
    }
    let planted = Planted::new(&[]);
    let image = planted.image.to_str().unwrap();
    let lines = |args: &[&str]| {
        let output = foreread(&[&["explain", "itable", image], args].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let [first, again] = &lines(&["2", "3"])[..] else { panic!("a line each") };
    assert!(first.ends_with("(1), no inode near it was wanted lately"), "{first}");
    assert!(again.ends_with("cached"), "{again}");
    let [fixed] = &lines(&["2", "--inode-readahead-blks", "4"])[..] else { panic!("a line") };
    assert!(fixed.ends_with("fixed window"), "{fixed}");

    for (args, why) in [
        (&["0"][..], "and no 0"),
        (&["4000000000"], "has the inodes 1 to"),
        (&["x"], "is not an inode's number"),
        (&[], "which inodes of"),
        (&["2", "--cost", "5"], "--cost"),
    ] {
        let output = foreread(&[&["explain", "itable", image], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn a_layout_that_was_taken_is_walked_by_a_scenario() {
    if !can_make("a_layout_that_was_taken_is_walked_by_a_scenario") {
        return;
    }
    let planted = Planted::new(&["-b", "4096"]);
    let output = foreread(&["sim", "layout", planted.image.to_str().unwrap(), "/a"]);
    assert!(output.status.success(), "{output:?}");
    let layout = planted.folder.path().join("a.layout");
    fs::write(&layout, output.stdout).unwrap();
    let scenario = planted.folder.path().join("a.toml");
    let text = format!(
        "name = 'a'\n[device.disk.model.flash]\ncapacity = '1G'\nmb_per_s = 100\n\
         [file.fs]\ndevice = 'disk'\nsize = '1G'\n[[process]]\nname = 'find'\n\
         [process.run.find]\nmount = {{ file = 'fs', inode_readahead_blks = 'adaptive' }}\n\
         tree = {layout:?}\n"
    );
    fs::write(&scenario, text).unwrap();
    let output = foreread(&["sim", scenario.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{output:?}");
    let [run] = &said::data(&output.stdout)[..] else { panic!("one run") };
    // Two directories are listed; the upper one and the five names below are looked at.
    assert_eq!(run["processes"][0]["ops"], 2 + 1 + 5, "{run}");

    let planted = Planted::new(&["-b", "1024"]);
    let output = foreread(&["sim", "layout", planted.image.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("blocks of 1024 bytes"), "{said}");
}
