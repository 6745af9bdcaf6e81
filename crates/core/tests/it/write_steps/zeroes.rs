//! Ranges of zeroes over dirty pages: the order of operations, and the remaining cache contents.

use super::*;

#[test]
fn a_zero_waits_for_device_writes_there_and_writes_there_wait_for_it() {
    let mut bench = Bench::new(1 << 20);
    bench.write(0, 1, WriteMode::WriteBack);
    let flush = bench.flush();
    let (tag, ..) = bench.written().unwrap();
    bench.write(1, 1, WriteMode::WriteBack);
    let now = bench.now();
    let zero = bench.path.write_zeroes(now, bench.file, PageIndex(0)..PageIndex(4));
    assert_eq!(bench.step(), None, "page 0 is being written");
    let waits = bench.ask(0, 4096, WriteMode::WriteBack);
    bench.wait(60_000);
    assert_eq!(bench.io(), None, "page 1 is old, and not written under a zero");
    bench.complete(tag, Ok(4096));
    let steps = [bench.step().unwrap(), bench.step().unwrap()];
    assert!(steps.contains(&(zero, WriteStep::Act)));
    assert!(steps.contains(&(flush, WriteStep::Act)));
    assert_eq!(bench.path.dirty_pages(bench.file), Pages(1), "page 1, until it is done");
    let now = bench.now();
    bench.path.acted(now, zero, Ok(()));
    assert_eq!(bench.path.dirty_pages(bench.file), Pages(0));
    let steps = [bench.step().unwrap(), bench.step().unwrap()];
    assert!(steps.contains(&(zero, wrote(4))));
    assert!(steps.contains(&(waits, WriteStep::Fill { len: ByteCount(4096) })));
}

#[test]
fn a_zero_that_fails_leaves_what_is_dirty_and_flushes_waited_for_it() {
    let mut bench = Bench::new(1 << 20);
    bench.write(1, 1, WriteMode::WriteBack);
    let now = bench.now();
    let zero = bench.path.write_zeroes(now, bench.file, PageIndex(0)..PageIndex(4));
    assert_eq!(bench.step(), Some((zero, WriteStep::Act)));
    let flush = bench.flush();
    assert_eq!((bench.step(), bench.io()), (None, None));
    let now = bench.now();
    bench.path.acted(now, zero, Err(95));
    assert_eq!(bench.step(), Some((zero, done(Some(Fault::Io(95))))));
    let (tag, first, _) = bench.written().unwrap();
    assert_eq!(first, 1);
    bench.complete(tag, Ok(4096));
    assert_eq!(bench.step(), Some((flush, WriteStep::Act)));
}

/// Part of it may have been done: clean pages no longer match the device.
#[test]
fn a_zero_that_fails_leaves_nothing_clean_behind() {
    let mut bench = Bench::new(1 << 20);
    let through = bench.write(0, 1, WriteMode::WriteThrough);
    let (tag, ..) = bench.written().unwrap();
    bench.complete(tag, Ok(4096));
    assert_eq!(bench.step(), Some((through, wrote(1))));
    bench.write(1, 1, WriteMode::WriteBack);
    assert!(bench.has(0) && bench.has(1));
    let now = bench.now();
    let zero = bench.path.write_zeroes(now, bench.file, PageIndex(0)..PageIndex(4));
    assert!(bench.has(0) && bench.has(1), "reads see them until it is over");
    let now = bench.now();
    bench.path.acted(now, zero, Err(5));
    assert!(!bench.has(0), "the device is asked again");
    assert!(bench.has(1), "only the cache has it");
}
