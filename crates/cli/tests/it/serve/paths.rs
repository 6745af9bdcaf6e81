//! `--pid-file` and `--unix` leave what foreread did not create.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::common::{Command, Need, needs, skip};
use crate::serve::server::{Place, foreread};

/// Exit code 2, one line on stderr that contains `hint`; `path` is the same file as before.
#[track_caller]
fn leaves(place: &Place, target: &Path, flag: &str, path: &Path, hint: &str) {
    let before = fs::symlink_metadata(path).unwrap();
    let mut serve = foreread(&["serve"]);
    serve.arg(target).arg(flag).arg(path);
    if flag != "--unix" {
        serve.arg("--unix").arg(place.path("sock"));
    }
    // Ends a server that was not refused.
    serve.args(["--run", "true"]);
    let output = serve.output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    let path = path.display();
    assert_eq!(output.status.code(), Some(2), "{flag} {path}: {line}");
    assert_eq!(line.lines().count(), 1, "{flag} {path}: {line}");
    assert!(line.contains(hint) && line.contains(&path.to_string()), "{flag}: {line}");
    let after = fs::symlink_metadata(Path::new(&path.to_string())).unwrap();
    let is = |it: &fs::Metadata| (it.ino(), it.mode(), it.len(), it.mtime(), it.mtime_nsec());
    assert_eq!(is(&before), is(&after), "{flag} {path}");
    assert!(!place.path("sock").exists(), "{flag} {path}: the socket stays behind");
}

/// The number of a process that has ended and was waited for.
fn ended() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn node(path: &Path, kind: FileType, device: u64) -> rustix::io::Result<()> {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device)
}

#[test]
fn a_path_that_names_something_else_is_refused_and_left() {
    let place = Place::new();
    let disk = place.file("disk", 1 << 20);
    let other = place.file("other", 100);
    let stale = place.path("stale");
    fs::write(&stale, format!("{}\n", ended())).unwrap();
    symlink(&stale, place.path("link")).unwrap();
    symlink(place.path("nothing"), place.path("dangling")).unwrap();
    symlink(&disk, place.path("to-disk")).unwrap();
    fs::hard_link(&disk, place.path("second-name")).unwrap();
    fs::create_dir(place.path("folder")).unwrap();
    node(&place.path("fifo"), FileType::Fifo, 0).unwrap();
    let _listener = UnixListener::bind(place.path("live")).unwrap();
    for (name, of_pid_file, of_socket) in [
        ("disk", "would replace TARGET", "is a regular file, not a socket"),
        ("second-name", "would replace TARGET", "is a regular file, not a socket"),
        ("to-disk", "is a symbolic link", "is a symbolic link, not a socket"),
        ("other", "exists and is not a pid file", "is a regular file, not a socket"),
        ("link", "is a symbolic link", "is a symbolic link, not a socket"),
        ("dangling", "is a symbolic link", "is a symbolic link, not a socket"),
        ("folder", "is a directory", "is a directory, not a socket"),
        ("fifo", "is a FIFO", "is a FIFO, not a socket"),
        ("live", "is a socket", "another server listens there"),
    ] {
        leaves(&place, &disk, "--pid-file", &place.path(name), of_pid_file);
        leaves(&place, &disk, "--unix", &place.path(name), of_socket);
    }
    assert!(!place.path("nothing").exists());
    assert_eq!(fs::metadata(&other).unwrap().len(), 100);
    assert_eq!(fs::metadata(&disk).unwrap().len(), 1 << 20);
}

/// The pid file of a server that root had started was /dev/full, and the device was gone.
#[test]
fn a_device_node_is_refused_and_left() {
    const NAME: &str = "a_device_node_is_refused_and_left";
    if !needs(Need::Root, NAME) {
        return;
    }
    let place = Place::new();
    let disk = place.file("disk", 1 << 20);
    let full = place.path("full");
    if let Err(error) = node(&full, FileType::CharacterDevice, makedev(1, 7)) {
        return skip(NAME, &format!("no device nodes here: {error}"));
    }
    leaves(&place, &disk, "--pid-file", &full, "is a character device");
    leaves(&place, &disk, "--unix", &full, "is a character device");
    assert!(fs::symlink_metadata(&full).unwrap().file_type().is_char_device());
}

#[test]
fn the_pid_file_of_a_running_process_is_left_and_a_stale_one_is_replaced() {
    let place = Place::new();
    let disk = place.file("disk", 1 << 20);
    let pid_file = place.path("pid");
    // This test runs.
    fs::write(&pid_file, format!("{}\n", std::process::id())).unwrap();
    leaves(&place, &disk, "--pid-file", &pid_file, &format!("process {}", std::process::id()));
    fs::remove_file(&pid_file).unwrap();

    let first = place.serve(&disk, &["--pid-file", pid_file.to_str().unwrap()]);
    let pid = first.pid().as_raw_nonzero();
    let other = Place::new();
    let hint = format!("is the pid file of process {pid} (foreread), which is running");
    leaves(&other, &other.file("disk", 1 << 20), "--pid-file", &pid_file, &hint);
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), format!("{pid}\n"));
    first.kill();

    let second = place.serve(&disk, &["--pid-file", pid_file.to_str().unwrap()]);
    let pid = second.pid().as_raw_nonzero();
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), format!("{pid}\n"));
    assert_eq!(fs::metadata(&pid_file).unwrap().permissions().mode() & 0o7777, 0o644);
    second.stop();
    assert!(!pid_file.exists());
}

#[test]
fn what_came_into_its_place_while_it_ran_stays() {
    let place = Place::new();
    let disk = place.file("disk", 1 << 20);
    let (pid_file, socket) = (place.path("pid"), place.path("sock"));
    let server = place.serve(&disk, &["--pid-file", pid_file.to_str().unwrap()]);
    // The same text in another file: only the inode tells them apart.
    let text = fs::read_to_string(&pid_file).unwrap();
    fs::remove_file(&pid_file).unwrap();
    fs::write(&pid_file, &text).unwrap();
    fs::remove_file(&socket).unwrap();
    let _theirs = UnixListener::bind(&socket).unwrap();
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.ended(), (Some(0), String::new()));
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), text);
    assert!(socket.exists());
}

/// The folder of the socket that --run needs.
#[test]
fn a_strange_tmpdir_is_one_clear_line() {
    let place = Place::new();
    let disk = place.file("disk", 1 << 20);
    let run = |tmpdir: &Path| {
        let mut serve = foreread(&["serve"]);
        serve.arg(&disk).args(["--run", "test -S \"$unixsocket\""]).env("TMPDIR", tmpdir);
        serve.output().unwrap()
    };
    for strange in [place.path("nowhere"), disk.clone()] {
        let output = run(&strange);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(line.contains("TMPDIR names no directory"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    let long = place.path(&"x".repeat(100));
    fs::create_dir(&long).unwrap();
    let line = String::from_utf8(run(&long).stderr).unwrap();
    assert!(line.contains("TMPDIR is too long"), "{line}");
    assert_eq!(fs::read_dir(&long).unwrap().count(), 0, "the private folder stays behind");
    assert_eq!(run(Path::new("")).status.code(), Some(0), "as if it was not set");
    assert_eq!(fs::metadata(&disk).unwrap().len(), 1 << 20);
}
