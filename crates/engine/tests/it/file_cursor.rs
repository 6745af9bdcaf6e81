//! The cursor with `std::io`'s traits, beside `BufReader` of the same file; `FileExt`.
//!
//! In:    random programs of calls; files that grow; pins that are used up.
//! Out:   the same bytes, positions and errors as those of std.
//! Never: a pin that is left behind.

use crate::common;
use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use foreread::{Engine, FileCursor, OpenOptions, ReadError, ReadErrorKind};
use support::{PAGE, Random, append, check, wait_until_idle, with_each_io, write_file};

const LEN: u64 = (2 << 20) + 777;

/// The two readers, which stand at the same place after each call.
struct Both {
    ours: FileCursor,
    std: BufReader<fs::File>,
    random: Random,
    /// How many of the calls below it makes: the last one writes.
    calls: u64,
}

impl Both {
    fn new(engine: &Engine, path: &Path, seed: u64) -> Self {
        let ours = engine.open(path).expect("it is there").cursor();
        let std = BufReader::new(fs::File::open(path).expect("it is there"));
        Self { ours, std, random: Random(seed << 32), calls: 10 }
    }

    /// Each has a file of its own, with the same bytes.
    fn writing(engine: &Engine, [ours, std]: &[PathBuf; 2], appends: bool, seed: u64) -> Self {
        let options = OpenOptions::new().write(true).append(appends);
        let ours = engine.open_with(ours, &options).expect("it is there").cursor();
        let std = fs::File::options().read(true).write(true).append(appends).open(std);
        let std = BufReader::new(std.expect("it is there"));
        Self { ours, std, random: Random(seed << 32), calls: 11 }
    }

