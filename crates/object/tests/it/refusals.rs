//! Stores that refuse for a while or for good: credentials that expire, clocks that differ, too
//! many requests; and hosts that no name server knows.
//!
//! In:    an S3 server that refuses on purpose, and names of no host.
//! Out:   right bytes, or one line that names object, place and cause, within the deadline.
//! Never: a request that leaves this machine, but to its name server.

use crate::bucket_server;

use std::ops::Range;
use std::time::Duration;

use bucket_server::BucketServer;
use foreread::{Advice, Engine, File};
use foreread_object::{StoreOptions, Stores};

const URL: &str = "s3://bucket/object";
const PAGE: usize = 4096;
const PAGES: usize = 1024;

/// What these pages of the object have.
fn bytes(pages: Range<usize>) -> Vec<u8> {
    let range = pages.start * PAGE..pages.end * PAGE;
    range.map(|at| (at % 251 + at / PAGE).to_le_bytes()[0]).collect()
}

/// Retries at once, so that a test does not wait for the pauses.
fn options(retries: usize, deadline: Duration) -> StoreOptions {
    let first_pause = Duration::from_millis(1);
    StoreOptions { retries, first_pause, deadline, ..StoreOptions::default() }
}

/// Stores at this endpoint, with a key.
fn stores_at(endpoint: &str, options: StoreOptions) -> Stores {
    let settings = [
        ("aws_endpoint_url", endpoint),
        ("aws_access_key_id", "key"),
        ("aws_secret_access_key", "secret"),
        ("aws_session_token", "token"),
        ("aws_region", "us-east-1"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Stores::new(options).with_settings(settings)
}

/// The object, open, and the server that has it.
struct Opened {
    server: BucketServer,
    stores: Stores,
    file: File,
    _engine: Engine,
}

fn opened(options: StoreOptions) -> Opened {
    let server = BucketServer::start();
    server.put("object", &bytes(0..PAGES));
    let stores = stores_at(&server.endpoint(), options);
    let engine = Engine::builder().memory(8 << 20).build().unwrap();
    let file = engine.open_source(stores.open(URL).unwrap()).unwrap();
    file.stream().advise(Advice::Random);
    Opened { server, stores, file, _engine: engine }
}

fn read(file: &File, pages: Range<usize>) -> Result<Vec<u8>, String> {
    let mut to = vec![0; pages.len() * PAGE];
    let got = file.read_at(&mut to, (pages.start * PAGE) as u64);
    let got = got.map_err(|error| error.to_string())?;
    to.truncate(got);
    Ok(to)
}

#[track_caller]
fn assert_is_right(file: &File, pages: Range<usize>) {
    assert!(read(file, pages.clone()).as_ref() == Ok(&bytes(pages.clone())), "pages {pages:?}");
}

#[track_caller]
fn assert_says(error: &str, parts: &[&str]) {
    assert_eq!(error.lines().count(), 1, "{error}");
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// It has ended because of its deadline of a second, which the client of the store knows as well.
#[track_caller]
fn assert_says_in_time(error: &str, parts: &[&str]) {
    assert_says(error, parts);
    let ends = ["no answer within 1000 ms; the last attempt failed: ", "retry_timeout: 1s"];
    assert!(ends.into_iter().any(|end| error.contains(end)), "{error}");
}

/// S3 answers 400 to a session that is over, which was no refusal: each page was asked for alone.
#[test]
fn refused_reads_say_what_to_set_and_are_not_retried() {
    for (status, code, advice) in [
        (400, "ExpiredToken", "set new credentials in the environment"),
        (400, "TokenRefreshRequired", "set new credentials in the environment"),
        (403, "RequestTimeTooSkewed", "set this machine's clock"),
        (403, "InvalidAccessKeyId", "check the credentials in the environment"),
        (403, "SignatureDoesNotMatch", "the secret key does not match the access key"),
        (403, "InvalidObjectState", "the object is in an archive class: restore it"),
        (403, "AllAccessDisabled", "disabled all access to this bucket or object"),
        (403, "AccountProblem", "the account is disabled or has a problem with billing"),
        (400, "KMS.DisabledException", "the KMS key of the object"),
        (404, "NoSuchBucket", "no such bucket"),
        (409, "BlobArchived", "the blob is in the archive tier"),
        (301, "PermanentRedirect", "the bucket is in another region"),
    ] {
        let Opened { server, file, .. } = opened(options(10, Duration::from_secs(60)));
        server.refuse(u64::MAX, status, code);
        let error = read(&file, 8..264).unwrap_err();
        assert_says(&error, &[URL, "read at 32768", &status.to_string(), code, advice]);
        assert!(server.refused() <= 2, "{code}: {} requests", server.refused());
        server.refuse(0, 0, "");
        assert_is_right(&file, 8..264);
    }
}

/// A response to HEAD has no body, so no code: a GET of the first byte has one.
#[test]
fn refusals_of_open_and_list_say_what_to_set() {
    let server = BucketServer::start();
    server.put("object", &bytes(0..PAGES));
    let stores = stores_at(&server.endpoint(), options(10, Duration::from_secs(60)));
    for (status, code, opened, listed) in [
        (400, "ExpiredToken", "set new credentials", "set new credentials"),
        (403, "RequestTimeTooSkewed", "set this machine's clock", "set this machine's clock"),
        (404, "NoSuchBucket", "no such bucket", "no such bucket"),
        (403, "InvalidObjectState", "in an archive class", "in an archive class"),
    ] {
        server.refuse(u64::MAX, status, code);
        let error = stores.open(URL).unwrap_err().to_string();
        assert_says(&error, &[URL, &status.to_string(), opened]);
        let error = stores.list("s3://bucket/", false).unwrap_err().to_string();
        assert_says(&error, &["s3://bucket/", code, listed]);
    }
    assert_eq!(server.refused(), 8, "the GET that has a reason, and the listing");
    server.refuse(0, 0, "");
    stores.open(URL).unwrap();
}

/// Refusals are for all requests of a store; those that were refused are sent again until the store
/// serves.
#[test]
fn a_store_that_throttles_and_recovers_brings_right_bytes() {
    const STORM: u64 = 40;

    // No request can be refused more often than this.
    let retries = usize::try_from(STORM).unwrap();
    let options = StoreOptions { hedge: false, ..options(retries, Duration::from_secs(60)) };
    let Opened { server, stores, file, .. } = opened(options);
    server.refuse(STORM, 503, "SlowDown");
    std::thread::scope(|scope| {
        for thread in 0..32 {
            let file = &file;
            scope.spawn(move || {
                for page in [thread * 32, thread * 32 + 16] {
                    assert_is_right(file, page..page + 3);
                }
            });
        }
    });
    assert_eq!(server.refused(), STORM);
    let counts = stores.counters();
    assert_eq!((counts.throttled, counts.retried), (STORM, STORM), "{counts:?}");
    // It serves as before.
    assert_is_right(&file, 0..PAGES);
    assert_eq!(stores.counters().throttled, STORM);
}

/// The error said that there was no answer, and not that each was a refusal.
#[test]
fn a_store_that_throttles_beyond_the_deadline_is_an_error_that_has_its_words() {
    let Opened { server, file, .. } = opened(options(usize::MAX, Duration::from_secs(1)));
    server.refuse(u64::MAX, 503, "SlowDown");
    let error = read(&file, 8..9).unwrap_err();
    let parts = [URL, "bytes 32768 to 36864: ", "503 Service Unavailable", "<Code>SlowDown</Code>"];
    assert_says_in_time(&error, &parts);
    assert!(server.refused() > 1);
    server.refuse(0, 0, "");
    assert_is_right(&file, 8..9);
}

/// A label has at most 63 letters: no name server is asked.
fn no_host() -> String {
    format!("{}.invalid", "a".repeat(64))
}

#[test]
fn a_host_without_an_address_is_named_with_the_cause() {
    let few = options(2, Duration::from_secs(60));
    let (host, url) = (no_host(), format!("http://{}/x", no_host()));
    let error = Stores::new(few).open(&url).unwrap_err().to_string();
    assert_says(&error, &[&url, "dns error", "after 2 retries"]);
    let stores = stores_at(&format!("http://{host}:9000"), few);
    let error = stores.open(URL).unwrap_err().to_string();
    assert_says(&error, &[URL, &host, "dns error"]);
    let error = stores.list("s3://bucket/a/", true).unwrap_err().to_string();
    assert_says(&error, &["s3://bucket/a/", &host, "dns error"]);
}

/// A name that is wrong, or a port where nothing listens, was an error after the whole deadline.
#[test]
fn a_store_that_cannot_be_reached_when_it_is_opened_fails_after_a_few_retries() {
    // The test would take an hour, or for ever.
    let without_end = options(usize::MAX, Duration::from_secs(3600));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap().to_string();
    drop(listener);
    for (host, cause) in [(no_host(), "dns error"), (closed, "refused")] {
        let url = format!("http://{host}/x");
        let parts = [cause, "after 4 retries"];
        let error = Stores::new(without_end).open(&url).unwrap_err().to_string();
        assert_says(&error, &[&[&*url], &parts[..]].concat());
        let stores = stores_at(&format!("http://{host}"), without_end);
        let error = stores.open(URL).unwrap_err().to_string();
        assert_says(&error, &[&[URL], &parts[..]].concat());
        let error = stores.list("s3://bucket/", false).unwrap_err().to_string();
        assert_says(&error, &[&["s3://bucket/"], &parts[..]].concat());
    }
}

/// A name server that is silent was waited for beyond the deadline.
#[test]
fn a_name_that_a_name_server_answers_for_ends_by_the_deadline() {
    let without_end = options(usize::MAX, Duration::from_secs(1));
    let url = "https://no-such-host.invalid/x";
    let error = Stores::new(without_end).open(url).unwrap_err().to_string();
    let ends = ["no answer within 1000 ms", "dns error"];
    assert!(error.starts_with(url) && ends.into_iter().any(|end| error.contains(end)), "{error}");
}
