//! Mounts with a window of their own: FUSE, over a server that answers late.

use std::path::PathBuf;

use super::*;

/// A file of nbdfuse, whose requests take a millisecond; unmounted when it is dropped.
struct SlowMount {
    folder: tempfile::TempDir,
    fuse: Option<Child>,
}

impl SlowMount {
    fn new(name: &str) -> Option<Self> {
        let has_tools = needs(Need::Root, name)
            && needs(Need::Fuse, name)
            && needs(Need::Tool("nbdkit"), name)
            && needs(Need::Tool("nbdfuse"), name);
        if !has_tools {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        let mut server = Command::new("nbdkit");
        server.arg("-U").arg(at("socket")).arg("-P").arg(at("nbdkit.pid"));
        server.args(["--filter=noextents", "--filter=delay", "memory", "256M", "rdelay=1ms"]);
        done(server.stdin(Stdio::null()));
        assert!(looks_until(|| at("nbdkit.pid").exists()), "nbdkit");
        let mut mount = Self { folder, fuse: None };
        mount.mount();
        Some(mount)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self) -> String {
        // The kernel's own name of the place: a temporary folder may be a link.
        self.at("file").canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    fn mount(&mut self) {
        let socket = self.at("socket");
        // It stays in the foreground; unmounting ends it.
        let fuse = Command::new("nbdfuse")
            .args(["-r", "-C", "4"])
            .arg(self.at("file"))
            .arg(format!("nbd+unix:///?socket={}", socket.display()))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.fuse = Some(fuse);
        let is_up = || fs::metadata(self.at("file")).is_ok_and(|about| about.len() > 0);
        assert!(looks_until(is_up), "nbdfuse");
    }

    fn unmount(&mut self) {
        let file = self.at("file");
        let unmounts = || Command::new("umount").arg(&file).status().unwrap().success();
        // A reader that was killed lets go of it a moment later.
        assert!(looks_until(unmounts), "{} stays mounted", file.display());
        if let Some(mut fuse) = self.fuse.take() {
            let _ = fuse.wait();
        }
    }

    /// Its backing device, as the kernel numbers it now.
    fn bdi(&self) -> String {
        use std::os::unix::fs::MetadataExt as _;
        let device = fs::metadata(self.at("file")).unwrap().dev();
        format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
    }

    fn attribute(&self) -> PathBuf {
        Path::new("/sys/class/bdi").join(self.bdi()).join("read_ahead_kb")
    }

    fn window_kib(&self) -> u64 {
        fs::read_to_string(self.attribute()).unwrap().trim().parse().unwrap()
    }

    fn set_window(&self, kib: u64) {
        fs::write(self.attribute(), kib.to_string()).unwrap();
    }
}

impl Drop for SlowMount {
    fn drop(&mut self) {
        let _ = tune(&["forget", &self.path()]).output();
        if self.fuse.is_some() {
            self.unmount();
        }
        let pid = fs::read_to_string(self.at("nbdkit.pid")).unwrap_or_default();
        let _ = Command::new("kill").arg(pid.trim()).status();
    }
}

#[test]
fn a_mount_is_measured_and_its_window_follows_it() {
    const NAME: &str = "a_mount_is_measured_and_its_window_follows_it";
    let Some(mut mount) = SlowMount::new(NAME) else { return };
    let path = mount.path();
    // What no sweep recommends.
    mount.set_window(36);

    let line = refused(&[&path, "--seconds", "10"]);
    assert!(
        line.contains("is in use") && line.contains(&format!("is mounted at {path}")),
        "{line}"
    );
    assert_eq!(mount.window_kib(), 36);

    let found = recommended(&[&path, "--yes", "--json", "--remember", "--force"]);
    assert_eq!((&found["device"], &found["method"]), (&path.as_str().into(), &"kernel".into()));
    assert_eq!((&found["compared"]["now_kib"], &found["restored"]), (&36.into(), &true.into()));
    let chosen = found["recommended"]["read_ahead_kb"].as_u64().unwrap();
    assert_eq!(mount.window_kib(), chosen, "it is in force at once");
    let rule = fs::read_to_string("/etc/udev/rules.d/98-foreread-mounts.rules").unwrap();
    assert!(rule.contains("tune follow $kernel"), "{rule}");

    let verdict = || {
        let all = said::data(&ran(&["verify", "--json"]).stdout);
        let is_it = |it: &&Value| {
            it["name"].as_str().unwrap().starts_with("mount-") && it["device"] == path.as_str()
        };
        all.iter().find(is_it).cloned()
    };
    assert_eq!(verdict().unwrap()["ok"], true);
    // Mounted again, it has a new backing device with the kernel's window.
    mount.unmount();
    assert_eq!(verdict(), None, "it is not mounted");
    mount.mount();
    mount.set_window(40);
    assert_eq!(verdict().unwrap()["ok"], false);
    let doctor = |part: &str| {
        let args = ["doctor", &path];
        let output = Command::new(env!("CARGO_BIN_EXE_foreread")).args(args).output().unwrap();
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(report.contains(part), "{part}: {report}");
    };
    doctor("mount-not-as-remembered");
    let output = ran(&["follow", &mount.bdi()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(mount.window_kib(), chosen, "{output:?}");
    assert_eq!(verdict().unwrap()["ok"], true);
    doctor("was measured on");

    assert!(ran(&["forget", &path]).status.success());
    assert_eq!(mount.window_kib(), 36, "as before the first time");
    assert!(refused(&["forget", &path]).contains("not remembered"));
}

/// A tune of a mount that has begun to change its window.
fn begun(mount: &SlowMount) -> Child {
    let before = mount.window_kib();
    let child = tune(&[&mount.path(), "--yes", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(looks_until(|| mount.window_kib() != before), "it measures");
    child
}

#[test]
fn the_window_of_a_mount_is_restored_after_ctrl_c_and_after_a_kill() {
    const NAME: &str = "the_window_of_a_mount_is_restored_after_ctrl_c_and_after_a_kill";
    let Some(mount) = SlowMount::new(NAME) else { return };
    let before = mount.window_kib();
    let child = begun(&mount);
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!((mount.window_kib(), &one(&output)["restored"]), (before, &true.into()));
    let mut child = begun(&mount);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(looks_until(|| mount.window_kib() == before), "{}", mount.window_kib());
}

/// An overlay reads the files of its layers, with their windows.
#[test]
fn a_file_of_an_overlay_is_measured_with_the_window_of_its_layer() {
    const NAME: &str = "a_file_of_an_overlay_is_measured_with_the_window_of_its_layer";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) || !needs(Need::Tool("mkfs.ext4"), NAME)
    {
        return;
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.split_whitespace().any(|word| word == "overlay") {
        skip(NAME, "this kernel has no overlayfs");
        return;
    }
    let disk = Loop::new(96);
    done(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.node()));
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["disk", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    done(Command::new("mount").arg(disk.node()).arg(at("disk")));
    let _below = Unmounted(at("disk"));
    for name in ["disk/lower", "disk/upper", "disk/work"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("disk/lower/data"), vec![7; 48 << 20]).unwrap();
    done(Command::new("sync").arg(at("disk/lower/data")));
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        at("disk/lower").display(),
        at("disk/upper").display(),
        at("disk/work").display()
    );
    let mut overlay = Command::new("mount");
    done(overlay.args(["-t", "overlay", "overlay", "-o", &layers]).arg(at("merged")));
    let _above = Unmounted(at("merged"));

    let before = disk.window_kib();
    let file = at("merged/data");
    let found = report(&[file.to_str().unwrap(), "--yes", "--json", "--seconds", "10"]);
    assert_eq!(
        (&found["device"], &found["method"]),
        (&disk.name.as_str().into(), &"kernel".into())
    );
    assert!(found["notes"].to_string().contains("the window of its layer on"), "{found}");
    assert_eq!(disk.window_kib(), before);
}

/// Unmounted at the end, whatever comes.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = crate::common::unmount(&self.0);
    }
}
