//! Sources know which requests a reader waits for.
//!
//! In:    a stream of small reads of a source.
//! Out:   what each request said of itself.
//! Never: a sleep.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use foreread::{Blocking, Engine, ReadRange, Reply, SourceIdentity};

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
