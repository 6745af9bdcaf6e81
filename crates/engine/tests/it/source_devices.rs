//! Sources that name one device: they are one device to the engine.
//!
//! In:    sources whose requests a test answers when it likes.
//! Out:   each source's own bytes; one limit of requests for all; one estimate.
//! Never: a frame that is lost, a read of another source's bytes.

use crate::hang;

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use foreread::{Engine, File, Reply, Source, SourceIdentity};
use hang::Watchdog;

const LEN: u64 = 8 << 20;

/// All requests of all sources of a test, as long as it holds them.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Requests>>);

#[derive(Default)]
struct Requests {
    is_held: bool,
    held: Vec<(u8, Range<u64>, Reply)>,
}

struct Object {
    store: Store,
    name: u8,
    device: Option<&'static str>,
    len: u64,
}

impl Store {
    fn open(&self, engine: &Engine, name: u8, device: Option<&'static str>) -> File {
        self.open_of(engine, name, device, LEN)
    }

    fn open_of(&self, engine: &Engine, name: u8, device: Option<&'static str>, len: u64) -> File {
        engine.open_source(Object { store: self.clone(), name, device, len }).unwrap()
    }

    fn hold(&self, is_held: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_held = is_held;
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).held.len()
    }

    /// Answers what is held, and from now on each request at once.
    fn let_go(&self) {
        self.hold(false);
        let take = || self.0.lock().unwrap_or_else(PoisonError::into_inner).held.pop();
        while let Some((name, range, reply)) = take() {
            answer(name, range, reply);
        }
    }
}

impl Source for Object {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new(self.name.to_string(), "1")
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn fetch(&self, range: Range<u64>, reply: Reply) {
        let mut requests = self.store.0.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.is_held {
            requests.held.push((self.name, range, reply));
        } else {
            drop(requests);
            answer(self.name, range, reply);
        }
    }

    fn device(&self) -> Option<String> {
        self.device.map(str::to_owned)
    }
}

fn answer(name: u8, range: Range<u64>, mut reply: Reply) {
    // One that is too late is told so.
    if reply.write(&bytes(name, range)).is_ok() {
        reply.finish();
    }
}

fn bytes(name: u8, range: Range<u64>) -> Vec<u8> {
    range.map(|at| name ^ (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn engine() -> Engine {
    Engine::builder().memory(16 << 20).record(1 << 20).build().unwrap()
}

fn check(file: &File, name: u8, range: Range<u64>) {
    let mut to = vec![0; usize::try_from(range.end - range.start).unwrap()];
    file.read_exact_at(&mut to, range.start).unwrap();
    assert!(to == bytes(name, range.clone()), "{range:?} of {name}");
}

/// Asks for 40 pages far from each other.
fn want(file: &File) {
    file.will_need((0..40).map(|page| page * 200_000..page * 200_000 + 1)).unwrap();
}

fn assert_all_back(engine: &Engine) {
    while engine.frames().is_ok_and(|(idle, all)| idle < all) {
        std::thread::yield_now();
    }
    engine.replay().unwrap();
}

#[test]
fn sources_of_one_device_share_its_limit_and_those_of_others_do_not() {
    let _watchdog =
        Watchdog::new("sources_of_one_device_share_its_limit_and_those_of_others_do_not");
    for (devices, most) in [([Some("store"); 3], 64), ([Some("a"), Some("b"), None], 120)] {
        let (engine, store) = (engine(), Store::default());
        store.hold(true);
        let files: Vec<_> =
            (0..).zip(devices).map(|(name, device)| store.open(&engine, name, device)).collect();
        for file in &files {
            want(file);
        }
        assert_eq!(store.count(), most, "{devices:?}");
        store.let_go();
        for (name, file) in (0..).zip(&files) {
            for page in 0..40 {
                check(file, name, page * 200_000..page * 200_000 + 3000);
            }
            check(file, name, LEN - 10_000..LEN);
        }
        assert_all_back(&engine);
    }
}

/// What is learnt is of the device, and so is of all.
#[test]
fn sources_of_one_device_have_one_estimate() {
    let _watchdog = Watchdog::new("sources_of_one_device_have_one_estimate");
    let (engine, store) = (engine(), Store::default());
    let first = store.open(&engine, 1, Some("store"));
    let second = store.open(&engine, 2, Some("store"));
    let other = store.open(&engine, 3, Some("elsewhere"));
    let state = |file: &File| file.device().state().unwrap().expect("it is open");
    store.hold(true);
    want(&first);
    assert_eq!((state(&first).in_flight_reads, state(&other).in_flight_reads), (40, 0));
    assert_eq!(state(&second), state(&first));
    store.let_go();
    check(&first, 1, 0..LEN);
    assert_eq!(state(&second), state(&first));
    assert_eq!(second.device().model().unwrap(), first.device().model().unwrap());
    assert_all_back(&engine);
}

/// Short ones, one with nothing in it and one that ends inside of a page, side by side.
#[test]
fn sources_come_and_go_while_requests_are_in_flight_and_queued() {
    let _watchdog = Watchdog::new("sources_come_and_go_while_requests_are_in_flight_and_queued");
    let (engine, store) = (engine(), Store::default());
    let stays = store.open_of(&engine, 9, Some("store"), 10_001);
    for round in 0..4 {
        store.hold(true);
        let gone: Vec<_> = (0..3).map(|name| store.open(&engine, name, Some("store"))).collect();
        let empty = store.open_of(&engine, 8, Some("store"), 0);
        for file in &gone {
            want(file);
        }
        drop(gone);
        store.let_go();
        assert_eq!(empty.len(), 0);
        check(&stays, 9, 0..10_001);
        let again = store.open(&engine, 1, Some("store"));
        check(&again, 1, round * 4096..round * 4096 + 20_000);
    }
    drop(stays);
    assert_all_back(&engine);
}