    fn below(&mut self, end: u64) -> usize {
        usize::try_from(self.random.below(end)).expect("it is small")
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.random.below(256)).expect("a byte")
    }

    /// One call of those below.
    fn step(&mut self, call: u64) {
        match call {
            0 => self.lend(),
            1 => self.read(),
            2 => self.read_exact(),
            3 => self.read_until(),
            4 => self.skip_until(),
            5 => self.seek(),
            6 => self.seek_relative(),
            7 => self.read_line(),
            8 => self.take_to_end(),
            9 => self.read_bytes(),
            _ => self.write(),
        }
    }

    /// How much is lent differs; what is lent does not.
    fn lend(&mut self) {
        let share = self.below(4);
        let (ours, std) = (self.ours.fill_buf().expect("well"), self.std.fill_buf().expect("well"));
        let both = ours.len().min(std.len());
        assert!(ours[..both] == std[..both] && ours.is_empty() == std.is_empty());
        let used = both * share / 3;
        self.ours.consume(used);
        self.std.consume(used);
    }

    /// How much one call reads differs, too.
    fn read(&mut self) {
        let mut ours = vec![0; self.below(20_000)];
        let len = self.ours.read(&mut ours).expect("well");
        let mut std = vec![0; len];
        self.std.read_exact(&mut std).expect("there is as much");
        assert!(ours[..len] == std);
        if len == 0 && !ours.is_empty() {
            assert!(self.std.fill_buf().expect("well").is_empty(), "not the end");
        }
    }

    fn read_exact(&mut self) {
        let mut ours = vec![0; self.below(20_000)];
        let mut std = ours.clone();
        let (of_ours, of_std) = (self.ours.read_exact(&mut ours), self.std.read_exact(&mut std));
        assert_eq!(of_ours.as_ref().map_err(kind), of_std.as_ref().map_err(kind));
        // Where they stand after an error is not said.
        if of_std.is_err() { self.seek() } else { assert!(ours == std) }
    }

    fn read_until(&mut self) {
        let (mut ours, mut std) = (vec![1], vec![1]);
        let byte = self.byte();
        let len = self.std.read_until(byte, &mut std).expect("well");
        assert_eq!(self.ours.read_until(byte, &mut ours).expect("well"), len);
        assert!(ours == std);
    }

    fn skip_until(&mut self) {
        let byte = self.byte();
        let len = self.std.skip_until(byte).expect("well");
        assert_eq!(self.ours.skip_until(byte).expect("well"), len);
    }

    /// The bytes are mostly no UTF-8: then both say so.
    fn read_line(&mut self) {
        let (mut ours, mut std) = (String::new(), String::new());
        let (of_ours, of_std) = (self.ours.read_line(&mut ours), self.std.read_line(&mut std));
        assert_eq!(of_ours.as_ref().map_err(kind), of_std.as_ref().map_err(kind));
        assert_eq!(ours, std);
    }

    fn take_to_end(&mut self) {
        let most = self.random.below(50_000);
        let (mut ours, mut std) = (Vec::new(), Vec::new());
        (&mut self.ours).take(most).read_to_end(&mut ours).expect("well");
        self.std.by_ref().take(most).read_to_end(&mut std).expect("well");
        assert!(ours == std);
    }

    fn read_bytes(&mut self) {
        for _ in 0..self.below(40) {
            let byte = self.std.by_ref().bytes().next().transpose().expect("well");
            assert_eq!((&mut self.ours).bytes().next().transpose().expect("well"), byte);
        }
    }

    fn write(&mut self) {
        let bytes = vec![self.byte(); self.below(9000)];
        // Away with the buffer: the file itself is to stand there.
        let position = self.std.stream_position().expect("well");
        self.std.seek(SeekFrom::Start(position)).expect("well");
        self.std.get_mut().write_all(&bytes).expect("room");
        self.ours.write_all(&bytes).expect("room");
        self.ours.flush().expect("there is nothing to do");
    }

    fn seek(&mut self) {
        let near = self.random.below(20_000) as i64 - 10_000;
        let to = match self.random.below(6) {
            0 => SeekFrom::Start(self.random.below(LEN + 9000)),
            1 => SeekFrom::End(near),
            2 => SeekFrom::End(-(LEN as i64)),
            3 => SeekFrom::Start(self.random.below(LEN) / PAGE * PAGE),
            _ => SeekFrom::Current(near),
        };
        let (of_ours, of_std) = (self.ours.seek(to), self.std.seek(to));
        assert_eq!(of_ours.as_ref().map_err(kind), of_std.as_ref().map_err(kind), "{to:?}");
    }

    fn seek_relative(&mut self) {
        let near = self.random.below(6000) as i64 - 3000;
        let (of_ours, of_std) = (self.ours.seek_relative(near), self.std.seek_relative(near));
        assert_eq!(of_ours.as_ref().map_err(kind), of_std.as_ref().map_err(kind), "{near}");
    }
}

fn kind(error: &std::io::Error) -> ErrorKind {
    error.kind()
}

fn run(both: &mut Both, steps: u64) {
    for _ in 0..steps {
        let call = both.random.below(both.calls);
        both.step(call);
        let position = both.std.stream_position().expect("well");
        assert_eq!(both.ours.stream_position().expect("well"), position, "after call {call}");
    }
}

#[test]
fn random_programs_read_what_std_reads() {
    with_each_io("random_programs_read_what_std_reads", |io| {
        let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
        let path = write_file(dir.path(), 1, LEN);
        // Less memory than the file has bytes.
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().expect("an engine");
        for seed in 0..8 {
            run(&mut Both::new(&engine, &path, seed), 1000);
        }
        wait_until_idle(&engine);
    });
}

#[test]
fn random_programs_write_what_std_writes() {
    with_each_io("random_programs_write_what_std_writes", |io| {
        let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().expect("an engine");
        for seed in 0..6 {
            let paths = [2 * seed, 2 * seed + 1].map(|file| write_file(dir.path(), file, 0));
            fs::copy(write_file(dir.path(), 100, LEN), &paths[0]).expect("room");
            fs::copy(&paths[0], &paths[1]).expect("room");
            let mut both = Both::writing(&engine, &paths, seed % 3 == 2, seed);
            run(&mut both, 500);
            drop(both);
            wait_until_idle(&engine);
            let [ours, std] = paths.map(|path| fs::read(path).expect("it is there"));
            assert!(ours == std, "seed {seed}: {} and {} bytes", ours.len(), std.len());
        }
    });
}

