//! Servers that answer wrong: right bytes, or one clear error.
//!
//! In:    an object behind a server with one fault, or with many at random.
//! Out:   what its reader gets.
//! Never: a byte of another version; a read without an end.

#![expect(clippy::cast_possible_truncation, reason = "objects of a megabyte")]

mod get_decides;
mod hanging;

use crate::faulty_server;

use std::time::Duration;

use faulty_server::{Fault, FaultyServer, bytes};
use foreread::{Advice, Engine, File};
use foreread_object::{StoreOptions, Stores};

const LEN: u64 = (1 << 20) + 12_345;
const PAGE: u64 = 4096;
/// Of the largest object.
const LEN_PAGES: u64 = (64 << 20) / PAGE;

/// Retries at once, so that a test does not wait for the pauses.
fn stores(retries: usize) -> Stores {
    Stores::new(stores_options(retries))
}

fn stores_options(retries: usize) -> StoreOptions {
    let first_pause = Duration::from_millis(1);
    StoreOptions { retries, first_pause, ..StoreOptions::default() }
}

fn engine() -> Engine {
    Engine::builder().memory(8 << 20).build().unwrap()
}

fn open(engine: &Engine, stores: &Stores, server: &FaultyServer) -> File {
    engine.open_source(stores.open(&server.url()).unwrap()).unwrap()
}

fn read(file: &File, range: std::ops::Range<u64>) -> Result<Vec<u8>, String> {
    let mut to = vec![0; (range.end - range.start) as usize];
    let got = file.read_at(&mut to, range.start).map_err(|error| error.to_string())?;
    to.truncate(got);
    Ok(to)
}

/// Reads a page behind one fault that every GET has; the error of the read.
#[track_caller]
fn error_of(fault: Fault) -> String {
    let server = FaultyServer::start(LEN);
    let (engine, stores) = (engine(), stores(2));
    let file = open(&engine, &stores, &server);
    file.stream().advise(Advice::Random);
    server.always(fault);
    let error = read(&file, 8 * PAGE..9 * PAGE).expect_err("no answer was right");
    let names = error.contains(&server.url()) && !error.contains('\n');
    assert!(names, "{fault:?}: names the object in one line: {error}");
    server.always(Fault::None);
    let again = read(&file, 8 * PAGE..9 * PAGE);
    assert_eq!(again.as_deref(), Ok(&*bytes(1, 8 * PAGE..9 * PAGE)), "{fault:?}: then it reads");
    error
}

#[test]
fn an_object_is_read_as_it_is() {
    let server = FaultyServer::start(LEN);
    let (engine, stores) = (engine(), stores(2));
    let file = open(&engine, &stores, &server);
    assert_eq!(file.len(), LEN);
    assert_eq!(read(&file, 0..LEN + 10).unwrap(), bytes(1, 0..LEN));
    let first = stores.counters();
    assert_eq!(read(&file, 0..LEN).unwrap(), bytes(1, 0..LEN));
    assert_eq!(stores.counters(), first, "the second time it is in the cache");
    assert_eq!(first.bytes, LEN);
    assert_eq!(first.requests, server.gets(), "no other request");
}

#[test]
fn every_invalid_response_is_an_error_that_names_it() {
    let cases = [
        (Fault::IgnoreRange, "ignores Range"),
        (Fault::ShortLength, "are 4096 bytes, and sends 2048"),
        (Fault::LongLength, "are 4096 bytes, and sends 8192"),
        (Fault::OtherRange, "32768..36864"),
        (Fault::NonsenseRange, "some-thing"),
        (Fault::OtherVersion, "it has changed since it was opened"),
        (Fault::NoVersion, "neither ETag nor Last-Modified"),
        (Fault::Status(403), "not allowed"),
        (Fault::Status(404), "no such object"),
        (Fault::Status(412), "it has changed since it was opened"),
        (Fault::Status(500), "given up after 2 retries: "),
        (Fault::Status(503), "503"),
        (Fault::Encoded, "sends the object encoded (Content-Encoding: gzip)"),
        (Fault::Close, "bytes 32768 to 36864"),
        (Fault::Garbage, "bytes 32768 to 36864"),
        (Fault::Cut, "bytes 32768 to 36864"),
    ];
    for (fault, part) in cases {
        let error = error_of(fault);
        assert!(error.contains(part), "{fault:?}: {part}: {error}");
    }
}

