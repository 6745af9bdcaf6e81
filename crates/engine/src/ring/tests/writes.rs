//! Writes in both kinds of ring.

use std::fs;

use super::*;
use crate::backend::FuaMethod;
use crate::volatile::VolatileDisk;

fn options() -> OpenOptions {
    OpenOptions::new().write(true)
}

impl Bench {
    /// Sets every byte of a frame.
    fn set(&self, frame: u32, byte: u8) {
        self.pool.copy_in(Frame(frame), 0, &[byte; PAGE]);
    }

    fn write(&self, ring: &mut Ring, page: u64, len: usize, durable: bool, frames: &[u32]) {
        let frames = frames.iter().copied().map(Frame);
        let start = page * PAGE as u64;
        let bytes = start..start + len as u64;
        ring.write(1, Arc::clone(&self.backend), bytes, durable, frames);
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self._dir.path().join("file")).expect("it is there")
    }
}

/// Returns direct and buffered benches, with and without a tail.
fn benches() -> impl Iterator<Item = (Bench, usize)> {
    let ways = [(false, 0), (false, 1234), (false, 512), (true, 0), (true, 1234)];
    ways.into_iter()
        .map(|(buffered, tail)| (Bench::with(&options().buffered(buffered), tail), tail))
}

#[test]
fn frames_go_to_the_pages_that_were_named_in_their_order() {
    for (bench, tail) in benches() {
        for mut ring in bench.rings("frames_go") {
            let mut want = bench.content();
            for (byte, frame) in (100..).zip([5, 6, 3, 20]) {
                bench.set(frame, byte);
                let at = (usize::from(byte) - 90) * PAGE;
                want[at..at + PAGE].fill(byte);
            }
            bench.write(&mut ring, 10, 4 * PAGE, tail > 0, &[5, 6, 3, 20]);
            assert_eq!(next(&mut ring), Completion { tag: 1, result: Ok(4 * 4096) });
            assert!(bench.content() == want, "{:?}", ring.kind());
        }
    }
}

#[test]
fn the_end_of_a_file_is_written_and_the_file_is_no_longer_than_before() {
    for (bench, tail) in benches() {
        for (mut ring, byte) in bench.rings("the_end_of_a_file").into_iter().zip(50..) {
            bench.set(1, byte);
            bench.set(2, byte);
            let mut want = bench.content();
            let (len, at) = (PAGE + tail, (PAGES as usize - 1) * PAGE);
            want[at..].fill(byte);
            bench.write(&mut ring, u64::from(PAGES) - 1, len, false, &[1, 2]);
            assert_eq!(next(&mut ring).result, Ok(u32::try_from(len).unwrap()));
            assert!(bench.content() == want, "{:?}, {tail}", ring.kind());
        }
    }
}

#[test]
fn a_write_that_is_cut_short_goes_on_and_one_that_fails_does_not_reach_the_device() {
    let faults = Arc::new(Faults::default());
    let bench = Bench::with(&options().faults(Arc::clone(&faults)), 0);
    for (mut ring, byte) in bench.rings("a_write_that_is_cut_short").into_iter().zip(200..) {
        let before = bench.content();
        for frame in 0..3 {
            bench.set(frame, byte);
        }
        let mut fails = |mishap, times, want| {
            faults.clear();
            faults.inject_writes(4..7, times, mishap);
            bench.write(&mut ring, 4, 3 * PAGE, false, &[0, 1, 2]);
            assert_eq!(next(&mut ring).result, want, "{mishap}");
        };
        fails(Mishap::Errno(libc::EIO), 0..1, Err(libc::EIO));
        fails(Mishap::Errno(libc::EAGAIN), 0..99, Err(libc::EAGAIN));
        assert!(bench.content() == before, "nothing was written");
        // Twice 5000 bytes less, rounded down to a whole sector.
        fails(Mishap::Short(5000), 0..99, Ok(7168));
        assert!(bench.content()[6 * PAGE..] == before[6 * PAGE..], "nor was its last page");
        fails(Mishap::Short(5000), 0..1, Ok(3 * 4096));
        fails(Mishap::Errno(libc::EAGAIN), 0..9, Ok(3 * 4096));
        let mut want = before;
        want[4 * PAGE..7 * PAGE].fill(byte);
        assert!(bench.content() == want);
    }
}

