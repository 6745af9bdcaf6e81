//! Refusals of a store as a whole, and servers whose HEAD or conditions are wrong.
//!
//! In:    an object behind a server with one such fault.
//! Out:   its bytes.
//! Never: more requests because some were refused.

use super::*;

/// Each of 256 pages was asked for alone, of a store that wants fewer requests, and the read failed
/// although the store served again.
#[test]
fn a_request_that_is_refused_for_long_is_not_split_into_pages() {
    let server = FaultyServer::start(64 << 20);
    let engine = Engine::builder().memory(8 << 20).build().unwrap();
    let options = StoreOptions { hedge: false, ..stores_options(usize::MAX) };
    let file = open(&engine, &Stores::new(options), &server);
    file.stream().advise(Advice::Random);
    let faults = [Fault::Status(503), Fault::Status(429), Fault::Status(502), Fault::Status(504)];
    for (start, fault) in [0, 3000, 11_000, 5000].into_iter().zip(faults) {
        let before = server.gets();
        server.next([fault; 11]);
        let range = start * PAGE..(start + 64) * PAGE;
        assert_eq!(read(&file, range.clone()).as_deref(), Ok(&*bytes(1, range)), "{fault:?}");
        assert_eq!(server.gets() - before, 12, "{fault:?}: one request, until it is served");
    }
}

/// A gateway that refuses each condition made its objects unreadable; what it sends is compared all
/// the same.
#[test]
fn a_server_that_refuses_conditions_that_hold_is_read_and_its_tags_are_compared() {
    let server = FaultyServer::start(LEN);
    let (engine, stores) = (engine(), stores(0));
    let file = open(&engine, &stores, &server);
    file.stream().advise(Advice::Random);
    server.refuse_conditions();
    assert_eq!(read(&file, 0..PAGE).unwrap(), bytes(1, 0..PAGE));
    let before = server.gets();
    assert_eq!(read(&file, 8 * PAGE..9 * PAGE).unwrap(), bytes(1, 8 * PAGE..9 * PAGE));
    assert_eq!(server.gets() - before, 1, "none is sent any more");
    server.replace();
    let error = read(&file, 64 * PAGE..65 * PAGE).unwrap_err();
    assert!(error.contains("it has changed since it was opened"), "{error}");
}

/// HEAD with a length of 0, or none, or that is not served, made an object empty or unreadable.
#[test]
fn an_object_is_what_get_says_of_it() {
    for (len, head) in [(LEN, 0), (LEN, 7), (LEN, 405), (LEN, 501), (LEN, 403), (0, 0)] {
        for is_ranged in [true, false] {
            let server = FaultyServer::start(len);
            server.head(head);
            server.always(if is_ranged { Fault::None } else { Fault::IgnoreRange });
            let (engine, stores) = (engine(), stores(0));
            let file = match stores.open(&server.url()) {
                Ok(object) => engine.open_source(object).unwrap(),
                Err(error) => panic!("{len} {head} {is_ranged}: {error}"),
            };
            if is_ranged || head != 7 {
                assert_eq!(file.len(), len, "{head} {is_ranged}");
            }
        }
    }
}