#[test]
fn a_server_that_does_not_answer_ends_at_the_deadline() {
    let server = FaultyServer::start(LEN);
    let engine = engine();
    let options = StoreOptions { deadline: Duration::from_secs(2), ..StoreOptions::default() };
    let file = open(&engine, &Stores::new(options), &server);
    file.stream().advise(Advice::Random);
    for fault in [Fault::Hang, Fault::Stall] {
        server.always(fault);
        let error = read(&file, 8 * PAGE..9 * PAGE).unwrap_err();
        assert!(error.contains("no answer within 2000 ms"), "{fault:?}: {error}");
    }
}

/// Each page was asked for alone after that: 1 MiB was an error after five deadlines.
#[test]
fn a_read_of_many_pages_of_a_silent_server_ends_with_its_one_request() {
    let server = FaultyServer::start(LEN);
    let engine = engine();
    let options = StoreOptions { deadline: Duration::from_secs(1), ..StoreOptions::default() };
    let file = open(&engine, &Stores::new(options), &server);
    file.stream().advise(Advice::Random);
    server.always(Fault::Hang);
    let before = server.gets();
    let error = read(&file, 8 * PAGE..16 * PAGE).unwrap_err();
    assert!(error.contains("no answer within 1000 ms"), "{error}");
    assert_eq!(server.gets() - before, 1);
}

/// Each page was asked for alone when the retries were over: as many requests more as pages, and
/// their retries.
#[test]
fn a_read_of_many_pages_ends_with_the_retries_of_its_one_request() {
    let server = FaultyServer::start(LEN);
    let engine = engine();
    let options = StoreOptions { hedge: false, ..stores_options(2) };
    let file = open(&engine, &Stores::new(options), &server);
    file.stream().advise(Advice::Random);
    for status in [500, 502, 503, 429] {
        server.always(Fault::Status(status));
        let before = server.gets();
        let error = read(&file, 8 * PAGE..16 * PAGE).unwrap_err();
        assert!(error.contains(&status.to_string()), "{error}");
        assert_eq!(server.gets() - before, 3, "{status}: {error}");
    }
}

/// A body that breaks, and the refusals of the request for its rest, had retries of their own; and
/// with an `ETag` the client of the store sent up to ten requests more for the rest.
#[test]
fn a_request_is_sent_as_often_as_its_retries_allow_whatever_fails() {
    for is_tagged in [true, false] {
        let server = FaultyServer::start(LEN);
        if !is_tagged {
            server.without_tag();
        }
        let options = StoreOptions { hedge: false, ..stores_options(2) };
        let stores = Stores::new(options);
        let object = stores.open(&server.url()).unwrap();
        let mut to = vec![0; 8 * PAGE as usize];
        let mut sent = |faults: [Fault; 3]| {
            server.next(faults);
            let before = server.gets();
            let read = object.read_exact_at(&mut to, 8 * PAGE);
            (server.gets() - before, read.map_err(|error| error.to_string()))
        };
        let (gets, read) = sent([Fault::Cut, Fault::Status(503), Fault::Status(500)]);
        let error = read.unwrap_err();
        assert!(error.contains("given up after 2 retries: ") && error.contains("500"), "{error}");
        assert_eq!(gets, 3, "tagged: {is_tagged}");
        let (gets, read) = sent([Fault::Cut; 3]);
        assert!(read.unwrap_err().contains("reading a body"), "tagged: {is_tagged}");
        assert_eq!(gets, 3, "tagged: {is_tagged}");
        assert_eq!(sent([Fault::Cut, Fault::Cut, Fault::None]), (3, Ok(())));
        assert_eq!(to, bytes(1, 8 * PAGE..16 * PAGE));
    }
}

