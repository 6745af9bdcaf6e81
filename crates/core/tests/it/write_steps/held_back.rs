//! Writes that a scheduler holds back for an expected read, and callers that wait for them.

use foreread_core::geometry::Geometry;
use foreread_core::path::{WriteMode, WriteStep};
use foreread_core::sched::{Op, SchedulerKind};
use foreread_core::units::ByteCount;

use super::{Bench, done};

/// Creates a file on a device with a learnt write limit. One read has ended.
fn after_a_read() -> Bench {
    let mut bench = Bench::new(0);
    let geometry = Geometry { depth: 8, ..Geometry::new(ByteCount(0)) };
    bench.device = bench.path.add_device(geometry, &SchedulerKind::learning());
    bench.file = bench.path.open(bench.device, ByteCount(1 << 20)).unwrap();
    let (now, stream) = (bench.now(), bench.path.stream(bench.file));
    let read = bench.path.read(now, stream, ByteCount(200 << 12), ByteCount(4096), None);
    let io = bench.io().unwrap();
    assert_eq!(io.op, Op::Read);
    bench.complete(io.tag, Ok(4096));
    assert_eq!(bench.path.poll_ready().unwrap().id, read);
    let now = bench.now();
    bench.path.release(now, read);
    bench
}

/// It once waited for the 50 ms in which another read was expected, whenever the cost of reads was
/// being learnt: a database that reads a page, writes a few and flushes stalled.
#[test]
fn a_flush_does_not_wait_for_a_read_that_may_come() {
    let mut bench = after_a_read();
    for page in [1, 10, 20, 30] {
        bench.write(page, 1, WriteMode::WriteBack);
    }
    let flush = bench.flush();
    let began = bench.now;
    let mut written = 0;
    while let Some((tag, _, _)) = bench.written() {
        written += 1;
        bench.complete(tag, Ok(4096));
    }
    assert_eq!(written, 4, "no time has to pass");
    assert!(bench.now - began < 1000, "nor did it");
    assert_eq!(bench.step(), Some((flush, WriteStep::Act)));
    let now = bench.now();
    bench.path.acted(now, flush, Ok(()));
    assert_eq!(bench.step(), Some((flush, done(None))));
}

/// Writes of old pages wait; a flush of the same file dispatches them.
#[test]
fn a_flush_lets_writes_go_that_were_held_back() {
    let mut bench = after_a_read();
    bench.write(1, 1, WriteMode::WriteBack);
    bench.path.set("dirty_age", "1").unwrap();
    bench.wait(2);
    assert_eq!(bench.io(), None, "a read may come");
    bench.flush();
    assert!(bench.written().is_some(), "a caller waits");
}
