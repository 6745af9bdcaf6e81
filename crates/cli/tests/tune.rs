//! Tune, as its users run it: on models, on loop devices of our own, as root and as others.
//!
//! In:    devices; signals in the middle.
//! Out:   reports, settings as before, rules that come and go.
//! Never: a device that is not ours; a claim about speed.

#[path = "../../tune/tests/machine/mod.rs"]
mod machine;

mod said;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use machine::{Loop, Need, done, looks_until, needs, skip};
use serde_json::Value;

fn tune(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.arg("tune").args(args).stdin(Stdio::null());
    command
}

fn ran(args: &[&str]) -> Output {
    tune(args).output().unwrap()
}

/// The one object of an answer.
fn one(output: &Output) -> Value {
    let mut data = said::data(&output.stdout);
    assert_eq!(data.len(), 1, "{output:?}");
    data.remove(0)
}

fn report(args: &[&str]) -> Value {
    let output = ran(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    one(&output)
}

/// The report of a sweep that comes to a recommendation: a machine that has much else to do needs
/// longer.
fn recommended(args: &[&str]) -> Value {
    let found = ["10", "20", "60"].into_iter().find_map(|seconds| {
        let output = ran(&[args, &["--seconds", seconds]].concat());
        let found = one(&output);
        let is_known = !found["recommended"].is_null();
        assert!(output.status.success() || !is_known, "{args:?}: {output:?}");
        is_known.then_some(found)
    });
    found.expect("a minute is enough")
}

/// The one line on stderr of an answer that was refused.
fn refused(args: &[&str]) -> String {
    let output = ran(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn wrong_use_is_answered_with_one_line_that_says_what_to_do() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (args, what) in [
        (&[][..], "TARGET"),
        (&["/dev/null"], "is a character device; give a block device"),
        (&["/nonexistent"], "no such file"),
        (&[empty], "too small to measure"),
        (&["/proc/self/status"], "has no block device"),
        (&["--device", "abacus"], "possible values"),
        (&["--device", "sd-card", "--apply"], "cannot be used with"),
        (&["--device", "sd-card", "/dev/null"], "cannot be used with"),
        (&["--quick", "--seconds", "12", "--device", "sd-card"], "cannot be used with"),
        (&["--list", "--apply"], "cannot be used with"),
        (&["--scratch", "/nonexistent", empty], "/nonexistent: No such file"),
        (&["--seconds", "1", "--device", "sd-card"], "10..=3600"),
        (&["forget", "nothing-of-this-name"], "nothing is remembered"),
        (&["no-device-of-this-name"], "no such file; give a block device"),
        (&["--quick", "--remember", "/dev/null"], "--remember: --quick, or less than 21 s, is"),
        (&["--seconds", "20", "--remember", "/dev/null"], "--force remembers it all the same"),
        (&["--quick", "--remember", "--force", "/dev/null"], "is a character device"),
    ] {
        let line = refused(args);
        assert!(line.contains(what), "{args:?}: {line}");
    }
}

#[test]
fn a_known_device_is_tuned_in_virtual_time() {
    let found = report(&["--device", "usb-stick-2g", "--json"]);
    assert_eq!(found["device"], "usb-stick-2g");
    assert_eq!(found["method"], "simulated");
    assert_eq!(found["plateau_kib"], 256);
    assert_eq!(found["recommended"]["read_ahead_kb"], 256);
    assert_eq!(found["recommended"]["profile"], "mixed");
    assert_eq!(found["compared"]["size_rule_kib"], 256);
    assert_eq!(found["restored"], true);
    assert!(found["seconds"].as_f64().unwrap() <= 60.0);
    for row in found["sweep"].as_array().unwrap() {
        let value = |key: &str| row[key].as_f64().unwrap();
        assert!(value("low") <= value("mb_per_s") && value("mb_per_s") <= value("high"), "{row}");
    }
    let again = report(&["--device", "usb-stick-2g", "--json"]);
    assert_eq!(found, again, "virtual time is the same on every run");
}

#[test]
fn profiles_weigh_differently() {
    let window = |profile| {
        let args = ["--device", "intel-x25m-80g", "--json", "--profile", profile];
        report(&args)["recommended"]["read_ahead_kb"].as_u64().unwrap()
    };
    let (streaming, mixed, database) = (window("streaming"), window("mixed"), window("database"));
    assert!(streaming > 2048, "{streaming}");
    assert!(mixed <= 2048, "{mixed}");
    assert!(database < mixed, "{database} {mixed}");
}

#[test]
fn a_device_is_measured_and_everything_is_as_before() {
    const NAME: &str = "a_device_is_measured_and_everything_is_as_before";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::new(64);
    let (before, (_, writes)) = (disk.window_kib(), disk.requests());
    let node = disk.node();
    let found = recommended(&[node.to_str().unwrap(), "--json"]);
    assert_eq!(found["device"], disk.name.as_str());
    assert_eq!(found["method"], "kernel");
    assert_eq!(found["compared"]["now_kib"], before);
    assert_eq!(found["restored"], true, "{found}");
    assert!(found["sweep"].as_array().unwrap().len() >= 5, "{found}");
    assert_eq!(disk.window_kib(), before);
    assert_eq!(disk.requests().1, writes, "nothing was written");
}

/// A tune of a device that has begun to change its window.
fn begun(disk: &Loop, before: u64) -> Child {
    let node = disk.node();
    let child = tune(&[node.to_str().unwrap(), "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(looks_until(|| disk.window_kib() != before), "it measures");
    child
}

fn signal(child: &Child, name: &str) {
    done(Command::new("kill").args(["-s", name, &child.id().to_string()]));
}

#[test]
fn ctrl_c_restores_and_prints_what_is_known() {
    const NAME: &str = "ctrl_c_restores_and_prints_what_is_known";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::new(64);
    let before = disk.window_kib();
    let child = begun(&disk, before);
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(disk.window_kib(), before);
    let found = one(&output);
    assert_eq!((&found["restored"], &found["recommended"]), (&true.into(), &Value::Null));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("interrupted; every setting is as it was"), "{said}");
}

#[test]
fn a_kill_leaves_no_setting_behind() {
    const NAME: &str = "a_kill_leaves_no_setting_behind";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::new(64);
    let before = disk.window_kib();
    let mut child = begun(&disk, before);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(looks_until(|| disk.window_kib() == before), "{}", disk.window_kib());
}

/// What was said on stderr.
fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A run that may have measured a cache sets nothing, and says why and what to do.
fn is_refused_for_its_cache(name: &str, refused: Output, text: &str) {
    assert_eq!(refused.status.code(), Some(1), "{text}");
    for part in [
        &format!("{name}: nothing is set: "),
        "a cache below may have been measured",
        "--direct-io=on",
        "--force sets read_ahead_kb=",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = String::from_utf8(refused.stdout).unwrap();
    let first = report.lines().next().unwrap();
    assert!(first.starts_with(&format!("{name}: ")) && first.ends_with('.'), "{first}");
    assert!(first.contains("nothing is set, for the reason at the end"), "{first}");
}

/// A device whose file is cached, which is set from there all the same only with `--force`; and by
/// its bare name, as doctor takes it.
#[test]
fn what_a_cache_gave_is_refused_and_forced_and_undone() {
    const NAME: &str = "what_a_cache_gave_is_refused_and_forced_and_undone";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::cached(96);
    let name = disk.name.as_str();
    let window = Path::new("/sys/block").join(name).join("queue/read_ahead_kb");
    // What no sweep begins with: it is measured all the same.
    fs::write(&window, "36").unwrap();
    let undone = Remembered(&disk);

    let found = recommended(&[name, "--json"]);
    assert_eq!(found["compared"]["now_kib"], 36);
    let measured = found["sweep"].as_array().unwrap().iter().any(|row| row["window_kib"] == 36);
    assert!(measured, "{found}");
    assert!(found["refusals"].to_string().contains(r#""refusal":"cached""#), "{found}");

    let (refused, text) = ["10", "60"]
        .into_iter()
        .find_map(|seconds| {
            let output = ran(&[name, "--apply", "--seconds", seconds]);
            let text = said(&output);
            (!text.contains("nothing is recommended")).then_some((output, text))
        })
        .expect("a minute is enough");
    if text.contains("is in force already; nothing was changed") {
        // The cache hides any gain, so the window in force is kept: there is nothing to refuse.
        assert_eq!(refused.status.code(), Some(0), "{text}");
        assert_eq!(disk.window_kib(), 36, "it was not set");
    } else {
        is_refused_for_its_cache(name, refused, &text);
        assert_eq!(disk.window_kib(), 36, "it was not set");
    }

    let chosen = forced(name);
    assert_eq!(disk.window_kib(), chosen);
    if chosen != 36 {
        let doctor = Command::new(env!("CARGO_BIN_EXE_foreread")).args(["doctor", name]).output();
        let doctor = String::from_utf8(doctor.unwrap().stdout).unwrap();
        assert!(!doctor.contains("read-ahead-"), "doctor honours what was measured: {doctor}");
        assert!(doctor.contains("and set until the next boot"), "{doctor}");
        let done = ran(&["forget", name]);
        assert!(done.status.success(), "{done:?}");
    }
    assert_eq!(disk.window_kib(), 36, "as before");
    drop(undone);
}

/// Applies by force; the window that was set. Checks what is said of the one before.
fn forced(name: &str) -> u64 {
    let found = ["10", "60"].into_iter().find_map(|seconds| {
        let output = ran(&[name, "--apply", "--force", "--json", "--seconds", seconds]);
        output.status.success().then_some(output)
    });
    let found = found.expect("a minute is enough");
    let (text, report) = (said(&found), one(&found));
    let chosen = report["recommended"]["read_ahead_kb"].as_u64().unwrap();
    let undo = format!("undo: foreread tune forget {name} (or echo 36 > /sys/block/{name}/");
    let says = [format!("set: read_ahead_kb={chosen}, before 36; {undo}"), "in force".to_owned()];
    assert!(text.contains(&says[usize::from(chosen == 36)]), "{text}");
    chosen
}

/// A device that is forgotten, whatever becomes of the test.
struct Remembered<'l>(&'l Loop);

impl Drop for Remembered<'_> {
    fn drop(&mut self) {
        let _ = tune(&["forget", &self.0.name]).output();
    }
}

#[test]
fn what_is_remembered_is_listed_checked_and_undone() {
    const NAME: &str = "what_is_remembered_is_listed_checked_and_undone";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::new(64);
    let window = Path::new("/sys/block").join(&disk.name).join("queue/read_ahead_kb");
    // What no sweep recommends.
    fs::write(&window, "36").unwrap();
    let (node, remembered) = (disk.node(), Remembered(&disk));
    // A small device on a busy machine: what it recommends is not the question here.
    let found = recommended(&[node.to_str().unwrap(), "--json", "--remember", "--force"]);
    let chosen = found["recommended"]["read_ahead_kb"].as_u64().unwrap();
    assert_eq!(disk.window_kib(), chosen, "it is in force at once");

    let listed = said::data(&ran(&["--list", "--json"]).stdout);
    let is_ours = |known: &&Value| known["device"] == disk.name.as_str();
    let known = listed.iter().find(is_ours).expect("it is listed").clone();
    assert_eq!(known["before"][0]["value"], "36");
    let id = known["identity"]["id"].as_str().unwrap();
    let rule = format!("/etc/udev/rules.d/99-foreread-{id}.rules");
    let text = fs::read_to_string(&rule).unwrap();
    assert!(text.contains(&format!("ATTR{{queue/read_ahead_kb}}=\"{chosen}\"")), "{text}");

    let verdict = || {
        let all = said::data(&ran(&["verify", "--json"]).stdout);
        let is_it = |verdict: &&Value| verdict["name"] == id;
        all.iter().find(is_it).expect("it is checked").clone()
    };
    assert_eq!(verdict()["ok"], true, "{}", verdict());
    fs::write(&window, "40").unwrap();
    assert_eq!(verdict()["ok"], false);
    assert_eq!(ran(&["verify"]).status.code(), Some(1));
    fs::write(&window, chosen.to_string()).unwrap();

    assert!(ran(&["forget", &disk.name]).status.success());
    assert_eq!(disk.window_kib(), 36, "as before");
    assert!(!Path::new(&rule).exists());
    assert!(refused(&["forget", id]).contains("nothing is remembered"));
    drop(remembered);
}

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
        let _ = Command::new("umount").arg(self.0).status();
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
    fs::copy(env!("CARGO_BIN_EXE_foreread"), &program).unwrap();
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
    let device = OnCredit::new(400);
    let node = device.disk.as_ref().unwrap().node();
    let found = report(&[node.to_str().unwrap(), "--quick", "--json"]);
    let notes = found["notes"].to_string();
    assert!(notes.contains("burst credit"), "{notes}");
    for row in found["sweep"].as_array().unwrap() {
        assert!(row["mb_per_s"].as_f64().unwrap() < 1.25 * SUSTAINED, "{row} of {found}");
    }
}