/// Right bytes were refused because the head left out a length that no read needs.
#[test]
fn an_answer_that_leaves_a_length_out_is_read() {
    for fault in [Fault::Chunks, Fault::UnknownLength] {
        let server = FaultyServer::start(LEN);
        let (engine, stores) = (engine(), stores(0));
        let file = open(&engine, &stores, &server);
        server.always(fault);
        let got = read(&file, 0..LEN + 10);
        assert!(got.as_ref() == Ok(&bytes(1, 0..LEN)), "{fault:?}: {:?}", got.err());
    }
}

#[test]
fn errors_that_pass_are_not_seen() {
    let server = FaultyServer::start(LEN);
    let (engine, stores) = (engine(), stores(10));
    let file = open(&engine, &stores, &server);
    let passing =
        [Fault::Status(503), Fault::Status(500), Fault::Cut, Fault::Close, Fault::Status(429)];
    server.next(passing);
    assert_eq!(read(&file, 0..LEN).unwrap(), bytes(1, 0..LEN));
    let counts = stores.counters();
    assert_eq!(counts.throttled, 2, "{counts:?}");
    assert!(counts.failed >= 1, "{counts:?}");
    assert_eq!(counts.retried, 5, "{counts:?}");
    assert_eq!(counts.requests, server.gets(), "no other request");
}

/// A length is the server's word: it allocates nothing, and offsets near its end are no panic.
#[test]
fn an_object_of_any_length_opens_or_is_an_error() {
    for len in [0, 1, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX] {
        let server = FaultyServer::start(len);
        let (engine, stores) = (engine(), stores(0));
        let object = match stores.open(&server.url()) {
            Ok(object) => object,
            Err(error) => {
                assert!(len > i64::MAX as u64, "{len}: {error}");
                continue;
            }
        };
        match engine.open_source(object) {
            Ok(file) => {
                let start = len.saturating_sub(100);
                assert_eq!(read(&file, start..len), Ok(bytes(1, start..len)), "{len}");
                assert_eq!(read(&file, len..len), Ok(Vec::new()), "{len}");
            }
            Err(error) => assert!(len > i64::MAX as u64, "{len}: {error}"),
        }
    }
}

/// A request that is never answered has a second copy; without one its reader would wait for the
/// deadline. Whether the budget has a copy left depends on how busy the machine was before: then it
/// is tried again.
#[test]
fn a_read_that_waits_for_a_late_request_has_its_bytes_from_a_second_copy() {
    let server = FaultyServer::start(64 << 20);
    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let deadline = Duration::from_secs(20);
    let stores = Stores::new(StoreOptions { deadline, retries: 0, ..StoreOptions::default() });
    let file = open(&engine, &stores, &server);
    file.stream().advise(Advice::Random);
    let mut page = 0;
    let mut next = || {
        // No page twice, and none beside another.
        page = (page + 7919) % (LEN_PAGES - 1);
        read(&file, page * PAGE..(page + 1) * PAGE).map(|got| (got, page))
    };
    for _ in 0..20 {
        for _ in 0..150 {
            assert!(next().is_ok(), "without faults it reads");
        }
        let before = stores.counters();
        server.next([Fault::Hang]);
        let Ok((got, page)) = next() else { continue };
        assert_eq!(got, bytes(1, page * PAGE..(page + 1) * PAGE));
        let after = stores.counters();
        assert_eq!((after.hedged, after.requests), (before.hedged + 1, before.requests + 2));
        return;
    }
    panic!("no copy was sent: {:?}", stores.counters());
}

/// Each of 256 pages was asked for once more: of an object that is gone, with as many requests.
#[test]
fn an_object_that_is_gone_forbidden_or_replaced_is_not_asked_for_page_by_page() {
    for fault in [Fault::Status(404), Fault::Status(403), Fault::OtherVersion] {
        let server = FaultyServer::start(4 << 20);
        let engine = Engine::builder().memory(8 << 20).build().unwrap();
        let file = open(&engine, &stores(0), &server);
        file.stream().advise(Advice::Random);
        server.always(fault);
        let before = server.gets();
        let error = read(&file, 0..256 * PAGE).unwrap_err();
        let gets = server.gets() - before;
        assert!(gets <= 2, "{fault:?}: {gets} requests, {error}");
        server.always(Fault::None);
        assert_eq!(read(&file, 0..256 * PAGE), Ok(bytes(1, 0..256 * PAGE)), "{fault:?}");
    }
}

