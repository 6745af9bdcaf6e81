//! The limit of open files of a mount's process (`ulimit -n`).
//!
//! In:    a limit that the command starts with, or that is lowered while it runs.
//! Out:   a mount that is unmounted at a signal, or one line that names the limit.
//! Never: a mount without a server.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Command, Need, needs};
use crate::images::{folder, make};
use crate::mount::mounted::{Mount, can_fuse, is_mounted};

fn can_limit(test: &str) -> bool {
    can_fuse(test) && needs(Need::Tool("prlimit"), test)
}

fn image(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("small"), "small\n").unwrap();
    make(folder, 16, &["-d", tree.to_str().unwrap()])
}

/// The table of mounts was opened to unmount: at the limit, the command said that the mount was in
/// use, and a second signal left it without a server.
#[test]
fn a_limit_lowered_during_a_mount_does_not_keep_it_from_unmounting() {
    if !can_limit("a_limit_lowered_during_a_mount") {
        return;
    }
    let folder = folder();
    let mount = Mount::new(&image(folder.path()), &[]);
    let pid = mount.pid().as_raw_nonzero().to_string();
    let lowered = Command::new("prlimit").args(["--pid", &pid, "--nofile=4:4"]).status();
    assert!(lowered.unwrap().success());
    assert_eq!(std::fs::read(mount.dir.join("small")).unwrap(), b"small\n");
    assert_eq!(mount.end(), "");
}

/// With room for all files but the table of mounts, a refused mount stayed, without a server.
#[test]
fn with_too_few_open_files_there_is_no_mount_and_a_line_names_the_limit() {
    if !can_limit("with_too_few_open_files_there_is_no_mount") {
        return;
    }
    let folder = folder();
    let image = image(folder.path());
    let dir = folder.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let mut refused = Vec::new();
    for files in 6.. {
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--nofile={files}:{files}")).arg(env!("CARGO_BIN_EXE_foreread"));
        limited.arg("mount").arg(&image).arg(&dir).arg("--no-remember");
        limited.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = limited.spawn().unwrap();
        let (mut line, mut rest) = (String::new(), String::new());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let is_ready = line.starts_with("foreread: mounted ");
        if is_ready {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        }
        stderr.read_to_string(&mut rest).unwrap();
        let code = child.wait().unwrap().code();
        assert!(!is_mounted(&dir), "{files}: {line}");
        assert_eq!((code, rest.as_str()), (Some(if is_ready { 0 } else { 2 }), ""), "{line}");
        if is_ready {
            break;
        }
        assert!(line.contains("ulimit -n"), "{files}: {line}");
        refused.push(files);
    }
    assert!(refused.len() > 4, "{refused:?}");
}