/// Regression: FUA writes to a file system that ignores `RWF_DSYNC` were acknowledged but not
/// durable.
#[test]
fn where_the_flag_may_be_ignored_a_durable_write_ends_with_a_flush() {
    let last = u64::from(PAGES) - 1;
    for (tail, buffered) in [(0, false), (1234, false), (1234, true)] {
        let faults = Arc::new(Faults::default());
        let options = options().buffered(buffered).faults(Arc::clone(&faults));
        let mut bench = Bench::with(&options, tail);
        let backend = Arc::get_mut(&mut bench.backend).expect("there is no other handle yet");
        backend.fua_method = FuaMethod::WriteThenFlush;
        for mut ring in bench.rings("where_the_flag_may_be_ignored") {
            let mut write = |page, len, durable| {
                bench.write(&mut ring, page, len, durable, &[1, 2][..len.div_ceil(PAGE)]);
                next(&mut ring).result
            };
            // A full disk would look like a refused write, which does not fail a flush.
            for (errno, want) in [(libc::EIO, libc::EIO), (libc::ENOSPC, libc::EIO)] {
                faults.clear();
                faults.inject_syncs(0..1, Mishap::Errno(errno));
                assert_eq!(write(3, PAGE, false), Ok(4096), "no flush, none that fails");
                assert_eq!(write(3, 2 * PAGE, true), Err(want), "{errno}");
                assert_eq!(write(3, 2 * PAGE, true), Ok(8192), "the next flush is a good one");
            }
            faults.clear();
            faults.inject_syncs(0..1, Mishap::Errno(libc::EIO));
            let end = write(last, PAGE + tail, true);
            assert_eq!(end, Err(libc::EIO), "the end of a file, {tail} bytes in its last page");
            faults.inject_syncs(0..9, Mishap::Errno(libc::EAGAIN));
            assert_eq!(write(last, PAGE + tail, true), Ok(u32::try_from(PAGE + tail).unwrap()));
        }
    }
}

#[test]
fn a_write_can_be_held_back_and_a_ring_ends_with_it() {
    let faults = Arc::new(Faults::default());
    let bench = Bench::with(&options().faults(Arc::clone(&faults)), 0);
    faults.inject_writes(0..9, 0..u32::MAX, Mishap::Hold);
    for (mut ring, held) in bench.rings("a_write_can_be_held_back").into_iter().zip(1..) {
        bench.write(&mut ring, 3, PAGE, true, &[0]);
        ring.submit().expect("there is room");
        faults.wait_held(held);
        assert_eq!(ring.completion(), None);
    }
}

#[test]
fn a_volatile_device_is_read_and_written_by_threads() {
    let device = VolatileDisk::new(vec![9; 8 * PAGE]);
    let volatile = Some(Arc::clone(&device));
    let bench = Bench::with(&options().volatile(volatile), 0);
    let mut ring = Ring::with(Arc::clone(&bench.pool), IoBackend::Threads).expect("threads");
    bench.set(1, 1);
    bench.set(2, 2);
    bench.write(&mut ring, 6, 2 * PAGE, false, &[1, 2]);
    assert_eq!(next(&mut ring).result, Ok(2 * 4096));
    bench.read(&mut ring, 2, 5, &[10, 11, 12, 13]);
    assert_eq!(next(&mut ring).result, Ok(3 * 4096));
    for (frame, byte) in [(10, 9), (11, 1), (12, 2)] {
        assert_eq!(bench.page_in(frame), [byte; PAGE]);
    }
    assert_eq!(device.sectors_written(), 16);
}

/// With io_uring, threads make the durable ones, and ring a bell for the sleeper.
#[test]
fn durable_writes_beside_others_in_a_full_ring_all_complete() {
    let bench = Bench::with(&options(), 0);
    for (mut ring, byte) in bench.rings("durable_writes_beside_others").into_iter().zip(60..) {
        bench.set(1, byte);
        for (durable_of, pages) in [(1, 5), (2, 40), (3, 40)] {
            let mut tag = 0;
            while ring.has_room() {
                let start = tag % pages * PAGE as u64;
                let (backend, frames) = (Arc::clone(&bench.backend), [Frame(1)].into_iter());
                let bytes = start..start + PAGE as u64;
                ring.write(tag, backend, bytes, tag % durable_of == 0, frames);
                tag += 1;
            }
            ring.wake();
            let mut seen: Vec<u64> = (0..tag).map(|_| next(&mut ring).tag).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..254), "{:?}", ring.kind());
            assert_eq!((ring.completion(), ring.in_flight()), (None, 0));
            let written = usize::try_from(pages).unwrap() * PAGE;
            assert!(bench.content()[..written].iter().all(|&now| now == byte));
        }
    }
}
