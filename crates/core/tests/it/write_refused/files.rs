//! Refused writes and their file: its end, its kernel cache, its slot. Other files are not
//! affected.

use super::*;

/// The driver sends the end of such a file durably each time, and its failure may hide a failed
/// flush.
#[test]
fn the_unaligned_end_of_a_file_is_durable_each_time_it_is_sent() {
    let mut bench = Bench::new(EIO, |_| false);
    let write_block = ByteCount(512);
    let geometry = Geometry { depth: 8, write_block, ..Geometry::new(ByteCount(0)) };
    let device = bench.path.add_device(geometry, &SchedulerKind::Noop);
    bench.file = bench.path.open(device, ByteCount(10 * 4096 + 100)).unwrap();
    bench.write(0, 1, WriteMode::WriteThrough);
    let (tag, page, len, is_durable) = bench.dispatch().unwrap();
    assert_eq!((page, is_durable), (0, false));
    bench.complete(tag, Ok(len));
    bench.write(10, 1, WriteMode::WriteBack);
    let mut tails = 0;
    for _ in 0..3 {
        bench.flush();
        while let Some((tag, page, len, is_durable)) = bench.dispatch() {
            assert_eq!(is_durable, page == 10);
            tails += u64::from(page == 10);
            bench.complete(tag, if page == 10 { Err(EIO) } else { Ok(len) });
        }
    }
    assert_eq!(tails, 3);
    assert_eq!(bench.path.stats().flush_failures, 3);
    assert_eq!(bench.path.stats().pages_rewritten, 3, "page 0, each time");
}

#[test]
fn a_write_without_room_is_no_failed_flush_past_the_kernels_cache() {
    for (write_block, errno, failures) in [(512, ENOSPC, 0), (1, ENOSPC, 1), (512, EIO, 1)] {
        let mut bench = Bench::new(errno, |_| false);
        let write_block = ByteCount(write_block);
        let geometry = Geometry { write_block, ..Geometry::new(ByteCount(0)) };
        let device = bench.path.add_device(geometry, &SchedulerKind::Noop);
        bench.file = bench.path.open(device, ByteCount(1 << 20)).unwrap();
        let fua = bench.write(0, 1, WriteMode::Fua);
        assert_eq!(bench.serve_until_over(fua), Some(Fault::Io(errno)));
        assert_eq!(bench.path.stats().flush_failures, failures, "{write_block} {errno}");
    }
}

/// A client that repeats a FUA write of a bad sector makes flushes fail all the time; writes of
/// others still end.
#[test]
fn a_write_beside_flushes_that_fail_all_the_time_ends() {
    let mut bench = Bench::new(EIO, |_| false);
    let good = bench.write(0, 1, WriteMode::WriteThrough);
    for _ in 0..20 {
        if bench.over.iter().any(|(id, _)| *id == good) {
            return;
        }
        bench.write(100, 1, WriteMode::Fua);
        let mut requests = Vec::new();
        while let Some(request) = bench.dispatch() {
            requests.push(request);
        }
        // The failing one is reported first: the other one may have been dropped.
        requests.sort_by_key(|request| request.1 != 100);
        for (tag, page, len, _) in requests {
            bench.complete(tag, if page == 100 { Err(EIO) } else { Ok(len) });
        }
    }
    panic!("it does not end");
}

/// The same of a flush. Whenever one of its two pages is written, a FUA write fails, and the other
/// one has to be written again.
#[test]
fn a_flush_beside_flushes_that_fail_all_the_time_ends() {
    let mut bench = Bench::new(EIO, |_| false);
    bench.write(0, 1, WriteMode::WriteBack);
    bench.write(10, 1, WriteMode::WriteBack);
    bench.write(100, 1, WriteMode::Fua);
    let (mut failing, ..) = bench.dispatch().expect("the FUA write is sent at once");
    let flush = bench.flush();
    for round in 0..20 {
        if let Some((_, fault)) = bench.over.iter().find(|(id, _)| *id == flush) {
            assert_eq!((round, *fault), (8, Some(Fault::Io(EIO))));
            return;
        }
        let (tag, page, len, _) = bench.dispatch().expect("one of the pages of the flush");
        assert!(page == 0 || page == 10, "{page} in round {round}");
        bench.complete(tag, Ok(len));
        bench.write(101 + round, 1, WriteMode::Fua);
        bench.complete(failing, Err(EIO));
        let mut sent = bench.dispatch().expect("the other page, or the FUA write");
        if !sent.3 {
            bench.complete(sent.0, Ok(sent.2));
            sent = bench.dispatch().expect("the FUA write");
        }
        failing = sent.0;
    }
    panic!("it does not end");
}

#[test]
fn a_new_file_inherits_no_loss_from_the_one_that_had_its_slot() {
    let mut bench = Bench::new(EIO, |_| false);
    let device = bench.path.add_device(Geometry::new(ByteCount(0)), &SchedulerKind::Noop);
    let old = bench.path.open(device, ByteCount(1 << 20)).unwrap();
    let now = bench.now();
    let zero = bench.path.write_zeroes(now, old, PageIndex(0)..PageIndex(1));
    assert_eq!(bench.path.poll_write().unwrap().step, WriteStep::Act);
    let now = bench.now();
    bench.path.close(now, old);
    let now = bench.now();
    bench.path.acted(now, zero, Ok(()));
    assert!(bench.path.poll_write().is_some(), "it is over");
    bench.file = bench.path.open(device, ByteCount(1 << 20)).unwrap();
    assert_eq!(IoPath::slot(old), IoPath::slot(bench.file));
    bench.write(0, 1, WriteMode::WriteThrough);
    let (tag, _, len, _) = bench.dispatch().unwrap();
    bench.complete(tag, Ok(len));
    let now = bench.now();
    let flush = bench.path.flush(now, bench.file);
    assert_eq!(bench.path.poll_write().unwrap().step, WriteStep::Act);
    let now = bench.now();
    bench.path.acted(now, flush, Err(EIO));
    assert_eq!(bench.path.lost(bench.file), None, "it lost nothing");
}
