//! libnbd, by a script: every request, structured replies, block status, several connections.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::common::{Command, is_required, skip};
use crate::serve::server::{Place, Server, bytes, printed};

/// A Python that has libnbd, or a word that there is none.
fn python(test: &str) -> Option<&'static str> {
    let has_libnbd = |python: &&str| {
        let tried = Command::new(python).args(["-c", "import nbd"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let found = ["/usr/bin/python3", "python3"].into_iter().find(has_libnbd);
    if found.is_none() {
        let reason = "no Python with libnbd (Debian: python3-libnbd)";
        assert!(!is_required("tools"), "{test}: REQUIRE names tools, but: {reason}");
        skip(test, reason);
    }
    found
}

fn script(python: &str, what: &str, server: &Server, file: &Path) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve/libnbd.py");
    let mut command = Command::new(python);
    command.arg(script).args([what, &server.uri()]).arg(file);
    command
}

fn works(test: &str, what: &str, len: usize, flags: &[&str]) {
    let Some(python) = python(test) else { return };
    let place = Place::new();
    let file = place.file("disk", len);
    let server = place.serve(&file, flags);
    printed(&mut script(python, what, &server, &file));
    server.stop();
}

#[test]
fn every_request_does_what_it_says_and_wrong_ones_are_refused() {
    let test = "every_request_does_what_it_says_and_wrong_ones_are_refused";
    works(test, "requests", (4 << 20) + 17, &["--memory", "2M"]);
}

#[test]
fn replies_come_in_pieces_only_if_they_may() {
    let test = "replies_come_in_pieces_only_if_they_may";
    works(test, "structured", (9 << 20) + 17, &["--memory", "2M"]);
}

#[test]
fn block_status_tells_holes_before_and_after() {
    works("block_status_tells_holes_before_and_after", "status", 8 << 20, &[]);
}

#[test]
fn many_requests_at_a_time_are_answered_in_any_order() {
    let test = "many_requests_at_a_time_are_answered_in_any_order";
    let delay = "latency=200us,parallel=8";
    works(test, "queued", 16 << 20, &["--memory", "4M", "--delay", delay]);
}

#[test]
fn a_flush_on_one_connection_is_for_all_and_survives_a_kill() {
    let Some(python) = python("a_flush_on_one_connection_is_for_all_and_survives_a_kill") else {
        return;
    };
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &["--dirty-age", "3600s"]);
    let mut many = script(python, "many", &server, &file);
    let mut many = many.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(many.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "flushed\n");
    server.kill();
    drop(many.stdin.take());
    assert!(many.wait().unwrap().success());
    let mut expected = bytes(1 << 20);
    for number in 0..4 {
        let at = number * 3 * 4096 + 100;
        expected[at..at + 4096].fill(65 + u8::try_from(number).unwrap());
    }
    assert!(fs::read(&file).unwrap() == expected);
}
