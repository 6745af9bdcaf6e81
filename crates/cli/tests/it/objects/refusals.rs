//! Stores that cannot be reached, or refuse: what a user of the commands is told.

use crate::bucket_server::BucketServer;
use crate::common::Command;
use crate::images::pattern;
use crate::objects::prefix_mounts::bucket_command;

const URL: &str = "s3://bucket/object";
const LEN: usize = 6_000_000;

/// The command with a key whose session ends.
fn signed(server: &BucketServer, args: &[&str]) -> Command {
    let mut command = bucket_command(server, args);
    command.env_remove("AWS_SKIP_SIGNATURE").env("AWS_ACCESS_KEY_ID", "key");
    command.env("AWS_SECRET_ACCESS_KEY", "secret").env("AWS_SESSION_TOKEN", "token");
    command
}

fn with_object() -> BucketServer {
    let server = BucketServer::start();
    server.put("object", &pattern(LEN));
    server
}

/// Runs a command that fails before it prints anything, and returns its line.
#[track_caller]
pub(crate) fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn a_host_that_has_no_address_is_one_line_within_the_deadline() {
    let server = BucketServer::start();
    // A label has at most 63 letters: that one no name server is asked for.
    let host = format!("{}.invalid", "a".repeat(64));
    for (host, part) in [("no-such-host.invalid", "foreread: "), (&*host, "dns error")] {
        let web = format!("http://{host}/x");
        let line = refused(&mut bucket_command(&server, &["cat", &web, "--deadline", "1s"]));
        assert!(line.contains(&web) && line.contains(part), "{line}");
        for args in [["cat", URL], ["stat", URL], ["ls", "s3://bucket/"]] {
            let mut command = signed(&server, &args);
            command.args(["--deadline", "1s"]).env("AWS_ENDPOINT_URL", format!("http://{host}:90"));
            let line = refused(&mut command);
            assert!(line.contains(args[1]) && line.contains(part), "{args:?}: {line}");
        }
    }
    assert_eq!(server.requests(), (0, 0, 0));
}

#[test]
fn credentials_that_expired_and_a_clock_that_is_wrong_are_said() {
    let server = with_object();
    for (status, code, advice) in [
        (400, "ExpiredToken", "set new credentials"),
        (403, "RequestTimeTooSkewed", "set this machine's clock"),
    ] {
        server.refuse(u64::MAX, status, code);
        for args in [["cat", URL], ["stat", URL]] {
            let line = refused(&mut signed(&server, &args));
            let is_explained = line.contains(code) && line.contains(advice);
            assert!(line.contains(URL) && is_explained, "{line}");
        }
        let line = refused(&mut signed(&server, &["ls", "s3://bucket/"]));
        assert!(line.contains(code) && line.contains(advice), "{line}");
    }
    server.refuse(0, 0, "");
    let output = signed(&server, &["cat", URL]).output().unwrap();
    assert!(output.status.success() && output.stdout == pattern(LEN), "then it reads");
}

#[test]
fn a_storm_of_refusals_that_ends_costs_time_and_no_byte() {
    let server = with_object();
    // No request is sent more than ten times again.
    server.refuse(10, 503, "SlowDown");
    let output = signed(&server, &["cat", URL]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == pattern(LEN) && output.stderr.is_empty());
    assert_eq!(server.refused(), 10);
    server.refuse(u64::MAX, 503, "SlowDown");
    let line = refused(signed(&server, &["cat", URL]).args(["--deadline", "1s"]));
    // The client of the store knows the deadline as well.
    let is_in_time = ["no answer within 1000 ms", "retry"].iter().any(|it| line.contains(it));
    assert!(is_in_time && line.contains(URL), "{line}");
    assert!(line.contains("503 Service Unavailable"), "{line}");
}
