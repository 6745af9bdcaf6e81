//! What the engine does is what the core decided: the same reads give the same decisions as the
//! plain walk over a plain set, and the device is asked for what they say and nothing else.

use crate::plain;

use std::fs;

use foreread::Submitter;
use foreread::{Engine, Policy, SettingError, TooManyWeights};
use foreread_core::prefetch::Decided;
use foreread_core::trace::EventKind;
use foreread_core::units::{ByteCount, Pages};
use plain::{PlainPages, PlainStream};
use tempfile::TempDir;

const PAGES: u64 = 2000;
const LEN: u64 = PAGES * 4096 - 100;

fn decisions(engine: &Engine) -> Vec<Decided> {
    let events = engine.take_trace().unwrap().into_iter();
    let decided = events.filter_map(|event| match event.what {
        EventKind::Decided { decided, .. } => Some(without_waits(decided)),
        EventKind::Dispatched { .. } | EventKind::Arrived { .. } | EventKind::Completed { .. } => {
            None
        }
    });
    decided.collect()
}

/// In the plain walk nothing is in flight, so no read waits.
fn without_waits(mut decided: Decided) -> Decided {
    decided.ask.has_waited = false;
    decided
}

/// Reads in bytes: (offset, length).
fn patterns() -> Vec<(&'static str, Vec<(u64, u64)>)> {
    let page = 4096;
    let sequential =
        |size: u64| (0..(LEN / size).min(900)).map(move |i| (i * size, size)).collect();
    vec![
        ("one page at a time", sequential(page)),
        ("in pieces that are no pages", sequential(1000)),
        ("64 KiB at a time", sequential(16 * page)),
        ("more than a window at a time", sequential(100 * page)),
        (
            "in turns",
            (1..300).flat_map(|i| [(i * page, page), ((1000 + i) * page, page)]).collect(),
        ),
        ("backwards", (0..300).rev().map(|i| (i * page, page)).collect()),
        ("every seventh page", (0..280).map(|i| (i * 7 * page, page)).collect()),
        ("the end, twice", [(LEN - 50_000, 60_000), (0, page), (LEN - 9000, 9000)].to_vec()),
    ]
}

#[test]
fn the_engine_decides_as_the_plain_walk_does() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; usize::try_from(LEN).unwrap()]).unwrap();
    for policy in Policy::ALL {
        for (name, reads) in patterns() {
            let builder = Engine::builder().memory(32 << 20).policy(policy);
            let engine = builder.max_window(32 * 4096).trace(100_000).build().unwrap();
            let stream = engine.open(&path).unwrap().stream();
            let mut pages = PlainPages::default();
            let mut want = PlainStream::new(policy, 32);
            want.file = ByteCount(LEN);
            // The engine's own default, which linux-6 asks for.
            want.limits.io_pages = Pages(256);
            for (offset, len) in reads {
                let mut buffer = vec![0; usize::try_from(len).unwrap()];
                stream.read_at(&mut buffer, offset).unwrap();
                let lines = want.read_bytes(&mut pages, offset, len);
                let lines: Vec<Decided> =
                    lines.into_iter().map(|(line, _)| without_waits(line)).collect();
                assert_eq!(decisions(&engine), lines, "{name}, {}, {offset}", policy.name());
            }
            let asked = engine.counters().unwrap().path.device_pages;
            assert_eq!(asked, pages.resident.len() as u64, "{name}, {}", policy.name());
        }
    }
}

/// What was done to the core, done once more to another: threads that take turns at it, a real
/// device, hits that touch pages meanwhile, evictions.
#[test]
fn all_that_happened_follows_from_what_was_done_to_the_core() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; usize::try_from(LEN).unwrap()]).unwrap();
    for policy in Policy::ALL {
        let builder = Engine::builder().memory(1 << 20).policy(policy);
        let engine = builder.record(usize::MAX).build().unwrap();
        let file = engine.open(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    let stream = file.stream();
                    let mut buffer = vec![0; 20_000];
                    for i in 0..300_u64 {
                        let offset = if thread < 2 { i * 9000 } else { i * i * 7919 * thread };
                        stream.read_at(&mut buffer, offset % LEN).unwrap();
                        let pin = stream.pin(offset % LEN / 2);
                        assert!(pin.is_ok_and(|pin| pin.iter().all(|&byte| byte == 7)));
                    }
                });
            }
        });
        file.will_need([0..100_000, 3_000_000..3_000_001]).unwrap();
        file.dont_need(0..1 << 20).unwrap();
        drop(file);
        engine.replay().unwrap_or_else(|mismatch| panic!("{}: {mismatch}", policy.name()));
    }
}

#[test]
fn random_reads_ask_the_device_for_their_own_pages_only() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; usize::try_from(LEN).unwrap()]).unwrap();
    for policy in Policy::ALL {
        let engine = Engine::builder().memory(32 << 20).policy(policy).build().unwrap();
        let file = engine.open(&path).unwrap();
        let mut buffer = [0; 4096];
        // Every third page, in an order without neighbours and without equal distances.
        let mut order: Vec<u64> = (0..600).collect();
        order.sort_by_key(|place| (place * place * 7919 + place * 104_729) % 10_007);
        for place in order {
            let page = place * 3 + 1;
            assert_eq!(file.read_at(&mut buffer, page * 4096).unwrap(), 4096);
        }
        let path = engine.counters().unwrap().path;
        assert_eq!((path.device_reads, path.device_pages), (600, 600), "{}", policy.name());
    }
}

/// How the memory is shared is the simulator's to show; here that what is said arrives.
#[test]
fn weights_are_limited_in_number_and_shape_the_windows() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; 64 << 20]).unwrap();
    let engine = Engine::builder().memory(2 << 20).record(usize::MAX).build().unwrap();
    let submitter = |number: usize| Submitter(u32::try_from(number).unwrap());
    for number in 1..=TooManyWeights::MOST {
        engine.set_weight(submitter(number), 3).unwrap();
    }
    let more = submitter(TooManyWeights::MOST + 1);
    assert_eq!(engine.set_weight(more, 1), Err(SettingError::TooManyWeights(TooManyWeights)));
    engine.set_weight(submitter(1), 0).unwrap();
    engine.set_weight(more, 1).unwrap();
    let file = engine.open(&path).unwrap();
    let streams: Vec<_> = (0..8).map(|_| file.stream()).collect();
    for (number, stream) in streams.iter().enumerate() {
        stream.set_submitter(submitter(number)).unwrap();
    }
    let mut buffer = vec![0; 4096];
    for page in 0..500 {
        for (number, stream) in (0..).zip(&streams) {
            let at = (number * 2000 + page) * 4096;
            assert_eq!(stream.read_at(&mut buffer, at).unwrap(), 4096);
        }
    }
    engine.replay().unwrap();
}
