//! URLs that cannot be read: exit 2, and one line that says why.

use crate::common::Command;
use crate::faulty_server::{Fault, FaultyServer, bytes};
use crate::objects::refusals::refused;
use crate::objects::weed::weed;
use crate::said;

#[test]
fn what_is_not_there_and_what_is_not_allowed_is_said() {
    let test = "what_is_not_there_and_what_is_not_allowed_is_said";
    let Some(weed) = weed(test) else { return };
    let url = weed.put("there", b"yes");
    let line = refused(&mut weed.foreread(&["cat", "s3://tests/not-there"]));
    assert!(line.contains("s3://tests/not-there: no such object"), "{line}");
    let mut wrong = weed.foreread(&["stat", &url]);
    let line = refused(wrong.env("AWS_SECRET_ACCESS_KEY", "another"));
    assert!(line.contains("not allowed"), "{line}");
    // Nothing listens on this machine's discard port.
    let mut nowhere = weed.foreread(&["stat", &url, "--deadline", "2s"]);
    let line = refused(nowhere.env("AWS_ENDPOINT_URL", "http://127.0.0.1:9"));
    assert!(line.contains(&url), "{line}");
}

#[test]
fn urls_that_make_no_sense_are_refused_before_a_request() {
    for (args, part) in [
        (&["cat", "ftp://host/file"][..], "not the URL of a store"),
        (&["stat", "s3://bucket"], "must not end with /"),
        (&["cat", "https://host/x?signature=1"], "a query cannot be sent"),
        (&["bench", "s3://b/k", "--delay", "latency=1ms"], "a store is slow by itself"),
        (&["serve", "s3://b/k", "--unix", "/x/y", "--delay", "latency=1ms"], "slow by itself"),
        (&["cat", "disk.img"], "give the <PATH> of a file"),
        (&["stat", "disk.img"], "give a <PATH> in the image"),
        (&["ls", "s3://bucket/a/", "b"], "to list names below it, give s3://bucket/a/b/"),
        (&["ls", "s3://bucket", "/b/c"], "to list names below it, give s3://bucket/b/c/"),
    ] {
        let line = said::refused(args);
        assert!(line.contains(part), "{args:?}: {line}");
    }
}

#[test]
fn a_variable_that_no_request_can_be_made_of_is_named() {
    for (name, value) in [
        ("AWS_ENDPOINT_URL", "localhost:9000"),
        ("AWS_ENDPOINT_URL", "http://"),
        ("AWS_SECRET_ACCESS_KEY", "hush\n"),
        ("AWS_ACCESS_KEY_ID", "hush\n"),
        ("AWS_REGION", "us-east-1\n"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command.args(["stat", "s3://bucket/key"]).env_clear();
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        command.env("AWS_REGION", "us-east-1").env("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
        let line = refused(command.env(name, value));
        assert!(line.contains(&format!("the environment variable {name} must ")), "{line}");
        assert!(!line.contains("hush"), "{line}");
    }
}

/// Whatever a server does wrong: what was printed before is right, and a line says what is wrong.
#[test]
fn cat_of_a_server_that_goes_wrong_prints_right_bytes_and_one_line() {
    let len = 6_000_000;
    let server = FaultyServer::start(len);
    let right = said::foreread(&["cat", &server.url()]);
    assert!(right.status.success() && right.stdout == bytes(1, 0..len), "without faults");
    server.next([Fault::None]);
    server.always(Fault::OtherVersion);
    let wrong = said::foreread(&["cat", &server.url()]);
    assert_eq!(wrong.status.code(), Some(1), "{}", String::from_utf8_lossy(&wrong.stderr));
    let line = String::from_utf8(wrong.stderr).unwrap();
    assert!(line.contains("it has changed since it was opened"), "{line}");
    assert!(bytes(1, 0..len).starts_with(&wrong.stdout), "what was printed is right");
}

#[test]
fn a_file_url_is_a_path() {
    let line = said::refused(&["ls", "file:///no/such/image"]);
    assert!(line.contains("/no/such/image: ") && !line.contains("file://"), "{line}");
}
