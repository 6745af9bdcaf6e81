//! Files cut by other programs while pages of them are dirty or in flight: the remaining cache
//! contents, and the end of all operations.

use super::*;

/// The page stayed in the cache while its request was in flight, and a write of the grown file took
/// it for dirty: its bytes were moved while they were written.
#[test]
fn a_page_that_is_cut_while_it_is_written_is_forgotten_and_may_be_written_again() {
    for result in [Ok(4096), Ok(0), Err(5)] {
        let mut bench = Bench::new(1 << 20);
        bench.write(9, 1, WriteMode::WriteBack);
        let early = bench.flush();
        let (first, ..) = bench.written().unwrap();
        let now = bench.now();
        bench.path.set_len(now, bench.file, ByteCount(5_000));
        assert_eq!(bench.step(), Some((early, WriteStep::Act)), "no flush waits for it any more");
        assert!(!bench.has(9), "it is not the file's any more");
        let now = bench.now();
        bench.path.set_len(now, bench.file, ByteCount(1 << 20));
        bench.write(9, 1, WriteMode::WriteBack);
        let flush = bench.flush();
        let (second, page, _) = bench.written().unwrap();
        assert_eq!(page, 9);
        bench.complete(first, result);
        assert_eq!(bench.path.dirty_pages(bench.file), Pages(1));
        bench.complete(second, Ok(4096));
        assert_eq!(bench.step(), Some((flush, WriteStep::Act)));
        assert_eq!(bench.path.dirty(), Pages(0));
        bench.path.assert_consistent();
    }
}

/// The end of its request was not reported, and the zero waited indefinitely.
#[test]
fn a_zero_that_waits_for_a_page_which_is_cut_meanwhile_goes_on() {
    for mode in [WriteMode::WriteBack, WriteMode::Fua] {
        let mut bench = Bench::new(1 << 20);
        let write = bench.ask(9 * 4096, 4096, mode);
        assert_eq!(bench.step().map(|step| step.0), Some(write));
        bench.fill(write);
        if mode == WriteMode::WriteBack {
            bench.flush();
        }
        let (tag, ..) = bench.written().unwrap();
        let now = bench.now();
        let zero = bench.path.write_zeroes(now, bench.file, PageIndex(8)..PageIndex(12));
        let now = bench.now();
        bench.path.set_len(now, bench.file, ByteCount(5_000));
        bench.complete(tag, Ok(4096));
        let steps: Vec<_> = std::iter::from_fn(|| bench.step()).collect();
        assert!(steps.contains(&(zero, WriteStep::Act)), "{steps:?}");
        let now = bench.now();
        bench.path.acted(now, zero, Ok(()));
        bench.path.assert_consistent();
    }
}
