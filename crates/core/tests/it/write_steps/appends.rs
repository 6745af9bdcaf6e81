//! Appends in several pieces, and cuts of the file between two of them.

use foreread_core::path::{LenChange, WriteRange};

use super::*;

/// Returns an append of `len` bytes that has extended the file.
fn appended(bench: &mut Bench, len: u64) -> WriteId {
    let now = bench.now();
    let append = bench.path.begin_append(now, bench.file, LenChange::Append(ByteCount(len)));
    assert!(matches!(bench.step(), Some((_, WriteStep::SetLen { .. }))), "nothing is in the way");
    let now = bench.now();
    bench.path.acted(now, append, Ok(()));
    assert!(matches!(bench.step(), Some((_, WriteStep::Done { fault: None, .. }))));
    append
}

fn set_len(bench: &mut Bench, len: u64) {
    let now = bench.now();
    let id = bench.path.change_len(now, bench.file, LenChange::Exact(ByteCount(len)));
    while let Some((tag, _, pages)) = bench.written() {
        bench.complete(tag, Ok(pages * 4096));
    }
    assert_eq!(bench.step(), Some((id, WriteStep::SetLen { len: ByteCount(len) })));
    let now = bench.now();
    bench.path.acted(now, id, Ok(()));
    assert!(matches!(bench.step(), Some((_, WriteStep::Done { fault: None, .. }))));
}

/// Returns the number of bytes that a piece may write; it is filled.
fn piece(bench: &mut Bench, append: WriteId, pos: u64, len: u64) -> u64 {
    let (now, file) = (bench.now(), bench.file);
    let range = WriteRange { file, pos: ByteCount(pos), len: ByteCount(len) };
    let id = bench.path.write_appended(now, append, range, WriteMode::WriteBack, Submitter(1));
    if let Some(io) = bench.io().filter(|io| io.op == Op::Read) {
        bench.complete(io.tag, Ok(io.len.0));
    }
    let covered = match bench.step() {
        Some((_, WriteStep::Fill { len })) => len.0,
        Some((_, WriteStep::Done { len, fault: None })) => return len.0,
        other => panic!("{other:?}"),
    };
    bench.fill(id);
    assert!(matches!(bench.step(), Some((_, WriteStep::Done { fault: None, .. }))));
    covered
}

#[test]
fn a_piece_of_an_append_ends_where_the_file_was_cut_although_it_is_longer_again() {
    let mut bench = Bench::new(0);
    let append = appended(&mut bench, 16 * 4096);
    assert_eq!(piece(&mut bench, append, 0, 4096), 4096);
    set_len(&mut bench, 10_000);
    set_len(&mut bench, 16 * 4096);
    assert_eq!(piece(&mut bench, append, 4096, 4 * 4096), 10_000 - 4096);
    assert_eq!(piece(&mut bench, append, 10_000, 4096), 0, "another's by now");
    assert_eq!(piece(&mut bench, append, 12 * 4096, 4096), 0);
    let now = bench.now();
    assert_eq!(bench.path.end_append(now, bench.file, append), None, "it was cut");
    bench.write(12, 1, WriteMode::WriteBack);
}

#[test]
fn a_cut_before_the_append_or_of_another_file_is_none_of_its_own() {
    let mut bench = Bench::new(8 * 4096);
    let now = bench.now();
    let change = LenChange::Exact(ByteCount(4096));
    let cut = bench.path.change_len(now, bench.file, change);
    let now = bench.now();
    let append = bench.path.begin_append(now, bench.file, LenChange::Append(ByteCount(4 * 4096)));
    assert!(matches!(bench.step(), Some((id, WriteStep::SetLen { .. })) if id == cut));
    let now = bench.now();
    bench.path.acted(now, cut, Ok(()));
    let done = WriteStep::Done { len: ByteCount(8 * 4096), fault: None };
    assert_eq!(bench.step(), Some((cut, done)));
    let longer = WriteStep::SetLen { len: ByteCount(5 * 4096) };
    assert_eq!(bench.step(), Some((append, longer)));
    let now = bench.now();
    bench.path.acted(now, append, Ok(()));
    assert!(matches!(bench.step(), Some((_, WriteStep::Done { fault: None, .. }))));
    assert_eq!(piece(&mut bench, append, 4096, 4 * 4096), 4 * 4096);
}

/// An append changed the length while bytes of an earlier one were missing: a flush that covered it
/// left zeros below, and so did a caller that left.
#[test]
fn an_append_waits_for_the_bytes_of_the_one_before_and_follows_what_was_written_of_it() {
    let mut bench = Bench::new(0);
    let first = appended(&mut bench, 4 * 4096);
    let now = bench.now();
    let change = LenChange::Append(ByteCount(4096));
    let second = bench.path.begin_append(now, bench.file, change);
    assert_eq!(bench.step(), None, "the first one has no bytes yet");
    assert_eq!(piece(&mut bench, first, 0, 4096), 4096);
    assert_eq!(bench.step(), None, "three pages are missing");
    let now = bench.now();
    let cut = bench.path.end_append(now, bench.file, first).expect("the rest is taken back");
    assert_eq!(bench.step(), Some((cut, WriteStep::SetLen { len: ByteCount(4096) })));
    let now = bench.now();
    bench.path.acted(now, cut, Ok(()));
    assert!(matches!(bench.step(), Some((id, WriteStep::Done { fault: None, .. })) if id == cut));
    assert_eq!(bench.step(), Some((second, WriteStep::SetLen { len: ByteCount(2 * 4096) })));
    let now = bench.now();
    bench.path.acted(now, second, Ok(()));
    let done = WriteStep::Done { len: ByteCount(4096), fault: None };
    assert_eq!(bench.step(), Some((second, done)));
    assert_eq!(piece(&mut bench, second, 4096, 4096), 4096);
    let now = bench.now();
    assert_eq!(bench.path.end_append(now, bench.file, second), None, "all is written");
}
