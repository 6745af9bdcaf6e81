//! Changes of a file's length while pages are dirty and operations wait: their order, and the
//! remaining cache contents. The test plays the file system.

use foreread_core::path::{LenChange, ReadId};

use super::*;

const EFBIG: Option<Fault> = Some(Fault::Io(27));

impl Bench {
    fn change(&mut self, change: LenChange) -> WriteId {
        let now = self.now();
        self.path.change_len(now, self.file, change)
    }

    fn acted(&mut self, id: WriteId, result: Result<(), i32>) {
        let now = self.now();
        self.path.acted(now, id, result);
    }

    /// Begins to read everything from there on; returns the request sent for it, if any.
    fn read_all(&mut self, pos: u64) -> (ReadId, Option<Tag>) {
        let now = self.now();
        let (len, stream) = (ByteCount(1 << 20), self.path.stream(self.file));
        let id = self.path.read(now, stream, ByteCount(pos), len, None);
        (id, self.io().map(|io| io.tag))
    }

    fn steps(&mut self) -> Vec<(WriteId, WriteStep)> {
        std::iter::from_fn(|| self.step()).collect()
    }
}

fn exact(len: u64) -> LenChange {
    LenChange::Exact(ByteCount(len))
}

fn set_len(len: u64) -> WriteStep {
    WriteStep::SetLen { len: ByteCount(len) }
}

fn was(len: u64) -> WriteStep {
    WriteStep::Done { len: ByteCount(len), fault: None }
}

#[test]
fn appends_go_one_after_the_other_and_each_is_told_where_it_begins() {
    let mut bench = Bench::new(100);
    let ids = [50, 5000, 0].map(|len| bench.change(LenChange::Append(ByteCount(len))));
    assert_eq!(bench.steps(), [(ids[0], set_len(150))]);
    bench.acted(ids[0], Ok(()));
    assert_eq!(bench.steps(), [(ids[0], was(100)), (ids[1], set_len(5150))]);
    bench.acted(ids[1], Err(28));
    let failed = done(Some(Fault::Io(28)));
    assert_eq!(bench.steps(), [(ids[1], failed), (ids[2], was(150))], "all is as it was");
    let (least, most) = (LenChange::AtLeast(ByteCount(9)), LenChange::Append(ByteCount(u64::MAX)));
    let (least, most) = (bench.change(least), bench.change(most));
    assert_eq!(bench.steps(), [(least, was(150)), (most, done(EFBIG))]);
}

/// The old and the new length are known once all earlier changes are over.
#[test]
fn a_change_begins_where_the_ones_before_it_may_end() {
    let mut bench = Bench::new(1 << 20);
    let cut = bench.change(exact(5_000));
    let more = bench.change(LenChange::AtLeast(ByteCount(8_000)));
    let write = bench.ask(4096, 4096, WriteMode::WriteBack);
    assert_eq!(bench.steps(), [(cut, set_len(5_000))]);
    bench.acted(cut, Ok(()));
    assert_eq!(bench.steps(), [(cut, was(1 << 20)), (more, set_len(8_000))]);
    bench.acted(more, Ok(()));
    let fill = WriteStep::Fill { len: ByteCount(8_000 - 4096) };
    assert_eq!(bench.steps(), [(more, was(5_000)), (write, fill)], "cut at the end that is now");
}

#[test]
fn writes_behind_a_new_end_do_nothing_and_those_across_it_are_cut() {
    let mut bench = Bench::new(1 << 20);
    let cut = bench.change(exact(3 * 4096));
    let behind = bench.ask(5 * 4096, 4096, WriteMode::WriteBack);
    let across = bench.ask(2 * 4096, 4 * 4096, WriteMode::WriteBack);
    let zero = {
        let now = bench.now();
        bench.path.write_zeroes(now, bench.file, PageIndex(4)..PageIndex(9))
    };
    let before = bench.ask(0, 4096, WriteMode::WriteBack);
    let fill = |len| WriteStep::Fill { len: ByteCount(len) };
    let steps = bench.steps();
    assert!(steps.contains(&(cut, set_len(3 * 4096))), "{steps:?}");
    bench.acted(cut, Ok(()));
    let steps = [steps, bench.steps()].concat();
    for step in [(behind, was(0)), (across, fill(4096)), (zero, was(0)), (before, fill(4096))] {
        assert!(steps.contains(&step), "{step:?} of {steps:?}");
    }
    bench.path.assert_consistent();
}

