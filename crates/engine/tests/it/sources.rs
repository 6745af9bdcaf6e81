//! Sources: read like files, whatever they answer and when.
//!
//! In:    a source that a test releases step by step, and sources that answer wrongly.
//! Out:   the bytes, in the order in which they arrive; one clear error for each wrong answer.
//! Never: a sleep, a frame that is lost, a read that hangs.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use foreread::{
    Blocking, Engine, File, ReadError, ReadErrorKind, ReadRange, Reply, Source, SourceIdentity,
};

/// A source whose requests a test answers.
#[derive(Clone)]
struct Manual(Arc<ManualState>);

struct ManualState {
    name: &'static str,
    version: &'static str,
    len: u64,
    requests: Mutex<VecDeque<(Range<u64>, Reply)>>,
    has_come: Condvar,
}

impl Manual {
    fn new(name: &'static str, version: &'static str, len: u64) -> Self {
        let (requests, has_come) = (Mutex::default(), Condvar::new());
        Self(Arc::new(ManualState { name, version, len, requests, has_come }))
    }

    /// Waits for the next request.
    fn next(&self) -> (Range<u64>, Reply) {
        let requests = self.0.requests.lock().unwrap();
        let mut requests = self.0.has_come.wait_while(requests, |it| it.is_empty()).unwrap();
        requests.pop_front().unwrap()
    }

    fn take(&self) -> Option<(Range<u64>, Reply)> {
        self.0.requests.lock().unwrap().pop_front()
    }

    /// Answers all requests that there are, and those that follow from them.
    fn answer_all(&self) {
        while let Some((range, mut reply)) = self.take() {
            reply.write(&bytes(range)).unwrap();
            reply.finish();
        }
    }
}

impl Source for Manual {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new(self.0.name, self.0.version)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len)
    }

    fn fetch(&self, range: Range<u64>, reply: Reply) {
        self.0.requests.lock().unwrap().push_back((range, reply));
        self.0.has_come.notify_all();
    }
}

/// What a source has at these offsets.
fn bytes(range: Range<u64>) -> Vec<u8> {
    range.map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn engine() -> Engine {
    Engine::builder().memory(4 << 20).record(1 << 20).build().unwrap()
}

fn assert_all_back(engine: &Engine) {
    // A source's threads may be at work on what was read ahead. A frame that is lost hangs here.
    while engine.frames().is_ok_and(|(idle, all)| idle < all) {
        std::thread::yield_now();
    }
    engine.replay().unwrap();
}

fn read(file: &File, range: Range<u64>) -> Result<Vec<u8>, ReadError> {
    let mut to = vec![0; usize::try_from(range.end - range.start).unwrap()];
    let len = file.read_at(&mut to, range.start)?;
    to.truncate(len);
    Ok(to)
}

#[test]
fn the_reader_of_the_first_page_has_it_before_the_last_page_has_come() {
    let (engine, source) = (engine(), Manual::new("first", "1", 1 << 20));
    let file = engine.open_source(source.clone()).unwrap();
    let reader = {
        let file = file.clone();
        std::thread::spawn(move || read(&file, 0..4096).unwrap())
    };
    let (range, mut reply) = source.next();
    assert!(range.start == 0 && range.end > 4096, "{range:?}: the window is one request");
    reply.write(&bytes(0..4096)).unwrap();
    assert_eq!(reader.join().unwrap(), bytes(0..4096));
    assert_eq!(reply.remaining(), range.end - 4096);
    reply.write(&bytes(4096..range.end)).unwrap();
    assert_eq!(reply.remaining(), 0);
    reply.finish();
    source.answer_all();
    assert_all_back(&engine);
}

#[test]
fn threads_read_the_same_bytes_to_an_end_in_the_middle_of_a_page() {
    struct Memory;

    impl ReadRange for Memory {
        fn identity(&self) -> SourceIdentity {
            SourceIdentity::new("memory", "1")
        }

        fn length(&self) -> io::Result<u64> {
            Ok(3_000_001)
        }

        fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> io::Result<()> {
            let all = bytes(range);
            all.chunks(1009).try_for_each(|part| reply.write(part))
        }
    }

    let engine = Engine::builder().memory(1 << 20).record(1 << 22).build().unwrap();
    let file = engine.open_source(Blocking::new(Memory)).unwrap();
    assert_eq!(file.len(), 3_000_001);
    std::thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let file = &file;
            scope.spawn(move || {
                let mut word = seed;
                for _ in 0..300 {
                    word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let start = (word >> 33) % 3_000_001;
                    let end = (start + 1 + (word >> 20) % 50_000).min(3_000_001);
                    assert_eq!(read(file, start..end).unwrap(), bytes(start..end));
                }
            });
        }
    });
    assert_eq!(read(&file, 2_999_990..3_100_000).unwrap(), bytes(2_999_990..3_000_001));
    drop(file);
    assert_all_back(&engine);
}

