//! Files that are opened more than once, or that the program has opened itself: one file with one
//! set of pages, in one engine of the process.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::{
    Engine, FileExtent, IoBackend, OpenError, OpenErrorKind, OpenOptions, WriteError,
    WriteErrorKind, WriteMode,
};
use recorded::{Recorded, recorded};
use support::with_each_io;
use tempfile::TempDir;

fn engine(io: IoBackend) -> Recorded {
    recorded(Engine::builder().memory(1 << 20).io_backend(io))
}

fn folder() -> TempDir {
    TempDir::new_in(common::scratch()).expect("a directory")
}

fn for_writing() -> OpenOptions {
    OpenOptions::new().write(true)
}

#[test]
fn a_file_that_is_read_and_then_opened_for_writing_is_one_file() {
    with_each_io("a_file_that_is_read_and_then_opened_for_writing", |io| {
        for buffered in [false, true] {
            let (dir, engine) = (folder(), engine(io));
            let path = dir.path().join("file");
            fs::write(&path, vec![1; 300_000]).expect("a file");
            let reader = engine.open_with(&path, &OpenOptions::new().buffered(buffered));
            let reader = reader.expect("it is there");
            let (stream, mut got) = (reader.stream(), vec![0; 400_000]);
            assert_eq!(stream.read_at(&mut got, 0).expect("bytes"), 300_000);
            // The length is the file's, not the one that the reader knew.
            support::append(&path, 0, 100);

            let writer = engine.open_with(&path, &for_writing().buffered(buffered));
            let writer = writer.expect("it is the same file");
            assert!(writer.is_writable() && !reader.is_writable());
            assert_eq!((writer.len(), reader.len()), (300_100, 300_100));
            writer.write_all_at(&[2; 5], 100_000).expect("room");
            writer.write_all_at_with(&[3; 5], 200_000, WriteMode::Fua).expect("room");
            assert_eq!(writer.append(&[4; 5000]).expect("room"), 300_100);
            assert_eq!(stream.read_at(&mut got, 0).expect("bytes"), 305_100);
            assert_eq!(got[100_000..100_006], [2, 2, 2, 2, 2, 1]);
            assert_eq!(got[305_000..305_100], [4; 100]);
            writer.set_len(250_001).expect("room");
            assert_eq!(reader.read_at(&mut got, 0).expect("bytes"), 250_001);
            assert!(matches!(
                reader.write_all_at(&[1], 0),
                Err(WriteError { kind: WriteErrorKind::ReadOnly, .. })
            ));
            writer.sync_all().expect("room");
            assert!(fs::read(&path).expect("it is there") == got[..250_001]);
            drop(writer);
            let again = engine.open_with(&path, &for_writing().buffered(buffered));
            again.expect("it is still the same").write_all_at(&[5], 0).expect("room");
            assert_eq!(reader.read_at(&mut got[..1], 0).expect("a byte"), 1);
            assert_eq!(got[0], 5);
        }
    });
}

/// Threads read while the file becomes writable, and others write at once.
#[test]
fn it_becomes_writable_while_it_is_read_and_by_several_threads_at_once() {
    with_each_io("it_becomes_writable_while_it_is_read", |io| {
        for _ in 0..20 {
            let (dir, engine) = (folder(), engine(io));
            let path = dir.path().join("file");
            fs::write(&path, vec![1; 600_000]).expect("a file");
            let reader = engine.open(&path).expect("it is there");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut got = vec![0; 600_000];
                    assert_eq!(reader.read_at(&mut got, 0).expect("bytes"), 600_000);
                    assert!(got.iter().all(|&byte| byte == 1 || byte == 2));
                });
                for thread in 0..4 {
                    let (engine, path) = (&engine, &path);
                    scope.spawn(move || {
                        let file = engine.open_with(path, &for_writing()).expect("the same");
                        file.write_all_at(&[2; 1000], thread * 150_000).expect("room");
                    });
                }
            });
            let want = |at: usize| if at % 150_000 < 1000 { 2 } else { 1 };
            let mut got = vec![0; 600_000];
            reader.read_at(&mut got, 0).expect("bytes");
            assert!((0..600_000).all(|at| got[at] == want(at)));
            assert!(fs::read(&path).expect("each writer has written back") == got);
        }
    });
}

#[test]
fn bytes_open_in_another_way_cannot_be_opened_for_writing() {
    let (dir, engine) = (folder(), engine(IoBackend::Threads));
    let path = dir.path().join("image");
    fs::write(&path, vec![1; 65_536]).expect("a file");
    let image = engine.open(&path).expect("it is there");
    let extent = FileExtent { start: 0, len: 4096, place: Some(8192) };
    let inner = image.open_extents(7, 4096, [extent]).expect("it lies there");
    let refused = engine.open_with(&path, &for_writing()).map(drop).expect_err("beside its pages");
    assert!(matches!(refused, OpenError { kind: OpenErrorKind::Overlap, .. }), "{refused}");
    drop(inner);
    let writer = engine.open_with(&path, &for_writing()).expect("it is closed");
    let beside = image.open_extents(7, 4096, [extent]).map(drop).expect_err("it is written");
    assert!(matches!(beside, OpenError { kind: OpenErrorKind::Overlap, .. }), "{beside}");
    drop(writer);
}

