//! What a subscriber of the `tracing` crate is told, and when.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::future::Future as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use foreread::{Engine, EngineBuilder};
use foreread_core::trace::EventKind;
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    /// Engine that the subscriber queries at each event.
    static ASKED: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

/// Keeps each span and event of the engine as a line.
#[derive(Clone, Debug, Default)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "foreread"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(format!("span {}", span.metadata().name()));
        span.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        ASKED.with_borrow(|engine| {
            if let Some(engine) = engine {
                // Needs the engine's mutex, and so hangs if it is held.
                engine.counters().unwrap();
            }
        });
        let mut line = Line(String::new());
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0.trim_start().to_owned());
    }

    fn enter(&self, _: &Id) {
        self.lines.lock().unwrap().push("enter".to_owned());
    }

    fn exit(&self, _: &Id) {
        self.lines.lock().unwrap().push("exit".to_owned());
    }
}

fn engine_and_file(builder: EngineBuilder) -> (TempDir, Engine, foreread::File) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let engine = builder.memory(16 << 20).build().unwrap();
    let file = engine.open(&path).unwrap();
    (dir, engine, file)
}

#[test]
fn a_miss_is_a_span_with_its_decision_and_a_hit_is_silent() {
    let (_dir, engine, file) = engine_and_file(Engine::builder());
    ASKED.set(Some(engine));
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let mut page = [0; 4096];
        file.read_at(&mut page, 0).unwrap();
        let told = lines.take();
        assert!(told[0].starts_with("span miss path="), "{told:#?}");
        assert!(told[0].ends_with("file offset=0 bytes=4096"), "{told:#?}");
        assert_eq!(told[1], "enter");
        let decided = told.iter().filter(|line| line.contains("pattern=\"initial0\"")).count();
        assert_eq!(decided, 1, "{told:#?}");
        assert!(told.iter().any(|line| line.contains("message=dispatched")), "{told:#?}");

        file.read_at(&mut page, 0).unwrap();
        assert_eq!(lines.take(), Vec::<String>::new(), "a hit");
    });
    ASKED.set(None);
}

#[test]
fn a_future_is_in_its_span_while_it_is_polled() {
    let (_dir, _engine, file) = engine_and_file(Engine::builder());
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let mut page = [0; 4096];
        let mut read = std::pin::pin!(file.read_at_async(&mut page, 8192));
        let mut context = Context::from_waker(Waker::noop());
        while read.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    });
    let told = lines.take();
    let spans = told.iter().filter(|line| line.starts_with("span miss")).count();
    assert_eq!(spans, 1, "{told:#?}");
    let count = |what| told.iter().filter(|line| *line == what).count();
    assert!(count("enter") >= 1, "{told:#?}");
    assert_eq!(count("enter"), count("exit"), "{told:#?}");
}

#[test]
fn a_trace_that_the_program_keeps_is_not_taken() {
    let (_dir, engine, file) = engine_and_file(Engine::builder().trace(1000));
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        file.read_at(&mut [0; 4096], 0).unwrap();
    });
    let told = lines.take();
    assert!(!told.iter().any(|line| line.contains("message=decided")), "{told:#?}");
    let is_decision = |kind: &EventKind| matches!(kind, EventKind::Decided { .. });
    let trace = engine.take_trace().unwrap();
    assert_eq!(trace.iter().filter(|event| is_decision(&event.what)).count(), 1);
}

#[test]
fn without_a_subscriber_no_trace_is_kept() {
    let (_dir, engine, file) = engine_and_file(Engine::builder());
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        file.read_at(&mut [0; 4096], 0).unwrap();
    });
    file.read_at(&mut [0; 4096], 512 << 10).unwrap();
    assert_eq!(engine.take_trace().unwrap(), Vec::new());
    let before = lines.take().len();
    assert!(before > 0);
}
