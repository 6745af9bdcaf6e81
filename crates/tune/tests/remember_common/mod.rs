//! Fake systems to remember devices of, and what the tests on real devices need of the machine.
//!
//! In:    files and links to make; the name of a test.
//! Out:   a [`Fake`]; or a line `SKIP test: reason` where the machine lacks something.
//! Never: a silent skip. What the variable REQUIRE names (`REQUIRE=root,loop`) has to be there.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use foreread_tune::report::{Compared, Method, Profile, Recommended, Report, WindowResult};
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;

use crate::common::Command;

/// A system in a folder of its own.
pub struct Fake {
    _root: tempfile::TempDir,
    pub sys: SystemRoot,
}

impl Fake {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        Self { _root: root, sys }
    }

    pub fn file(&self, path: &str, text: &str) -> &Self {
        let here = self.sys.path(path);
        fs::create_dir_all(here.parent().expect("a folder")).expect("it is made");
        fs::write(here, text).expect("it is written");
        self
    }

    /// A link as sysfs has them: to an absolute path of the system, whatever lies above it.
    pub fn link(&self, path: &str, to: &str) -> &Self {
        let here = self.sys.path(path);
        fs::create_dir_all(here.parent().expect("a folder")).expect("it is made");
        let up = "../".repeat(Path::new(path).components().count() - 2);
        symlink(format!("{up}{}", to.trim_start_matches('/')), here).expect("a link");
        self
    }

    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.sys.path(path)).ok()
    }

    /// A disk in `/sys/devices` below `parents`, with a link from `/sys/block`.
    pub fn disk(&self, parents: &str, name: &str, number: &str) -> &Self {
        let folder = format!("/sys/devices/{parents}/block/{name}");
        self.file(&format!("{folder}/dev"), number)
            .file(&format!("{folder}/uevent"), "DEVTYPE=disk\n")
            .file(&format!("{folder}/queue/read_ahead_kb"), "128\n")
            .file(&format!("{folder}/queue/scheduler"), "none [mq-deadline]\n")
            .link(&format!("{folder}/device"), &format!("/sys/devices/{parents}"))
            .link(&format!("{folder}/subsystem"), "/sys/class/block")
            .link(&format!("/sys/block/{name}"), &folder)
    }

    /// An NVMe disk with this wwid.
    pub fn nvme(&self, name: &str, minor: u32, wwid: &str) -> &Self {
        let parents = format!("pci0000:00/0000:00:04.0/nvme/{name}-controller");
        self.disk(&parents, name, &format!("259:{minor}\n"))
            .file(&format!("/sys/devices/{parents}/block/{name}/wwid"), &format!("{wwid}\n"))
    }

    /// A USB stick with this serial number.
    pub fn stick(&self, name: &str, minor: u32, serial: Option<&str>) -> &Self {
        let usb = format!("pci0000:00/usb1/1-{minor}");
        let path = |file: &str| format!("/sys/devices/{usb}/{file}");
        self.file(&path("idVendor"), "0781\n").file(&path("idProduct"), "5581\n");
        self.link(&path("subsystem"), "/sys/bus/usb");
        if let Some(serial) = serial {
            self.file(&path("serial"), &format!("{serial}\n"));
        }
        let parents = format!("{usb}/1-{minor}:1.0/host6/target6:0:0/6:0:0:{minor}");
        self.disk(&parents, name, &format!("8:{minor}\n"))
    }
}

/// What a measurement of `device` may have found.
pub fn report(device: &str) -> Report {
    let row = |window_kib, mb_per_s: f64| WindowResult {
        window_kib,
        mb_per_s,
        low: mb_per_s - 0.5,
        high: mb_per_s + 0.5,
        samples: 5,
    };
    Report {
        best_kib: None,
        refusals: Vec::new(),
        device: device.to_owned(),
        seconds: 41.0,
        method: Method::Kernel,
        sweep: vec![row(128, 20.0), row(512, 32.5), row(1024, 33.0)],
        random: Vec::new(),
        parallel: Vec::new(),
        plateau_kib: Some(512),
        plateau_between_kib: Some([512, 1024]),
        recommended: Some(Recommended {
            between_kib: None,
            read_ahead_kb: 512,
            inode_readahead_blks: None,
            scheduler: Vec::new(),
            profile: Profile::Mixed,
            why: "512 KiB gives 98 %\nRUN+=\"of all\" \\".into(),
        }),
        compared: Compared { now_kib: Some(128), kernel_kib: Some(128), size_rule_kib: None },
        notes: Vec::new(),
        restored: true,
    }
}

/// A window of `device`.
pub fn window(device: &str, kib: u64) -> Vec<DeviceSetting> {
    vec![DeviceSetting::read_ahead_kb(device, kib)]
}

/// Whether the machine has what a test needs: `root`, `loop`, or a program (`tools`).
pub fn needs(what: &str, program: Option<&str>, test: &str) -> bool {
    let reason = match (what, program) {
        ("root", _) => (!is_root()).then(|| "not root".to_owned()),
        ("loop", _) => losetup(&["--find"]).err(),
        (_, Some(program)) => (!has(program)).then(|| format!("no {program} on PATH")),
        (_, None) => Some(format!("{what} is not known here")),
    };
    let Some(reason) = reason else { return true };
    let list = std::env::var("REQUIRE").unwrap_or_default();
    let is_required = list.split(',').any(|word| word == what || word == "all");
    assert!(!is_required, "{test}: REQUIRE names {what}, but: {reason}");
    let line = format!("SKIP {test}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("stderr takes a line");
    false
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    effective.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// What losetup prints, or complains of.
pub fn losetup(args: &[&str]) -> Result<String, String> {
    let output =
        Command::new("losetup").args(args).output().map_err(|e| format!("losetup: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// A loop device over a file; it is detached and the file removed at the end.
pub struct Loop {
    pub name: String,
    pub backing: std::path::PathBuf,
}

impl Loop {
    pub fn over(backing: &Path) -> Self {
        let file = fs::File::create(backing).expect("a file");
        file.set_len(4 << 20).expect("it has a size");
        let backing = backing.canonicalize().expect("it is there");
        let path = backing.to_str().expect("text");
        let node = losetup(&["--find", "--show", path]).expect("a loop device");
        Self { name: node.trim_start_matches("/dev/").to_owned(), backing }
    }

    pub fn window_kib(&self) -> u64 {
        let path = format!("/sys/block/{}/queue/read_ahead_kb", self.name);
        fs::read_to_string(path).expect("it has one").trim().parse().expect("a number")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = losetup(&["--detach", &format!("/dev/{}", self.name)]);
        let _ = fs::remove_file(&self.backing);
    }
}