/// Each request in flight has a permit, and its body breaks: the rest is asked for under the same
/// permit. Those that waited for another one waited for each other, until the deadline.
#[test]
fn all_requests_in_flight_may_break_at_once() {
    let server = FaultyServer::start(64 << 20);
    let engine = Engine::builder().memory(64 << 20).build().unwrap();
    let file = open(&engine, &stores(10), &server);
    file.stream().advise(Advice::Random);
    server.next([Fault::Cut; 200]);
    std::thread::scope(|scope| {
        for at in 0..100_u64 {
            let file = &file;
            scope.spawn(move || {
                let range = at * 32 * PAGE..(at * 32 + 1) * PAGE;
                assert_eq!(read(file, range.clone()), Ok(bytes(1, range)));
            });
        }
    });
}

#[test]
fn a_redirect_is_followed() {
    let server = FaultyServer::start(LEN);
    let (engine, stores) = (engine(), stores(2));
    let file = open(&engine, &stores, &server);
    server.always(Fault::Redirect);
    assert_eq!(read(&file, 0..LEN).unwrap(), bytes(1, 0..LEN));
}

#[test]
fn a_small_object_is_read_from_a_server_without_ranges() {
    let server = FaultyServer::start(10_000);
    let (engine, stores) = (engine(), stores(0));
    let file = open(&engine, &stores, &server);
    server.always(Fault::IgnoreRange);
    assert_eq!(read(&file, 0..10_000).unwrap(), bytes(1, 0..10_000));
}

/// A page from before the change and one from after it would be a mixture.
#[test]
fn an_object_that_changes_while_open_is_an_error_and_is_read_anew_when_opened_again() {
    for is_tagged in [true, false] {
        let server = FaultyServer::start(LEN);
        if !is_tagged {
            server.without_tag();
        }
        let (engine, stores) = (engine(), stores(2));
        let file = open(&engine, &stores, &server);
        file.stream().advise(Advice::Random);
        assert_eq!(read(&file, 0..PAGE).unwrap(), bytes(1, 0..PAGE));
        server.replace();
        let error = read(&file, 64 * PAGE..65 * PAGE).unwrap_err();
        assert!(error.contains("it has changed since it was opened"), "{error}");
        assert_eq!(read(&file, 0..PAGE).unwrap(), bytes(1, 0..PAGE), "what is cached stays");
        let again = open(&engine, &stores, &server);
        assert_eq!(read(&again, 0..LEN).unwrap(), bytes(2, 0..LEN));
    }
}

#[test]
fn many_faults_at_random_bring_right_bytes_or_an_error() {
    let faults = [
        Fault::IgnoreRange,
        Fault::Cut,
        Fault::ShortLength,
        Fault::LongLength,
        Fault::OtherRange,
        Fault::NonsenseRange,
        Fault::OtherVersion,
        Fault::NoVersion,
        Fault::Encoded,
        Fault::Status(403),
        Fault::Status(412),
        Fault::Status(500),
        Fault::Status(503),
        Fault::Close,
        Fault::Garbage,
        Fault::Redirect,
    ];
    let mut seed: u64 = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let runs = std::env::var("OBJECT_FAULTS").map_or(60, |runs| runs.parse().unwrap());
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let (engine, stores) = (engine(), stores(2));
    let (mut right, mut failed) = (0, 0);
    for run in 0..runs {
        let server = FaultyServer::start(LEN);
        let file = open(&engine, &stores, &server);
        server.next((0..random(6)).map(|_| faults[random(faults.len())]));
        for _ in 0..4 {
            let start = random(LEN as usize - 70_000) as u64;
            let end = start + 1 + random(70_000) as u64;
            match read(&file, start..end) {
                Ok(got) => {
                    assert!(got == bytes(1, start..end), "run {run}: {start}..{end}");
                    right += 1;
                }
                Err(error) => {
                    assert!(error.contains(&server.url()), "run {run}: {error}");
                    failed += 1;
                }
            }
        }
    }
    assert!(right > failed && failed > 0, "{right} right, {failed} failed");
}
