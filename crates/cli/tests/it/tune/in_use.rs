//! Devices that others use, own, or have made fast for a while.

use super::*;

#[test]
fn a_device_in_use_takes_leave_and_a_mixed_load_leaves_nothing() {
    const NAME: &str = "a_device_in_use_takes_leave_and_a_mixed_load_leaves_nothing";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) || !needs(Need::Tool("mkfs.ext4"), NAME)
    {
        return;
    }
    let disk = Loop::new(512);
    done(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.node()));
    let point = tempfile::tempdir().unwrap();
    done(Command::new("mount").arg(disk.node()).arg(point.path()));
    let mounted = Mounted(point.path());
    let (before, folder) = (disk.window_kib(), point.path().to_str().unwrap());
    let files = || fs::read_dir(point.path()).unwrap().count();
    let had = files();

    let line = refused(&[folder, "--seconds", "10"]);
    assert!(line.contains("is in use") && line.contains("--yes"), "{line}");
    assert!(line.contains(folder), "{line}");

    let args = [folder, "--seconds", "30", "--yes", "--json", "--scratch", folder];
    let found = report(&args);
    assert_eq!(found["device"], disk.name.as_str());
    assert_eq!(found["flood"]["device"], disk.name.as_str());
    assert!(!found["flood"]["rows"].as_array().unwrap().is_empty(), "{found}");
    assert!(found["recommended"]["inode_readahead_blks"].as_u64().is_some(), "{found}");
    assert_eq!((files(), disk.window_kib()), (had, before));
    assert_eq!(found["restored"], true);
    drop(mounted);
}

/// Unmounted at the end, whatever comes.
struct Mounted<'p>(&'p Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = crate::common::unmount(self.0);
    }
}

#[test]
fn unprivileged_users_measure_a_file_they_own() {
    const NAME: &str = "unprivileged_users_measure_a_file_they_own";
    if !needs(Need::Root, NAME) || !needs(Need::ODirect, NAME) {
        return;
    }
    // A folder that all users may enter: that of the build may be closed to others.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, file) = (folder.path().join("foreread"), folder.path().join("file"));
    crate::common::copy_program(env!("CARGO_BIN_EXE_foreread"), &program);
    fs::write(&file, vec![7; 64 << 20]).unwrap();
    done(Command::new("sync").arg(&file));
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["tune", "--seconds", "10", "--json"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    if said.contains("has no block device") {
        skip(NAME, "/var/tmp lies on no block device");
        return;
    }
    assert!(output.status.success(), "{said}");
    let found = one(&output);
    assert_eq!(found["method"], "direct");
    let notes = found["notes"].to_string();
    let is_late = notes.contains("not all windows were tried");
    assert!(found["plateau_kib"].as_u64().is_some() || is_late, "{found}");
    assert!(notes.contains("not by the kernel's own read-ahead"), "{notes}");
}

/// A device that is fast until its credit is used up: nbdkit's rate filter saves some seconds.
struct OnCredit {
    folder: tempfile::TempDir,
    disk: Option<Loop>,
    fuse: Child,
}

impl OnCredit {
    fn new(mbit_per_s: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("device"), "").unwrap();
        let rate = format!("rate={mbit_per_s}M");
        let mut server = Command::new("nbdkit");
        server.arg("-U").arg(at("socket")).arg("-P").arg(at("nbdkit.pid"));
        done(server.args(["--filter=rate", "memory", "2G", &rate]).stdin(Stdio::null()));
        assert!(looks_until(|| at("nbdkit.pid").exists()), "nbdkit");
        // It stays in the foreground; unmounting ends it.
        let fuse = Command::new("nbdfuse")
            .args(["-C", "4"])
            .arg(at("device"))
            .arg(format!("nbd+unix:///?socket={}", at("socket").display()))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let is_up = || fs::metadata(at("device")).is_ok_and(|about| about.len() > 0);
        assert!(looks_until(is_up), "nbdfuse");
        let disk = Some(Loop::over(&at("device")));
        Self { folder, disk, fuse }
    }
}

impl Drop for OnCredit {
    fn drop(&mut self) {
        self.disk = None;
        let at = |name: &str| self.folder.path().join(name);
        // The loop device lets go of the file a moment later.
        let unmounts = || Command::new("umount").arg(at("device")).status().unwrap().success();
        (0..100).any(|_| unmounts());
        let _ = self.fuse.wait();
        let pid = fs::read_to_string(at("nbdkit.pid")).unwrap_or_default();
        let _ = Command::new("kill").arg(pid.trim()).status();
    }
}

#[test]
fn burst_credit_is_not_taken_for_speed() {
    const NAME: &str = "burst_credit_is_not_taken_for_speed";
    let needed = [Need::Root, Need::Loop, Need::Fuse, Need::Tool("nbdkit"), Need::Tool("nbdfuse")];
    if !needed.into_iter().all(|need| needs(need, NAME)) {
        return;
    }
    const SUSTAINED: f64 = 50.0;
    // On a busy machine a burst can be over before it is read: each attempt has a new device.
    let found = (0..4).find_map(|_| {
        let device = OnCredit::new(400);
        let node = device.disk.as_ref().unwrap().node();
        let found = report(&[node.to_str().unwrap(), "--seconds", "15", "--json"]);
        found["notes"].to_string().contains("burst credit").then_some(found)
    });
    let found = found.expect("a burst was seen in one of the attempts");
    for row in found["sweep"].as_array().unwrap() {
        assert!(row["mb_per_s"].as_f64().unwrap() < 1.25 * SUSTAINED, "{row} of {found}");
    }
}