#[test]
fn a_cut_waits_for_device_writes_behind_its_end_and_writes_the_page_there_first() {
    let mut bench = Bench::new(1 << 20);
    bench.write(9, 1, WriteMode::WriteBack);
    let flush = bench.flush();
    let (at_device, ..) = bench.written().unwrap();
    bench.write(1, 1, WriteMode::WriteBack);
    bench.write(5, 1, WriteMode::WriteBack);
    let cut = bench.change(exact(5_000));
    let (boundary, page, pages) = bench.written().unwrap();
    assert_eq!((page, pages), (1, 1), "the page at the new end");
    bench.wait(60_000);
    assert_eq!((bench.io(), bench.step()), (None, None), "page 5 is old, and is kept");
    bench.complete(boundary, Ok(4096));
    assert_eq!(bench.step(), None, "page 9 is being written");
    bench.complete(at_device, Ok(4096));
    let steps = bench.steps();
    assert!(steps.contains(&(cut, set_len(5_000))) && steps.contains(&(flush, WriteStep::Act)));
    assert!(!bench.has(1), "it has bytes behind the new end");
    assert!(bench.has(5), "reads see it until the file is cut");
    bench.acted(cut, Ok(()));
    assert_eq!(bench.steps(), [(cut, was(1 << 20))]);
    assert_eq!((bench.path.dirty(), bench.has(5), bench.has(9)), (Pages(0), false, false));
    bench.path.assert_consistent();
}

#[test]
fn a_cut_whose_last_page_cannot_be_written_fails_and_nothing_has_changed() {
    let mut bench = Bench::new(1 << 20);
    bench.write(1, 1, WriteMode::WriteBack);
    bench.write(5, 1, WriteMode::WriteBack);
    let cut = bench.change(exact(5_000));
    let (tag, ..) = bench.written().unwrap();
    bench.complete(tag, Err(5));
    assert_eq!(bench.steps(), [(cut, done(EIO))]);
    assert_eq!(bench.path.dirty_pages(bench.file), Pages(2));
    let flush = bench.flush();
    while let Some((tag, _, pages)) = bench.written() {
        bench.complete(tag, Ok(pages * 4096));
    }
    assert_eq!(bench.steps(), [(flush, WriteStep::Act)]);
    assert!(bench.has(1) && bench.has(5));
    bench.path.assert_consistent();
}

#[test]
fn a_cut_that_fails_or_is_not_done_leaves_what_is_dirty() {
    for is_told in [true, false] {
        let mut bench = Bench::new(1 << 20);
        bench.write(5, 1, WriteMode::WriteBack);
        let cut = bench.change(exact(4096));
        assert_eq!(bench.steps(), [(cut, set_len(4096))]);
        let flush = bench.flush();
        assert_eq!((bench.step(), bench.io()), (None, None), "it is held, and waited for");
        let now = bench.now();
        if is_told {
            bench.path.not_acted(now, cut, 110);
        } else {
            bench.path.acted(now, cut, Err(110));
        }
        assert_eq!(bench.steps(), [(cut, done(Some(Fault::Io(110))))]);
        let (tag, page, _) = bench.written().unwrap();
        assert_eq!(page, 5);
        bench.complete(tag, Ok(4096));
        assert_eq!(bench.steps(), [(flush, WriteStep::Act)]);
    }
}

#[test]
fn a_fua_write_behind_the_new_end_is_durable_before_the_file_is_cut() {
    let mut bench = Bench::new(1 << 20);
    let fua = bench.ask(5 * 4096, 4096, WriteMode::Fua);
    bench.step();
    bench.fill(fua);
    let cut = bench.change(exact(0));
    assert_eq!(bench.step(), None);
    let io = bench.io().unwrap();
    assert!(io.fua);
    bench.complete(io.tag, Ok(4096));
    let steps = bench.steps();
    assert!(steps.contains(&(fua, wrote(1))) && steps.contains(&(cut, set_len(0))), "{steps:?}");
}

