//! Servers that break the protocol on purpose, from the first request or in the middle.
//!
//! In:    an object, and answers that no honest server sends.
//! Out:   its bytes, or one line that names object and cause.
//! Never: a wrong byte; a request beyond its deadline; a line as long as a server likes.

mod bodies;
mod heads;
mod server;

use std::time::Duration;

use foreread::{Advice, Engine};
use foreread_object::{ObjectError, StoreOptions, Stores};

use self::server::{Answer, Answering, End, HostileServer, LEN, Request};
use crate::faulty_server::bytes;

/// Outcome of reading an object that was open when the server turned hostile.
enum Outcome {
    Bytes,
    /// An error that contains this text.
    Error(&'static str),
    /// One of both, as the pieces of the body arrive.
    BytesOrError(&'static str),
    /// The error of the deadline.
    Silence,
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A name, the answers, and the outcome.
type Case = (&'static str, Answering, Outcome);

fn options(deadline: Duration) -> StoreOptions {
    let first_pause = Duration::from_millis(1);
    StoreOptions { deadline, first_pause, retries: 2, hedge: false, ..StoreOptions::default() }
}

#[track_caller]
fn assert_is_clear(name: &str, url: &str, error: &str) {
    assert!(error.starts_with(url), "{name}: names the object first: {error}");
    assert!(!error.contains('\n') && error.len() < 1000, "{name}: {} bytes", error.len());
}

/// Reads an object of a server that is hostile from the first request.
fn check_opening(name: &str, answering: Answering, deadline: Duration) {
    let server = HostileServer::start(answering);
    server.turn_hostile();
    let read = || {
        let object = Stores::new(options(deadline)).open(&server.url())?;
        // A hostile server may state any length.
        let end = object.meta().size.min(200_000);
        let mut to = vec![0; usize::try_from(end / 2).expect("it is small")];
        object.read_exact_at(&mut to, end / 2)?;
        Ok::<_, ObjectError>((to, end / 2))
    };
    match read() {
        Ok((got, start)) => {
            let end = start + got.len() as u64;
            assert!(got == bytes(1, start..end), "{name}: other bytes");
        }
        Err(error) => assert_is_clear(name, &server.url(), &error.to_string()),
    }
}

/// Reads an object that was opened before the server turned hostile.
fn check_reading((name, answering, outcome): &Case, deadline: Duration) {
    let server = HostileServer::start(*answering);
    let engine = Engine::builder().memory(8 << 20).build().unwrap();
    let object = Stores::new(options(deadline)).open(&server.url()).unwrap();
    let file = engine.open_source(object).unwrap();
    file.stream().advise(Advice::Random);
    server.turn_hostile();
    let (mut to, start) = (vec![0; 8192], 100 * 4096);
    let got = file.read_at(&mut to, start).map_err(|error| error.to_string());
    match (got, outcome) {
        (Ok(got), Outcome::Bytes | Outcome::BytesOrError(_)) => {
            assert!(got == 8192 && to == bytes(1, start..start + 8192), "{name}: other bytes");
        }
        (Err(error), Outcome::Error(part) | Outcome::BytesOrError(part)) => {
            assert_is_clear(name, &server.url(), &error);
            assert!(error.contains(part), "{name}: {part}: {error}");
        }
        (Err(error), Outcome::Silence) => {
            assert_is_clear(name, &server.url(), &error);
            assert!(error.contains("no answer within"), "{name}: {error}");
        }
        (Ok(_), _) => panic!("{name}: an error was to come"),
        (Err(error), Outcome::Bytes) => panic!("{name}: {error}"),
    }
}

fn check(cases: &[Case], deadline: Duration) {
    for case in cases {
        // An opening may end at its deadline, for which no test waits a minute.
        check_opening(case.0, case.1, SECOND);
        let is_silent = matches!(case.2, Outcome::Silence);
        check_reading(case, if is_silent { SECOND } else { deadline });
    }
}

#[test]
fn a_head_that_lies_is_an_error_that_names_the_lie() {
    check(heads::LIES, MINUTE);
}

#[test]
fn a_head_that_is_none_is_an_error() {
    check(heads::NONSENSE, MINUTE);
}

#[test]
fn a_redirect_leads_to_web_servers_only_and_not_in_circles() {
    check(heads::REDIRECTS, MINUTE);
}

#[test]
fn a_body_is_right_in_full_or_an_error() {
    check(bodies::BODIES, MINUTE);
}

#[test]
fn a_body_that_does_not_end_ends_at_the_deadline() {
    check(bodies::ENDLESS, MINUTE);
}

/// An answer of another range was followed by a request for each page of the range: 64 here.
#[test]
fn an_answer_that_is_wrong_for_any_range_is_not_followed_by_requests_for_pages() {
    for answering in [heads::SHIFTED, heads::OVERLONG, heads::REFUSED] {
        let server = HostileServer::start(answering);
        let engine = Engine::builder().memory(8 << 20).build().unwrap();
        let object = Stores::new(options(MINUTE)).open(&server.url()).unwrap();
        let file = engine.open_source(object).unwrap();
        file.stream().advise(Advice::Random);
        server.turn_hostile();
        file.read_at(&mut vec![0; 64 << 12], 0).unwrap_err();
        assert_eq!(server.requests(), 1);
    }
}

/// A server that limits the length of a range is read page by page.
#[test]
fn an_answer_with_the_beginning_of_a_range_is_followed_by_requests_for_pages() {
    let server = HostileServer::start(heads::FIRST_PAGE);
    let engine = Engine::builder().memory(8 << 20).build().unwrap();
    let file = engine.open_source(Stores::new(options(MINUTE)).open(&server.url()).unwrap());
    let file = file.unwrap();
    file.stream().advise(Advice::Random);
    server.turn_hostile();
    let mut to = vec![0; 8 << 12];
    assert_eq!(file.read_at(&mut to, 0).unwrap(), 8 << 12);
    assert!(to == bytes(1, 0..8 << 12));
}

/// The one byte that an opening asks for was read until the deadline, and all that came with it was
/// kept in memory.
#[test]
fn an_opening_reads_no_more_of_a_body_than_it_asked_for() {
    for answering in [bodies::MORE, bodies::MORE_CHUNKS] {
        let server = HostileServer::start(answering);
        server.turn_hostile();
        let object = Stores::new(options(MINUTE)).open(&server.url()).unwrap();
        assert_eq!(object.meta().size, LEN);
    }
}

/// A condition that was never sent was said to be refused: "it has changed since it was opened".
#[test]
fn an_opening_that_is_refused_as_if_it_had_a_condition_is_not_called_a_change() {
    for answering in [heads::NOT_MODIFIED, heads::PRECONDITION] {
        let server = HostileServer::start(answering);
        server.turn_hostile();
        let error = Stores::new(options(MINUTE)).open(&server.url()).unwrap_err().to_string();
        assert_is_clear("refused", &server.url(), &error);
        assert!(!error.contains("changed"), "{error}");
    }
}

/// A pause of years was honoured until the deadline at least; one that overflows must not panic.
#[test]
fn a_pause_of_any_length_ends_by_the_deadline() {
    check(heads::PAUSES, SECOND);
}

/// The body of a page that broke was requested up to ten times more by the client of the store,
/// whatever the retries, and the error at the deadline did not say that it broke.
#[test]
fn a_broken_listing_is_requested_as_often_as_its_retries_allow_and_says_why() {
    let server = HostileServer::start(|it| it.half(End::Closed));
    server.turn_hostile();
    let settings = [
        ("aws_endpoint_url", &*server.endpoint()),
        ("aws_access_key_id", "key"),
        ("aws_secret_access_key", "secret"),
        ("aws_region", "us-east-1"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let list = |options| Stores::new(options).with_settings(settings).list("s3://bucket/", false);
    let error = list(options(MINUTE)).unwrap_err().to_string();
    assert_is_clear("a listing", "s3://bucket/", &error);
    assert!(error.contains("given up after 2 retries: "), "{error}");
    assert!(error.contains("reading a body"), "{error}");
    assert_eq!(server.requests(), 3);
}

/// Both were empty directories.
#[test]
fn a_directory_that_a_web_server_does_not_have_is_an_error() {
    for (answering, why) in [(heads::NO_DIRECTORY, "no such directory"), (heads::OTHER, "below")] {
        let server = HostileServer::start(answering);
        server.turn_hostile();
        let url = server.endpoint() + "/directory/";
        let error = Stores::new(options(MINUTE)).list(&url, false).unwrap_err().to_string();
        assert_is_clear("a directory", &url, &error);
        assert!(error.contains(why), "{error}");
        assert_eq!(server.requests(), 1);
    }
}

/// The error at the deadline said that there was no answer, and to check the endpoint.
#[test]
fn a_body_that_breaks_until_the_deadline_is_an_error_that_says_so() {
    let server = HostileServer::start(|it| it.half(End::Closed));
    let options = StoreOptions { retries: usize::MAX, ..options(SECOND) };
    let object = Stores::new(options).open(&server.url()).unwrap();
    server.turn_hostile();
    let error = object.read_exact_at(&mut [0; 64 << 10], 0).unwrap_err().to_string();
    assert_is_clear("a body", &server.url(), &error);
    assert!(error.contains("the last attempt failed: ") && error.contains("a body"), "{error}");
}