#[test]
fn two_engines_of_a_process_do_not_write_one_file() {
    let dir = folder();
    let path = dir.path().join("file");
    let [first, second] = [IoBackend::Threads, IoBackend::Threads].map(engine);
    let writer = first.create(&path).expect("it is made");
    writer.append(b"bytes").expect("room");
    writer.sync_data().expect("room");
    let is_refused = |options: &OpenOptions| {
        let error = second.open_with(&path, options).map(drop).expect_err("the first one writes");
        assert!(matches!(error, OpenError { kind: OpenErrorKind::AnotherEngine, .. }), "{error}");
        let line = error.to_string();
        assert!(line.contains("close the file there") && line.contains("clones"), "{line}");
    };
    is_refused(&for_writing());
    is_refused(&for_writing().create(true).truncate(true));
    is_refused(&OpenOptions::new().append(true));
    let reader = second.open(&path).expect("to read is another matter");
    is_refused(&for_writing());
    assert_eq!(reader.read_at(&mut [0; 10], 0).expect("bytes"), 5, "it was not cut");
    first.clone().open_with(&path, &for_writing()).expect("clones are one engine");
    drop(writer);
    let writer = second.open_with(&path, &for_writing()).expect("the first one has closed it");
    assert!(matches!(
        first.create(&path),
        Err(OpenError { kind: OpenErrorKind::AnotherEngine, .. })
    ));
    let link = dir.path().join("link");
    fs::hard_link(&path, &link).expect("a link");
    assert!(
        matches!(first.create(&link), Err(OpenError { kind: OpenErrorKind::AnotherEngine, .. })),
        "by any name"
    );
    drop((writer, reader));
    first.create(&path).expect("it is closed");
}

#[test]
fn a_file_that_the_program_has_opened_is_opened_by_its_descriptor() {
    with_each_io("a_file_that_the_program_has_opened", |io| {
        let (dir, engine) = (folder(), engine(io));
        let path = dir.path().join("file");
        fs::write(&path, [1; 5000]).expect("a file");
        let mut own = fs::File::options().read(true).append(true).open(&path).expect("it is there");
        own.write_all(&[2; 10]).expect("room");
        let file = engine.open_file(own, &for_writing()).expect("it may be written");
        // Without O_APPEND, by which Linux ignores offsets.
        file.write_all_at(&[3], 7).expect("room");
        assert_eq!(file.append(&[4; 5]).expect("room"), 5010);
        let by_name = engine.open(&path).expect("it is the same file");
        let mut got = [0; 5015];
        assert_eq!(by_name.read_at(&mut got, 0).expect("bytes"), 5015);
        assert_eq!((got[7], got[5009], got[5014]), (3, 2, 4));
        drop((file, by_name));
        assert_eq!(fs::read(&path).expect("it is there"), got);

        // A file without a name.
        let own = fs::File::options().read(true).write(true).open(&path).expect("it is there");
        fs::remove_file(&path).expect("it was there");
        let file = engine.open_file(own, &for_writing().truncate(true)).expect("it is open");
        assert_eq!(file.len(), 0);
        file.append(&got).expect("room");
        file.sync_data().expect("room");
        assert_eq!(file.read_at(&mut [0; 6000], 0).expect("bytes"), 5015);
        assert!(!path.exists());
    });
}

#[test]
fn a_descriptor_without_the_right_mode_is_refused() {
    let (dir, engine) = (folder(), engine(IoBackend::Threads));
    let path = dir.path().join("file");
    fs::write(&path, [1; 5000]).expect("a file");
    let name = path.to_str().expect("text");
    let is_refused = |file: OwnedFd, options: &OpenOptions, why: &str| {
        let error = engine.open_file(file, options).map(drop).expect_err("of the wrong mode");
        let line = error.to_string();
        assert!(line.contains(why), "{line}");
        error
    };
    let reading = || fs::File::open(&path).expect("it is there");
    let only_writing = fs::File::options().write(true).open(&path).expect("it is there");
    for options in [for_writing(), OpenOptions::new().append(true)] {
        let error = is_refused(reading().into(), &options, "open it for writing, too");
        assert!(
            matches!(error, OpenError { kind: OpenErrorKind::Descriptor { .. }, .. })
                && error.to_string().contains(name)
        );
    }
    is_refused(only_writing.into(), &OpenOptions::new(), "open it for reading, too");
    let o_path = i32::try_from(rustix::fs::OFlags::PATH.bits()).expect("an int");
    let named = fs::File::options().read(true).custom_flags(o_path).open(&path);
    is_refused(named.expect("it is there").into(), &OpenOptions::new(), "O_PATH");
    is_refused(reading().into(), &OpenOptions::new().create(true), "leave out create");
    let folder = fs::File::open(dir.path()).expect("it is there");
    is_refused(folder.into(), &OpenOptions::new(), "is a directory");
    let (socket, _other) = UnixStream::pair().expect("two sockets");
    is_refused(socket.into(), &OpenOptions::new(), "is a socket");
    let (pipe, _other) = std::io::pipe().expect("a pipe");
    is_refused(pipe.into(), &OpenOptions::new(), "is a pipe");
    engine.open_file(reading(), &OpenOptions::new()).expect("it may be read");
}