#[test]
fn the_page_at_the_end_stays_when_the_file_grows() {
    let mut bench = Bench::new(5_000);
    bench.ask(4096, 904, WriteMode::WriteBack);
    let (id, _) = bench.step().unwrap();
    bench.fill(id);
    bench.step();
    let grow = bench.change(LenChange::Append(ByteCount(100)));
    assert_eq!(bench.steps(), [(grow, set_len(5_100))]);
    bench.acted(grow, Ok(()));
    assert!(bench.has(1), "only its frame has the bytes");
    let more = bench.ask(5_000, 50, WriteMode::WriteBack);
    assert_eq!(bench.steps()[1], (more, WriteStep::Fill { len: ByteCount(50) }));
    assert_eq!(bench.path.fills(more)[0].old_len, 5_100 - 4096, "what is behind is not copied");
    bench.fill(more);
    bench.flush();
    let io = bench.io().unwrap();
    assert_eq!((io.offset.0, io.len.0), (4096, 5_100 - 4096));
    bench.complete(io.tag, Ok(io.len.0));
    let grow = bench.change(LenChange::Append(ByteCount(100)));
    bench.acted(grow, Ok(()));
    assert!(bench.has(1), "its frame has zeros behind the old end, as the device has");
    let now = bench.now();
    bench.path.set_len(now, bench.file, ByteCount(5_300));
    assert!(!bench.has(1), "what another program added is only on the device");
}

/// It was sent before the file was cut, and the device had fewer bytes when it got there. To the
/// caller the file is shorter, and the device has not failed.
#[test]
fn a_read_that_is_under_way_when_its_file_is_cut_ends_at_the_new_end() {
    for (is_acted_first, pos, want, pages) in
        [(true, 0, 5_000, 2), (false, 0, 5_000, 2), (true, 6_000, 0, 0), (false, 6_000, 0, 0)]
    {
        let mut bench = Bench::new(4 * 4096);
        let (early, tag) = bench.read_all(pos);
        let cut = bench.change(exact(5_000));
        assert_eq!(bench.steps(), [(cut, set_len(5_000))]);
        // One that begins while the driver cuts the file.
        let (late, again) = bench.read_all(pos);
        if is_acted_first {
            bench.acted(cut, Ok(()));
        }
        let got = 5_000_u64.saturating_sub(pos / 4096 * 4096);
        bench.complete(tag.unwrap(), Ok(got));
        again.into_iter().for_each(|tag| bench.complete(tag, Ok(got)));
        while let Some(io) = bench.io() {
            // A page of a request that failed is read once more, alone.
            bench.complete(io.tag, Ok(5_000_u64.saturating_sub(io.offset.0).min(io.len.0)));
        }
        if !is_acted_first {
            bench.acted(cut, Ok(()));
        }
        for id in [early, late] {
            let ready = bench.path.poll_ready().unwrap();
            assert_eq!((ready.len.0, ready.fault), (want, None), "{id:?} at {pos}");
            assert_eq!(bench.path.frames(ready.id).len(), pages);
            let now = bench.now();
            bench.path.release(now, ready.id);
        }
        bench.path.assert_consistent();
    }
}

/// It found the zeros of the growth instead of the bytes written before, which were still in
/// memory.
#[test]
fn a_read_that_outlives_a_cut_and_a_growth_ends_where_the_file_was_cut() {
    let mut bench = Bench::new(4 * 4096);
    let (_, tag) = bench.read_all(0);
    for len in [5_000, 4 * 4096] {
        let change = bench.change(exact(len));
        bench.acted(change, Ok(()));
    }
    bench.complete(tag.unwrap(), Ok(4 * 4096));
    let ready = bench.path.poll_ready().unwrap();
    assert_eq!((ready.len.0, ready.fault), (5_000, None));
    assert_eq!(bench.path.frames(ready.id).len(), 2);
}

/// The file never was shorter than the requested range: its device has failed.
#[test]
fn a_read_before_the_new_end_that_comes_short_fails() {
    let mut bench = Bench::new(4 * 4096);
    let (_, tag) = bench.read_all(0);
    let cut = bench.change(exact(5_000));
    bench.acted(cut, Ok(()));
    bench.complete(tag.unwrap(), Ok(4_000));
    while let Some(io) = bench.io() {
        bench.complete(io.tag, Ok(io.len.0.min(900)));
    }
    assert_eq!(bench.path.poll_ready().unwrap().fault, Some(Fault::Short));
}

/// Another program has cut the file, and the read was sent before.
#[test]
fn a_read_of_a_file_that_another_program_has_cut_ends_at_its_end() {
    let mut bench = Bench::new(4 * 4096);
    let (_, tag) = bench.read_all(0);
    let now = bench.now();
    bench.path.set_len(now, bench.file, ByteCount(100));
    bench.complete(tag.unwrap(), Ok(100));
    while let Some(io) = bench.io() {
        bench.complete(io.tag, Ok(100_u64.saturating_sub(io.offset.0)));
    }
    let ready = bench.path.poll_ready().unwrap();
    assert_eq!((ready.len.0, ready.fault), (100, None));
}

