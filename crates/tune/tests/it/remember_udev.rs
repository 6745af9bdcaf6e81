//! What we say that udev does is what udev does.
//!
//! In:    rules for one loop device of this test, and `udevadm test`.
//! Out:   the same answers from both, rule by rule.
//! Never: a rule for any other device; the file is removed also when the test fails.

use crate::common::Command;
use crate::remember_common;

use std::fs;
use std::path::{Path, PathBuf};

use foreread_tune::sysfs::SystemRoot;
use foreread_tune::udev::{FOLDERS, RuleMatch, UdevDevice, literal, parse, rule_files};
use remember_common::{Loop, needs};

struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn udev(name: &str) -> String {
    let device = format!("/sys/block/{name}");
    let output = Command::new("udevadm").args(["test", "--action=add", &device]).output();
    String::from_utf8_lossy(&output.expect("udevadm runs").stdout).into_owned()
}

fn can(test: &str) -> bool {
    needs("root", None, test)
        && needs("tools", Some("udevadm"), test)
        && needs("tools", Some("losetup"), test)
        && needs("loop", None, test)
}

#[test]
fn udev_and_we_answer_each_rule_alike() {
    let test = "udev_and_we_answer_each_rule_alike";
    if !can(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().canonicalize().expect("a folder");
    let base = base.to_str().expect("text");
    for name in ["a*b?c[d]e", "x\\y\"z$k%n,#", "blank  ", "a|b", "plain", "x\\*y"] {
        let disk = Loop::over(Path::new(&format!("{base}/{name}")));
        let mut asks: Vec<String> = PATTERNS
            .iter()
            .map(|pattern| format!("ATTR{{loop/backing_file}}==\"{base}/{pattern}\""))
            .collect();
        if let Some(pattern) = literal(&format!("{base}/{name}")) {
            asks.push(format!("ATTR{{loop/backing_file}}==\"{pattern}\""));
        }
        asks.extend(CONDITIONS.map(str::to_owned));
        compare(&disk, &asks);
    }
}

fn compare(disk: &Loop, asks: &[String]) {
    let sys = SystemRoot::here();
    let device = sys.device(&disk.name).expect("it is there");
    let mut text = format!("ENV{{DEVNAME}}!=\"/dev/{}\", GOTO=\"end\"\n", disk.name);
    for (n, ask) in asks.iter().enumerate() {
        text += &format!("{ask}, ENV{{FOREREAD_TEST_{n}}}=\"1\"\n");
    }
    text += "LABEL=\"end\"\n";
    let name = format!("98-foreread-test-{}.rules", std::process::id());
    let file = Gone(Path::new("/etc/udev/rules.d").join(name));
    fs::write(&file.0, &text).expect("the rules");
    let says = udev(&disk.name);
    drop(file);
    // The database forgets what this test put there.
    udev(&disk.name);
    let target = UdevDevice::block(&sys, &device);
    for (n, ask) in asks.iter().enumerate() {
        let theirs = says.lines().any(|line| line == format!("FOREREAD_TEST_{n}=1"));
        let ours = match parse(ask).as_slice() {
            [rule] => target.answers("add", &rule.pairs) == RuleMatch::Yes,
            _ => false,
        };
        assert_eq!(ours, theirs, "{ask} of {}", disk.backing.display());
    }
}

#[test]
fn of_one_name_udev_reads_the_file_that_we_say() {
    let test = "of_one_name_udev_reads_the_file_that_we_say";
    if !can(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Loop::over(&folder.path().join("layers.img"));
    let name = format!("97-foreread-test-{}.rules", std::process::id());
    // Folders that were made for this are removed if they are empty.
    let folders = FOLDERS.iter().flat_map(|folder| Path::new(folder).ancestors().take(2));
    let made: Vec<_> = folders.filter(|folder| !folder.exists()).collect();
    let mut files = Vec::new();
    for folder in FOLDERS {
        fs::create_dir_all(folder).expect("a folder");
        let file = Gone(Path::new(folder).join(&name));
        let ask = format!("ENV{{DEVNAME}}==\"/dev/{}\"", disk.name);
        let rule = format!("{ask}, ENV{{FOREREAD_TEST}}=\"{folder}\"\n");
        fs::write(&file.0, rule).expect("the rule");
        files.push(file);
    }
    files.reverse();
    let mut seen = Vec::new();
    while let Some(file) = files.pop() {
        let found = rule_files(&SystemRoot::here()).into_iter().find(|found| found.name == name);
        assert_eq!(found.map(|found| found.path), Some(file.0.clone()));
        let says = udev(&disk.name);
        let from = says.lines().find_map(|line| line.strip_prefix("FOREREAD_TEST="));
        seen.push(from.expect("one is read").to_owned());
    }
    assert_eq!(seen, FOLDERS);
    udev(&disk.name);
    for folder in made {
        let _ = fs::remove_dir(folder);
    }
}

/// Patterns of names, right and wrong ones.
const PATTERNS: [&str; 30] = [
    "a*",
    "*e",
    "a[*]b?c*",
    "a\\*b\\?c\\[d]e",
    "a[*]b[?]c[[]d]e",
    "a*b?c[d]e",
    "[!b]*e",
    "x\\y\\\"z$k%n,#",
    "x[\\\\]y*",
    "x\\\\y*",
    "x\\*y",
    "x?[*]y",
    "blank",
    "blank  ",
    "blank ",
    "bla*",
    "bla* ",
    "a|b",
    "a[|]b",
    "a?b",
    "nothing|plain",
    "p[k-m]ain",
    "p[^l]ain",
    "pl*n|x",
    "[p]lain",
    "plai[n",
    "p]lain",
    "",
    "*",
    "?*",
];

/// What else a rule asks of a loop device.
const CONDITIONS: [&str; 17] = [
    "ATTR{loop/nothing}!=\"x\"",
    "ATTR{loop/nothing}==\"\"",
    "KERNEL==\"loop[0-9]*\"",
    "KERNEL!=\"loop*\"",
    "SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\"",
    "ENV{NO}!=\"x\"",
    "ENV{NO}==\"\"",
    "ENV{MAJOR}==\"7\"",
    "TEST==\"queue/read_ahead_kb\"",
    "TEST!=\"loop/nothing\"",
    "TEST==\"/proc\"",
    "SUBSYSTEMS==\"block\"",
    "ATTRS{loop/backing_file}==\"?*\", KERNELS==\"loop*\"",
    "SUBSYSTEMS==\"usb\"",
    "ATTR{bdi/read_ahead_kb}==\"?*\"",
    "ACTION==\"change\"",
    "ACTION==\"add|change\"",
];