#[test]
fn a_future_is_woken_by_the_page_it_waits_for() {
    struct Count(std::sync::atomic::AtomicU32);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }

    let (engine, source) = (engine(), Manual::new("future", "1", 100_000));
    let file = engine.open_source(source.clone()).unwrap();
    let count = Arc::new(Count(0.into()));
    let waker = std::task::Waker::from(Arc::clone(&count));
    let mut context = std::task::Context::from_waker(&waker);
    let mut page = [0; 100];
    let mut future = Box::pin(file.read_at_async(&mut page, 50));
    assert!(future.as_mut().poll(&mut context).is_pending());
    let (range, mut reply) = source.next();
    reply.write(&bytes(0..4096)).unwrap();
    assert_eq!(count.0.load(std::sync::atomic::Ordering::SeqCst), 1);
    let polled = future.as_mut().poll(&mut context);
    assert!(matches!(polled, std::task::Poll::Ready(Ok(100))), "{polled:?}");
    drop(future);
    assert_eq!(page[..], bytes(50..150));
    reply.write(&bytes(4096..range.end)).unwrap();
    reply.finish();
    source.answer_all();
    assert_all_back(&engine);
}

/// A wrong answer, to a request of one page: its reader's error.
fn wrong(answer: impl FnOnce(Range<u64>, Reply) + Send + 'static) -> ReadError {
    let (engine, source) = (engine(), Manual::new("wrong", "1", 4096));
    let file = engine.open_source(source.clone()).unwrap();
    let reader = std::thread::spawn(move || read(&file, 0..4096));
    let (range, reply) = source.next();
    answer(range, reply);
    let error = reader.join().unwrap().unwrap_err();
    assert_all_back(&engine);
    error
}

/// A source that ignores the range was asked for each of its pages as well.
#[test]
fn too_many_bytes_for_several_pages_are_one_request_and_one_error() {
    let (engine, source) = (engine(), Manual::new("long", "1", 4 * 4096));
    let file = engine.open_source(source.clone()).unwrap();
    let reader = std::thread::spawn(move || read(&file, 0..4 * 4096));
    let (range, mut reply) = source.next();
    assert_eq!(range, 0..4 * 4096);
    reply.write(&[0; 4 * 4096 + 1]).unwrap_err();
    let error = reader.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("more than the 16384 requested bytes"), "{error}");
    assert_all_back(&engine);
}

