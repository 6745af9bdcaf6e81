//! Sources know which requests a reader waits for, and may say what their device is like.
//!
//! In:    a stream of small reads of a source.
//! Out:   what each request said of itself; how large requests are.
//! Never: a sleep.

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};

use foreread::LearntDevice;
use foreread::Pages;
use foreread::{Blocking, Engine, ReadRange, Reply, Source, SourceIdentity};

/// Where each request began, and whether it was read ahead.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<(u64, bool)>>>);

const LEN: u64 = 8 << 20;

impl ReadRange for Requests {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new("requests", "1")
    }

    fn length(&self) -> io::Result<u64> {
        Ok(LEN)
    }

    fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> io::Result<()> {
        self.0.lock().unwrap().push((range.start, reply.is_read_ahead()));
        range.step_by(4096).try_for_each(|_| reply.write(&[7; 4096]))
    }
}

#[test]
fn a_source_knows_which_requests_a_reader_waits_for() {
    let (engine, requests) =
        (Engine::builder().memory(4 << 20).build().unwrap(), Requests::default());
    let file = engine.open_source(Blocking::new(requests.clone())).unwrap();
    let mut bytes = [0; 16 << 10];
    for start in (0..LEN).step_by(bytes.len()) {
        assert_eq!(file.read_at(&mut bytes, start).unwrap(), bytes.len());
        assert_eq!(bytes, [7; 16 << 10]);
    }
    let requests = requests.0.lock().unwrap();
    let first = requests.iter().find(|(start, _)| *start == 0);
    assert_eq!(first, Some(&(0, false)), "a reader waits for the first page");
    assert!(requests.iter().any(|(_, is_ahead)| *is_ahead), "a stream is read ahead of");
}

/// A source that answers at once, and what it says of its device. Where each request began and
/// ended.
struct Expecting {
    device: Option<LearntDevice>,
    requests: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Source for Expecting {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new("expecting", "1")
    }

    fn length(&self) -> io::Result<u64> {
        Ok(LEN)
    }

    fn fetch(&self, range: Range<u64>, mut reply: Reply) {
        self.requests.lock().unwrap().push(range.clone());
        range.step_by(4096).try_for_each(|_| reply.write(&[7; 4096])).unwrap();
        reply.finish();
    }

    fn expected_device(&self) -> Option<LearntDevice> {
        self.device
    }
}

/// The largest of the first six requests of a stream.
fn first_requests(device: Option<LearntDevice>) -> u64 {
    let engine = Engine::builder().memory(64 << 20).learn_max_window().build().unwrap();
    let requests = Arc::default();
    let file = engine.open_source(Expecting { device, requests: Arc::clone(&requests) }).unwrap();
    let mut bytes = [0; 64 << 10];
    for start in (0..LEN).step_by(bytes.len()) {
        assert_eq!(file.read_at(&mut bytes, start).unwrap(), bytes.len());
        assert_eq!(bytes, [7; 64 << 10]);
    }
    let requests = requests.lock().unwrap();
    requests.iter().take(6).map(|range| range.end - range.start).max().unwrap()
}

/// Each size of window was tried eight times first.
#[test]
fn a_source_that_says_what_its_device_is_like_begins_with_large_windows() {
    assert!(first_requests(None) <= 256 << 10);
    let device = LearntDevice { window: Pages(512), cost: None };
    assert!(first_requests(Some(device)) >= 512 << 10);
    let is_none = LearntDevice { window: Pages(513), cost: None };
    assert!(first_requests(Some(is_none)) <= 256 << 10, "no device is like this");
}

type KeptRequests = Vec<(Range<u64>, Reply)>;

/// A source that keeps each request.
#[derive(Clone, Default)]
struct Keeping(Arc<Mutex<KeptRequests>>);

impl Source for Keeping {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new("keeping", "1")
    }

    fn length(&self) -> io::Result<u64> {
        Ok(LEN)
    }

    fn fetch(&self, range: Range<u64>, reply: Reply) {
        self.0.lock().unwrap().push((range, reply));
    }
}

/// Says by a channel that it was called.
struct Woken(mpsc::Sender<()>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

/// A source took what a reader waits for as read-ahead until it had ended.
#[test]
fn a_source_hears_of_a_reader_that_comes_to_what_is_read_ahead() {
    let (engine, requests) =
        (Engine::builder().memory(4 << 20).build().unwrap(), Keeping::default());
    let file = engine.open_source(requests.clone()).unwrap();
    file.will_need(std::iter::once(0..64 << 10)).unwrap();
    let (range, mut reply) = requests.0.lock().unwrap().pop().unwrap();
    assert!(range == (0..64 << 10) && reply.is_read_ahead(), "{range:?}");
    let mut joined = pin!(reply.joined());
    let (to, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Woken(to)));
    let mut context = Context::from_waker(&waker);
    assert!(joined.as_mut().poll(&mut context).is_pending(), "no reader waits");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = [0; 4096];
            file.read_at(&mut bytes, 8192).map(|_| bytes)
        });
        woken.recv().unwrap();
        assert!(joined.as_mut().poll(&mut context).is_ready());
        reply.write(&[7; 64 << 10]).unwrap();
        reply.finish();
        assert_eq!(reader.join().unwrap().unwrap(), [7; 4096]);
    });
    assert!(requests.0.lock().unwrap().is_empty(), "nothing was asked twice");
}
