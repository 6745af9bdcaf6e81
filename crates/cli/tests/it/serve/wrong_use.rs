//! Wrong use: one line, an exit code, and nothing left behind.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use crate::common::{Command, Need, needs};
use crate::serve::server::{Place, foreread, printed};

/// Exit code 2, nothing on stdout, one line on stderr that contains `hint`.
#[track_caller]
fn is_refused(args: &[&str], hint: &str) {
    let output = foreread(args).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {line}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
    assert!(line.starts_with("foreread: ") && line.contains(hint), "{args:?}: {line}");
}

#[test]
fn wrong_flags_are_one_line_that_says_what_is_right() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let (file, sock) = (file.to_str().unwrap(), place.path("sock"));
    let sock = sock.to_str().unwrap();
    for (flags, hint) in [
        (&[][..], "--unix PATH, --port N, or a command with --run"),
        (&["--port", "65536"], "65536"),
        (&["--port", "everywhere:0"], "everywhere"),
        (&["--unix", sock, "--memory", "1"], "1 MiB"),
        (&["--unix", sock, "--memory", "64MB"], "64M"),
        (&["--unix", sock, "--dirty-age", "5"], "5s"),
        (&["--unix", sock, "--delay", "often"], "latency=4ms"),
        (&["--unix", sock, "--set", "scheduler=cfq"], "must be noop or deadline"),
        (&["--unix", sock, "--policy", "linux-2.4"], "linux-6"),
        (&["--unix", sock, "--set", "fifo_batch"], "NAME=VALUE"),
        (&["--unix", sock, "--set", "fifo_batch=many"], "fifo_batch=many: must be a number"),
        (&["--unix", sock, "--set", "fifobatch=1"], "no tunable 'fifobatch'; there are "),
        (&["--unix", sock, "--connections", "0"], "1..=65536"),
        (&["--unix", sock, "--requests", "0"], "1..=4096"),
        (&["--unix", sock, "--metrics", "localhost"], "127.0.0.1:9100"),
        (
            &["--unix", sock, "--pid-file", "/nonexistent/pid"],
            "/nonexistent/pid: cannot open its directory: No such file",
        ),
        (&["--unix", "/nonexistent/sock"], "/nonexistent/sock: "),
        (&["--unix", file], "is a regular file, not a socket"),
        (&["--unix", sock, "--export", &"x".repeat(5000)], "at most 4096 bytes"),
    ] {
        is_refused(&[&["serve", file], flags].concat(), hint);
        assert!(!fs::exists(sock).unwrap(), "{flags:?}: the socket stays behind");
    }
    assert_eq!(fs::metadata(file).unwrap().len(), 1 << 20);
}

#[test]
fn targets_that_cannot_be_served_are_named() {
    let place = Place::new();
    let sock = place.path("sock");
    let sock = sock.to_str().unwrap();
    let folder = place.path("");
    // An open of it would wait for a writer.
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (target, hint) in [
        ("/nonexistent", "no such file"),
        (folder.to_str().unwrap(), "is a directory"),
        ("/dev/null", "character device"),
        (pipe.to_str().unwrap(), "pipe"),
    ] {
        is_refused(&["serve", target, "--unix", sock], hint);
        is_refused(&["serve", target, "--unix", sock, "--read-only"], hint);
    }
}

/// A loop device that is set read-only: not even root may write it.
#[test]
fn a_target_that_may_only_be_read_is_served_if_it_is_asked_for() {
    const NAME: &str = "a_target_that_may_only_be_read_is_served_if_it_is_asked_for";
    if !needs(Need::Loop, NAME) {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let attach = ["--find", "--show", "--read-only"];
    let node = printed(Command::new("losetup").args(attach).arg(&file));
    let node = node.trim();
    let sock = place.path("sock");
    let output = foreread(&["serve", node, "--unix", sock.to_str().unwrap()]).output().unwrap();
    let served = foreread(&["serve", node, "--read-only", "--run", "true"]).output().unwrap();
    printed(Command::new("losetup").args(["--detach", node]));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.ends_with(", or serve it with --read-only\n"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(served.status.code(), Some(0), "{served:?}");
}

#[test]
fn places_that_are_taken_are_named() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let file = file.to_str().unwrap();
    let sock = place.path("sock");
    let taken = UnixListener::bind(&sock).unwrap();
    is_refused(&["serve", file, "--unix", sock.to_str().unwrap()], "another server listens there");
    drop(taken);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    is_refused(&["serve", file, "--port", &port], "give another port");
    let metrics = ["serve", file, "--unix", place.path("other").to_str().unwrap(), "--metrics"]
        .map(str::to_owned);
    let metrics: Vec<_> = metrics.iter().map(String::as_str).chain([&*port]).collect();
    is_refused(&metrics, "give another port");
}

#[test]
fn a_file_that_another_server_writes_is_refused_and_may_be_read() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let writer = place.serve(&file, &[]);
    let other = place.path("other");
    let (name, sock) = (file.to_str().unwrap(), other.to_str().unwrap());
    is_refused(&["serve", name, "--unix", sock], "another server writes it");
    place.serve_at(&other, &file, &["--read-only"]).stop();
    writer.stop();
}

#[test]
fn a_socket_whose_server_is_gone_is_replaced() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &[]);
    let socket = server.socket.clone();
    server.kill();
    assert!(socket.exists());
    place.serve(&file, &[]).stop();
}

#[test]
fn stats_and_set_without_a_server_fail_with_one_line() {
    let place = Place::new();
    let missing = place.path("missing");
    let missing = missing.to_str().unwrap();
    is_refused(&["stats", missing], missing);
    is_refused(&["set", missing], missing);
    is_refused(&["set", missing, "fifo_batch"], "NAME=VALUE");
    is_refused(&["stats"], "<SOCKET>");
    is_refused(&["set"], "<SOCKET>");
}