/// By then the pages behind belong to another write.
#[test]
fn a_zero_that_waited_for_a_cut_acts_on_what_is_left() {
    let mut bench = Bench::new(10 * 4096);
    let cut = bench.change(exact(5_000));
    let zero = {
        let now = bench.now();
        bench.path.write_zeroes(now, bench.file, PageIndex(0)..PageIndex(9))
    };
    let more = bench.change(LenChange::Append(ByteCount(50_000)));
    bench.acted(cut, Ok(()));
    let steps = bench.steps();
    assert_eq!(steps.last(), Some(&(zero, WriteStep::Act)), "{more:?} waits for it: {steps:?}");
    assert_eq!(bench.path.act_range(zero), ByteCount(0)..ByteCount(5_000));
    bench.acted(zero, Ok(()));
    assert_eq!(bench.steps(), [(zero, was(8192)), (more, set_len(55_000))]);
}

#[test]
fn a_change_ends_with_its_file_and_with_its_caller() {
    let mut bench = Bench::new(1 << 20);
    bench.write(1, 1, WriteMode::WriteBack);
    let acts = bench.change(LenChange::Append(ByteCount(1)));
    assert_eq!(bench.steps(), [(acts, set_len((1 << 20) + 1))]);
    let cut = bench.change(exact(5_000));
    let left = bench.change(exact(6_000));
    let now = bench.now();
    bench.path.cancel_write(now, left);
    assert_eq!(bench.steps(), [(left, done(Some(Fault::Short)))]);
    let now = bench.now();
    bench.path.cancel_write(now, acts);
    assert_eq!(bench.steps(), [], "the driver acts already");
    let now = bench.now();
    bench.path.close(now, bench.file);
    assert_eq!(bench.steps(), [(cut, done(Some(Fault::Short)))]);
    bench.acted(acts, Ok(()));
    assert_eq!(bench.steps(), [(acts, was(1 << 20))]);
    assert_eq!(bench.path.idle_frames(), u64::from(bench.path.frame_count()));
    bench.path.assert_consistent();
}

#[test]
fn a_change_that_waits_for_a_device_ends_with_its_file_and_the_device_may_be_removed() {
    let mut bench = Bench::new(1 << 20);
    bench.write(1, 1, WriteMode::WriteBack);
    bench.write(5, 1, WriteMode::WriteBack);
    let cut = bench.change(exact(5_000));
    let io = bench.io().unwrap();
    let now = bench.now();
    bench.path.close(now, bench.file);
    assert_eq!(bench.steps(), [(cut, done(Some(Fault::Short)))]);
    bench.path.remove_device(now, io.device);
    bench.complete(io.tag, Err(5));
    assert_eq!(bench.path.dirty(), Pages(0));
    assert_eq!(bench.path.idle_frames(), u64::from(bench.path.frame_count()));
}

/// The device may have lost it, and rewriting pages cannot restore it.
#[test]
fn a_flush_that_fails_after_a_change_of_length_says_that_it_may_be_lost() {
    let mut bench = Bench::new(100);
    let grow = bench.change(exact(200));
    bench.acted(grow, Ok(()));
    let flush = bench.flush();
    bench.steps();
    bench.acted(flush, Err(5));
    assert_eq!(bench.steps(), [(flush, done(Some(Fault::Lost(5))))]);
    bench.path.accept_lost(bench.file);
    let flush = bench.flush();
    bench.steps();
    bench.acted(flush, Ok(()));
    assert_eq!(bench.steps(), [(flush, done(None))]);
}

/// The file was closed, and its device removed, while the driver still cuts it.
#[test]
fn a_change_that_acts_outlives_its_file_and_its_device() {
    for result in [Ok(()), Err(5)] {
        let mut bench = Bench::new(1 << 20);
        bench.write(5, 1, WriteMode::WriteBack);
        let (read, tag) = bench.read_all(0);
        let cut = bench.change(exact(5_000));
        assert_eq!(bench.steps(), [(cut, set_len(5_000))]);
        let now = bench.now();
        bench.path.close(now, bench.file);
        bench.path.remove_device(now, bench.device);
        bench.complete(tag.unwrap(), Ok(5_000));
        assert_eq!(bench.io(), None, "the device was removed");
        assert_eq!(bench.path.poll_ready().map(|ready| ready.id), Some(read));
        bench.path.release(now, read);
        bench.acted(cut, result);
        assert_eq!(bench.steps().len(), 1);
        assert_eq!(bench.path.idle_frames(), u64::from(bench.path.frame_count()));
        bench.path.assert_consistent();
    }
}
