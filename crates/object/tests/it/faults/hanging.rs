//! Objects that never answer, beside others of their server.
//!
//! In:    requests that hang, fewer than may be in flight, or more.
//! Out:   the bytes of the others; those of the object once it answers.
//! Never: a limit on connections that is learnt from a request that hangs.

use super::*;

/// The page that a reader wants: of no two, nor of three, there is a stride to be read ahead.
fn page_of(reader: u64) -> std::ops::Range<u64> {
    let page = 37 * reader * reader;
    page * PAGE..(page + 1) * PAGE
}

/// More requests than may be in flight at a host, all of one object that never answers: the others
/// wait for its deadline and no longer, and its frames come back. The deadline is shorter than the
/// time after which a request counts as sent on a connection that is not served.
#[test]
fn an_object_that_hangs_holds_up_the_others_of_its_server_until_the_deadline() {
    let server = FaultyServer::start(64 << 20);
    let engine = Engine::builder().memory(64 << 20).build().unwrap();
    let options = StoreOptions { deadline: Duration::from_millis(300), ..StoreOptions::default() };
    let stores = Stores::new(options);
    let file = open(&engine, &stores, &server);
    file.stream().advise(Advice::Random);
    let other = stores.open(&server.url().replace("/object", "/other")).unwrap();
    let other = engine.open_source(other).unwrap();
    server.hang("/object");
    std::thread::scope(|scope| {
        let hung: Vec<_> = (0..100_u64)
            .map(|at| {
                let file = &file;
                scope.spawn(move || read(file, at * 32 * PAGE..(at * 32 + 1) * PAGE))
            })
            .collect();
        assert_eq!(read(&other, 0..10 * PAGE), Ok(bytes(1, 0..10 * PAGE)));
        for hung in hung {
            let error = hung.join().unwrap().unwrap_err();
            assert!(error.contains("no answer within 300 ms"), "{error}");
        }
    });
    server.hang("");
    assert_eq!(read(&file, 0..32 * PAGE), Ok(bytes(1, 0..32 * PAGE)), "then it reads");
}

/// A request that hangs was taken for one on a connection that the server does not serve: one or
/// two requests were sent at a time from then on, and the first was that which hung.
#[test]
fn requests_that_hang_leave_their_places_to_others_long_before_the_deadline() {
    let server = FaultyServer::start(64 << 20);
    let engine = Engine::builder().memory(64 << 20).build().unwrap();
    // No copy of a request that hangs: all that the server sees are sent again.
    let options = StoreOptions { hedge: false, ..StoreOptions::default() };
    let stores = Stores::new(options);
    let file = open(&engine, &stores, &server);
    file.stream().advise(Advice::Random);
    server.hang("/object");
    std::thread::scope(|scope| {
        let hung: Vec<_> = (0..16)
            .map(|at| {
                (
                    page_of(at),
                    scope.spawn({
                        let file = &file;
                        move || read(file, page_of(at))
                    }),
                )
            })
            .collect();
        server.wait_for_hung(16);
        // Its connection lies idle then, while the others are not answered.
        let other = stores.open(&server.url().replace("/object", "/other")).unwrap();
        let other = engine.open_source(other).unwrap();
        for at in 0..3 {
            server.wait_for_hung(16 + at);
            let range = at * 100 * PAGE..(at * 100 + 1) * PAGE;
            assert_eq!(read(&other, range.clone()), Ok(bytes(1, range)));
        }
        assert!(hung.iter().all(|(_, hung)| !hung.is_finished()), "their deadline is far");
        server.hang("");
        server.hang_up();
        for (range, hung) in hung {
            assert_eq!(hung.join().unwrap(), Ok(bytes(1, range)));
        }
    });
}
