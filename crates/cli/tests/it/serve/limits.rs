//! Limits of the process: threads (`ulimit -u`), open files (`ulimit -n`), sizes of files (`ulimit
//! -f`), and memory (`ulimit -v`).
//!
//! In:    a server whose limits are lowered while it runs.
//! Out:   what was acknowledged is in the file; a refused write is an error of that write.
//! Never: a limit of this process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use foreread_serve::client::Client;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::common::{Command, Need, needs};
use crate::serve::server::{Place, Server, bytes, printed};

/// Lowers a limit of the server, as its own user.
fn lower(server: &Server, limit: &str, user: Option<u32>) {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &server.pid().as_raw_nonzero().to_string(), limit]);
    user.map(|user| command.uid(user).gid(user));
    printed(&mut command);
}

/// The last flush needed a thread, which a limit refused: each page that a client had written since
/// its last flush was lost at SIGTERM.
#[test]
fn at_a_limit_of_threads_what_was_acknowledged_is_written_at_the_end() {
    if !needs(Need::Tool("prlimit"), "at_a_limit_of_threads") {
        return;
    }
    let user = rustix::process::geteuid().is_root().then_some(NO_USER);
    for flushes in [false, true] {
        // A user without rights may enter it: root is not bound by the limit.
        let place = TempDir::new().unwrap();
        let open_to_all = |mode| fs::Permissions::from_mode(mode);
        fs::set_permissions(place.path(), open_to_all(0o777)).unwrap();
        let [program, disk, socket] = ["foreread", "disk", "sock"].map(|it| place.path().join(it));
        crate::common::copy_program(env!("CARGO_BIN_EXE_foreread"), &program);
        fs::write(&disk, vec![0; 1 << 20]).unwrap();
        fs::set_permissions(&disk, open_to_all(0o666)).unwrap();
        let mut command = Command::new(program);
        command.arg("serve").arg(&disk).arg("--unix").arg(&socket);
        command.args(["--no-remember", "--dirty-age", "3600s"]);
        user.map(|user| command.uid(user).gid(user));
        let server = Server::started(&mut command, socket);
        let mut session = server.session();
        for page in 0..64_u8 {
            session.write(u64::from(page) * 16_384, &[page + 1; 4096], false).unwrap();
        }
        lower(&server, "--nproc=1:", user);
        if flushes {
            session.flush().unwrap();
        }
        drop(session);
        server.signal(Signal::TERM);
        assert_eq!(server.ended(), (Some(0), String::new()));
        let now = fs::read(&disk).unwrap();
        let lost = (0..64_u8).filter(|&page| now[usize::from(page) * 16_384] != page + 1);
        assert_eq!(lost.count(), 0);
    }
}

/// SIGXFSZ ended the server without a word, and with it what other clients had written.
#[test]
fn a_write_beyond_the_limit_of_file_sizes_is_an_error_and_the_server_goes_on() {
    if !needs(Need::Tool("prlimit"), "a_write_beyond_the_limit") {
        return;
    }
    let place = Place::new();
    let server = place.serve(&place.file("disk", 1 << 20), &[]);
    let mut session = server.session();
    lower(&server, "--fsize=524288:", None);
    session.write(0, &[1; 4096], true).expect("within the limit");
    session.write(3 << 18, &[2; 4096], true).expect_err("beyond the limit");
    session.write(4096, &[3; 4096], true).expect("the server goes on");
    drop(session);
    // The page that was refused is still in memory.
    lower(&server, "--fsize=1048576:", None);
    server.stop();
    let now = fs::read(place.path("disk")).unwrap();
    assert_eq!(now[..8192], [[1; 4096], [3; 4096]].concat());
    assert_eq!(now[3 << 18..][..4096], [2; 4096]);
}

/// The server started and refused each client, or failed with an error that named a healthy file.
#[test]
fn with_too_few_open_files_serve_says_which_limit_to_raise() {
    for tool in ["prlimit", "nbdinfo"] {
        if !needs(Need::Tool(tool), "with_too_few_open_files") {
            return;
        }
    }
    let place = Place::new();
    let disk = place.file("disk", 1 << 20);
    let command = |files: u64| {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={files}:{files}")).arg(env!("CARGO_BIN_EXE_foreread"));
        command.arg("serve").arg(&disk).args(["--run", "nbdinfo --size \"$uri\""]);
        command
    };
    for files in 8..32 {
        let output = command(files).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{files}: {said}");
        let line = format!("may open {files} files, and serve needs 32: raise the limit");
        assert!(said.contains(&line) && said.lines().count() == 1, "{said}");
    }
    assert_eq!(printed(&mut command(32)), "1048576\n");
}

/// Connections took the last memory that the process could have: the next allocation failed, which
/// ended the server, its clients, and what they had not flushed.
#[test]
fn at_a_limit_of_memory_new_clients_are_refused_and_the_others_are_served() {
    if !needs(Need::Tool("prlimit"), "at_a_limit_of_memory") {
        return;
    }
    let place = Place::new();
    let server = place.serve(&place.file("disk", 64 << 20), &["--memory", "16M"]);
    server.session().leave().unwrap();
    let address_space_kib = || {
        let status = fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero()));
        let status = status.unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        size.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
    };
    // A thread of the server may map an arena of 64 MiB between the look and the limit.
    let is_in_time = (0..100).any(|_| {
        let kib = address_space_kib();
        lower(&server, &format!("--as={}:", (kib << 10) + (60 << 20)), None);
        address_space_kib() <= kib
    });
    assert!(is_in_time, "the server maps more and more");

    let connect = || Client::connect(place.path("sock").to_str().unwrap())?.go(true);
    let mut sessions: Vec<_> = (0..300).map_while(|_| connect().ok()).collect();
    assert!((1..300).contains(&sessions.len()), "{} are served", sessions.len());
    for (session, number) in sessions.iter_mut().zip(0_u8..) {
        let offset = u64::from(number % 60) << 20;
        let bytes = vec![number; 1 << 20];
        session.write(offset, &bytes, false).unwrap();
        assert!(session.read(offset, 1 << 20).unwrap() == bytes, "client {number}");
    }
    drop(sessions);
    server.signal(Signal::TERM);
    let (code, lines) = server.ended();
    assert_eq!(code, Some(0), "{lines}");
    assert!(lines.contains("no memory for another connection"), "{lines}");
    assert!(fs::read(place.path("disk")).unwrap()[..4096] != bytes(4096)[..]);
}

/// No account has it.
const NO_USER: u32 = 61_234;