/// The calls of a trait that both files have.
#[test]
fn code_that_is_generic_over_files_reads_and_writes_the_same() {
    fn program(file: &impl FileExt) -> (Vec<Result<usize, ErrorKind>>, Vec<u8>) {
        let mut to = vec![0; 10_000];
        let results = vec![
            file.write_at(&[5; 3000], LEN - 1000),
            file.read_at(&mut to[..5000], LEN - 2000),
            file.read_at(&mut to[5000..], LEN + 9000),
            file.read_exact_at(&mut to[..10], LEN + 1995).map(|()| 0),
            file.write_all_at(&[6; 20], 4090).map(|()| 1),
            file.read_exact_at(&mut to[..20], 4080).map(|()| 2),
        ];
        (results.into_iter().map(|result| result.map_err(|error| error.kind())).collect(), to)
    }

    let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 1, LEN);
    let other = dir.path().join("other");
    fs::copy(&path, &other).expect("room");
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let options = OpenOptions::new().write(true);
    let ours = program(&engine.open_with(&path, &options).expect("it is there"));
    let std = fs::File::options().read(true).write(true).open(&other).expect("it is there");
    assert_eq!(ours, program(&std));
    wait_until_idle(&engine);
    assert!(fs::read(path).expect("it is there") == fs::read(other).expect("it is there"));
}

#[test]
fn a_file_that_grows_goes_on_after_its_end() {
    let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 1, 5000);
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let mut both = Both::new(&engine, &path, 9);
    for _ in 0..60 {
        run(&mut both, 20);
        let len = 1 + both.random.below(10_000);
        append(&path, 1, len);
        both.seek();
    }
    drop(both);
    wait_until_idle(&engine);
}

/// Without permits each page is copied, and read the same.
#[test]
fn with_all_pins_in_use_it_reads_on() {
    let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 1, LEN);
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let file = engine.open(&path).expect("it is there");
    let mut both = Both::new(&engine, &path, 10);
    for _ in 0..20 {
        let mut pinned = Vec::new();
        // It has no page then, and gets none.
        both.seek();
        while let Ok(page) = file.pin(pinned.len() as u64 * PAGE) {
            pinned.push(page);
        }
        assert!(matches!(
            file.pin(LEN - 1),
            Err(ReadError { kind: ReadErrorKind::PinLimit { .. }, .. })
        ));
        run(&mut both, 50);
        drop(pinned);
        run(&mut both, 50);
    }
    drop(both);
    wait_until_idle(&engine);
}

#[test]
fn fill_buf_lends_the_cached_page_until_a_seek() {
    let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 1, LEN);
    let engine = Engine::builder().memory(4 << 20).build().expect("an engine");
    let options = OpenOptions::new().write(true);
    let file = engine.open_with(&path, &options).expect("it is there");
    let (mut one, mut other) = (file.cursor(), file.cursor());
    let lent = one.fill_buf().expect("well");
    assert_eq!(lent.len() as u64, PAGE);
    assert_eq!(other.fill_buf().expect("well").as_ptr(), lent.as_ptr(), "no copy");
    file.write_all_at(&[7; 10], 100).expect("the device is well");
    check(1, 0, one.fill_buf().expect("as with a buffer"));
    one.seek_relative(105).expect("it is in the page");
    check(1, 105, one.fill_buf().expect("well"));
    one.seek(SeekFrom::Start(105)).expect("to where it stands");
    assert_eq!(one.fill_buf().expect("well")[..5], [7; 5]);
    // The stream itself reads at offsets.
    let mut bytes = [0; 5];
    one.stream().read_at(&mut bytes, 100).expect("well");
    assert_eq!(bytes, [7; 5]);
    drop(one);
    other.consume(usize::MAX);
    assert_eq!(other.stream_position().expect("well"), PAGE);
    drop((other, file));
    wait_until_idle(&engine);
}