#[test]
fn every_invalid_response_is_one_clear_error() {
    let long = wrong(|range, mut reply| {
        reply.write(&bytes(range)[..4000]).unwrap();
        reply.write(&[0; 97]).unwrap_err();
        reply.write(&[0; 1]).unwrap_err();
        assert_eq!(reply.remaining(), 0);
        reply.finish();
    });
    assert!(long.to_string().contains("more than the 4096 requested bytes"), "{long}");
    let short = wrong(|_, mut reply| {
        reply.write(&[0; 4095]).unwrap();
        reply.finish();
    });
    assert!(matches!(short.kind, ReadErrorKind::Short { len: 4096, .. }), "{short}");
    let dropped = wrong(|_, reply| drop(reply));
    assert!(dropped.to_string().contains("dropped a request without an answer"), "{dropped}");
    let failed = wrong(|_, reply| reply.fail(io::Error::other("412: the ETag has changed")));
    assert!(failed.to_string().contains("412: the ETag has changed"), "{failed}");
    let number = wrong(|_, reply| reply.fail(io::Error::from_raw_os_error(libc::ECONNRESET)));
    let ReadErrorKind::Io { source, .. } = &number.kind else { panic!("{number}") };
    assert_eq!(source.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_source_that_panics_is_the_error_of_its_reader() {
    struct Panics(bool);

    impl ReadRange for Panics {
        fn identity(&self) -> SourceIdentity {
            SourceIdentity::new("panics", if self.0 { "thread" } else { "call" })
        }

        fn length(&self) -> io::Result<u64> {
            Ok(10)
        }

        fn read_range(&self, _: Range<u64>, _: &mut Reply) -> io::Result<()> {
            panic!("as a test wants it");
        }
    }

    impl Source for Panics {
        fn identity(&self) -> SourceIdentity {
            ReadRange::identity(self)
        }

        fn length(&self) -> io::Result<u64> {
            Ok(10)
        }

        fn fetch(&self, _: Range<u64>, _: Reply) {
            panic!("as a test wants it");
        }
    }

    let engine = engine();
    for file in [
        engine.open_source(Panics(false)).unwrap(),
        engine.open_source(Blocking::new(Panics(true))).unwrap(),
    ] {
        let error = read(&file, 0..10).unwrap_err();
        assert!(error.to_string().contains("the source panicked"), "{error}");
    }
    assert_all_back(&engine);
}

#[test]
fn a_source_that_never_answers_costs_no_frame_after_the_time_out() {
    let engine = Engine::builder().memory(4 << 20).timeout(Duration::from_millis(1));
    let engine = engine.record(1 << 20).build().unwrap();
    let source = Manual::new("never", "1", 4096);
    let file = engine.open_source(source.clone()).unwrap();
    let error = read(&file, 0..4096).unwrap_err();
    assert!(
        error.to_string().contains("1ms") || matches!(error.kind, ReadErrorKind::Io { .. }),
        "{error}"
    );
    let (_, mut reply) = source.next();
    while reply.remaining() > 0 {
        // Until the engine has taken the request from it; the background thread does.
        std::thread::yield_now();
    }
    assert!(reply.write(&[0; 4096]).is_err(), "what comes late goes nowhere");
    drop(reply);
    drop(file);
    assert_all_back(&engine);
}

#[test]
fn a_reply_outlives_its_file_and_its_engine() {
    let (engine, source) = (engine(), Manual::new("outlives", "1", 1 << 20));
    let file = engine.open_source(source.clone()).unwrap();
    file.will_need([0..4096, 500_000..500_001]).unwrap();
    let (_, mut first) = source.next();
    let (_, mut second) = source.next();
    drop(file);
    first.write(&[1; 4096]).unwrap();
    first.finish();
    assert!(second.remaining() > 0);
    drop(engine);
    assert_eq!(second.remaining(), 0, "its memory is gone");
    second.write(&[1]).unwrap_err();
    second.finish();
}

#[test]
fn sources_of_one_identity_are_one_file_and_of_another_version_are_not() {
    let engine = engine();
    let [first, same, newer] = ["1", "1", "2"].map(|version| Manual::new("name", version, 4096));
    let open = |source: &Manual| engine.open_source(source.clone()).unwrap();
    let (one, other, third) = (open(&first), open(&same), open(&newer));
    one.will_need(std::iter::once(0..4096)).unwrap();
    first.answer_all();
    assert_eq!(read(&other, 0..4096).unwrap(), bytes(0..4096), "a hit");
    assert!(same.take().is_none());
    third.will_need(std::iter::once(0..4096)).unwrap();
    newer.answer_all();
    assert_eq!(engine.counters().unwrap().path.device_reads, 2);
    assert_all_back(&engine);
}

/// A source that answered inside of `fetch` once would have called itself for each request.
#[test]
fn a_source_that_answers_at_once_does_not_recurse() {
    struct AtOnce;

    impl Source for AtOnce {
        fn identity(&self) -> SourceIdentity {
            SourceIdentity::new("at once", "1")
        }

        fn length(&self) -> io::Result<u64> {
            Ok(64 << 20)
        }

        fn fetch(&self, range: Range<u64>, mut reply: Reply) {
            thread_local!(static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
            DEPTH.with(|depth| {
                assert_eq!(depth.replace(1), 0);
                reply.write(&bytes(range)).unwrap();
                reply.finish();
                depth.set(0);
            });
        }
    }

    let engine = engine();
    let file = engine.open_source(AtOnce).unwrap();
    let pages = (0..300).map(|page| page * 200_000..page * 200_000 + 1);
    file.will_need(pages).unwrap();
    for start in (0..2 << 20).step_by(10_000) {
        assert_eq!(read(&file, start..start + 10_000).unwrap(), bytes(start..start + 10_000));
    }
    assert_all_back(&engine);
}

/// A source was once asked for its device under the engine's mutex: it waited for itself.
#[test]
fn a_source_may_use_the_engine_when_it_is_asked_for_its_device() {
    struct OnEngine(Engine);

    impl Source for OnEngine {
        fn identity(&self) -> SourceIdentity {
            SourceIdentity::new("on engine", "1")
        }

        fn length(&self) -> io::Result<u64> {
            Ok(4096)
        }

        fn fetch(&self, _range: Range<u64>, reply: Reply) {
            reply.fail(io::Error::other("not asked for here"));
        }

        fn device(&self) -> Option<String> {
            Some(format!("after {} hits", self.0.counters().unwrap().hits))
        }
    }

    let engine = engine();
    assert_eq!(engine.open_source(OnEngine(engine.clone())).unwrap().len(), 4096);
}

#[test]
fn a_length_that_no_file_has_is_refused() {
    let error = engine().open_source(Manual::new("long", "1", u64::MAX)).unwrap_err();
    assert!(error.to_string().contains("exceeds the limit"), "{error}");
}
