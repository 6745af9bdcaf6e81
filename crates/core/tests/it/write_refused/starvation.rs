//! Writers that wait for dirty budget while the flushes of another file fail all the time.
//!
//! In:    a file whose unaligned last block fails, and a client that keeps flushing it; a second
//!        file with more written pages in memory than the dirty budget holds.
//! Out:   the number of failed flushes after which a write of the second file ends.

use super::*;

/// A written file in memory, and a small file beside it whose end its device refuses.
struct TwoFiles<'t> {
    bench: Bench<'t>,
    big: FileId,
    failing: FileId,
    flushes: usize,
}

/// The last page of the small file.
const END: u64 = 10;

impl TwoFiles<'_> {
    fn new(written: u64, is_one_device: bool) -> Self {
        let mut bench = Bench::new(EIO, |_| true);
        let write_block = ByteCount(512);
        let geometry =
            Geometry { max_io: Pages(64), depth: 1, write_block, ..Geometry::new(ByteCount(0)) };
        let device = bench.path.add_device_on(Some(1), geometry, &SchedulerKind::Noop);
        let big = bench.path.open(device, ByteCount(64 << 20)).unwrap();
        let device = if is_one_device {
            device
        } else {
            bench.path.add_device_on(Some(1), geometry, &SchedulerKind::Noop)
        };
        let failing = bench.path.open(device, ByteCount(END * 4096 + 100)).unwrap();
        bench.file = big;
        for page in (0..written).step_by(50) {
            let id = bench.write(page, 50, WriteMode::WriteThrough);
            assert_eq!(bench.serve_until_over(id), None);
        }
        let mut files = Self { bench, big, failing, flushes: 0 };
        files.bench.file = failing;
        files.bench.write(END, 1, WriteMode::WriteBack);
        files
    }

    /// Flushes the small file, and serves requests until that flush has failed.
    fn flush_fails(&mut self) {
        self.bench.file = self.failing;
        let flush = self.bench.flush();
        while !self.bench.over.iter().any(|(id, _)| *id == flush) {
            self.serve().expect("a flush waits for a request");
        }
        let (_, fault) = self.bench.over.iter().find(|(id, _)| *id == flush).expect("it is over");
        assert_eq!(*fault, Some(Fault::Io(EIO)));
        self.flushes += 1;
    }

    /// Serves one request. Only the end of the small file, which is sent durably, fails.
    fn serve(&mut self) -> Option<()> {
        let (tag, page, len, is_durable) = self.bench.dispatch()?;
        assert!(!is_durable || page == END);
        self.bench.complete(tag, if is_durable { Err(EIO) } else { Ok(len) });
        Some(())
    }

    fn is_over(&self, id: WriteId) -> bool {
        self.bench.over.iter().any(|(other, _)| *other == id)
    }
}

/// Each failed flush makes the pages of all files on the disk dirty again, ahead of the writes that
/// wait for budget: these once waited as long as the client went on.
#[test]
fn writes_end_while_a_client_keeps_flushing_a_file_whose_last_block_fails() {
    // More than twice the budget is written again each time, or almost all of it. On one device the
    // failing request waits for those queued before it, on two it is served beside one of them.
    let cases = [2200, 1000].into_iter().flat_map(|written| {
        [1, 50, 400]
            .into_iter()
            .flat_map(move |pages| [(written, pages, true), (written, pages, false)])
    });
    for (written, pages, is_one_device) in cases {
        let mut files = TwoFiles::new(written, is_one_device);
        files.flush_fails();
        files.bench.file = files.big;
        let first = files.bench.write(4000, pages, WriteMode::WriteBack);
        let second = files.bench.write(8000, pages, WriteMode::WriteBack);
        while !(files.is_over(first) && files.is_over(second)) {
            assert!(files.flushes < 32, "{written} {pages} {is_one_device}: {}", files.flushes);
            files.flush_fails();
        }
        // The client gives up: all is written again, and flushes of the other file succeed.
        while files.serve().is_some() {}
        files.bench.file = files.big;
        let flush = files.bench.flush();
        assert_eq!(files.bench.serve_until_over(flush), None, "{written} {pages} {is_one_device}");
    }
}
