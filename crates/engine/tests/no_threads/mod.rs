//! A process at its limit of threads (`ulimit -u`, `TasksMax=`, the pids limit of a container): the
//! kernel has no workers for io_uring then.
//!
//! In:    a file that the page cache has, with a hole behind; no threads.
//! Out:   every command does what the plain system call does.
//! Never: a limit of this process: a child has it, as another user where this one is root, whom the
//!        limit does not bind.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use foreread::{
    Blocking, Engine, IoBackend, OpenOptions, ReadRange, Reply, SourceIdentity, WriteMode,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

use super::support::{check, fill, with_each_io};
use crate::common::Command;

const PAGE: usize = 4096;
const DATA: usize = 64 * PAGE;

/// A healthy disk gave EIO, to reads, FUA writes and flushes.
#[test]
fn without_kernel_workers_every_command_is_done_by_the_thread_that_is_there() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return with_each_io("without_kernel_workers", |io| at_the_limit(Path::new(&dir), io));
    }
    // A user without rights may enter it.
    let place = TempDir::new().expect("a directory");
    let open_to_all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(place.path(), open_to_all.clone()).expect("it is ours");
    let program = place.path().join("program");
    crate::common::copy_program(std::env::current_exe().expect("it runs"), &program);
    for parent in [place.path(), Path::new("/dev/shm")].into_iter().filter(|it| it.is_dir()) {
        let dir = TempDir::new_in(parent).expect("a directory");
        fs::set_permissions(dir.path(), open_to_all.clone()).expect("it is ours");
        let mut child = Command::new(&program);
        let name = std::thread::current().name().expect("tests have one").to_owned();
        child.args([&name, "--exact", "--nocapture"]).env(CHILD, dir.path());
        if rustix::process::geteuid().is_root() {
            child.uid(NO_USER).gid(NO_USER);
        }
        let output = child.output().expect("it starts");
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", parent.display());
    }
}

struct Constant;

impl ReadRange for Constant {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new("constant", "1")
    }

    fn length(&self) -> std::io::Result<u64> {
        Ok(1 << 20)
    }

    fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> std::io::Result<()> {
        reply.write(&vec![5; usize::try_from(range.end - range.start).expect("a window")])
    }
}

fn at_the_limit(dir: &Path, io: IoBackend) {
    let path = dir.join(format!("{io:?}"));
    let mut want = vec![0; DATA];
    fill(1, 0, &mut want);
    fs::write(&path, &want).expect("room");
    want.resize(2 * DATA, 0);
    fs::File::options().write(true).open(&path).and_then(|it| it.set_len(2 * DATA as u64)).unwrap();
    let age = Duration::from_secs(3600);
    let engine = Engine::builder().memory(1 << 20).dirty_age(age).io_backend(io).build().unwrap();
    let file = engine.open_with(&path, &OpenOptions::new().write(true)).expect("it is there");

    let before = getrlimit(Resource::Nproc);
    setrlimit(Resource::Nproc, Rlimit { current: Some(1), ..before }).expect("lower");
    std::thread::Builder::new().spawn(|| {}).expect_err("there is no thread to be had");
    let mut buffer = vec![0; DATA];
    for page in (0..DATA).step_by(PAGE).map(|at| at * 37 % DATA) {
        file.read_exact_at(&mut buffer[..PAGE], page as u64).expect("the disk is healthy");
        check(1, page as u64, &buffer[..PAGE]);
    }
    // Over pages that the page cache has, and into the hole.
    for (at, byte) in [(2 * PAGE, 1), (DATA + 8 * PAGE, 2)] {
        want[at..at + PAGE].fill(byte);
        file.write_all_at(&[byte; PAGE], at as u64).expect("memory");
        file.sync_data().expect("a flush");
        let at = at + 3 * PAGE;
        want[at..at + PAGE].fill(byte);
        file.write_all_at_with(&[byte; PAGE], at as u64, WriteMode::Fua).expect("FUA");
    }
    for (at, may_unmap) in [(10 * PAGE + 5, false), (20 * PAGE + 5, true)] {
        want[at..at + 3 * PAGE].fill(0);
        file.write_zeroes(at as u64..(at + 3 * PAGE) as u64, may_unmap).expect("zeroes");
    }
    file.discard(2 * DATA as u64 - 4096..2 * DATA as u64).expect("a discard of a hole");
    file.set_len((2 * DATA + 100) as u64).expect("a length");
    want.resize(2 * DATA + 100, 0);
    assert_eq!(file.append(&[9; 5000]).expect("an append"), 2 * DATA as u64 + 100);
    want.resize(2 * DATA + 5100, 9);
    file.sync_all().expect("a flush");
    let source = engine.open_source(Blocking::new(Constant)).expect("a source");
    source.read_exact_at(&mut buffer[..PAGE], 40_000).expect("its thread is this one");
    assert_eq!(buffer[..PAGE], [5; PAGE]);
    let mut got = vec![0; want.len()];
    fs::File::open(&path).unwrap().read_exact_at(&mut got, 0).expect("its length");
    assert!(got == want, "first wrong byte {:?}", (0..want.len()).find(|&at| got[at] != want[at]));
    setrlimit(Resource::Nproc, before).expect("its length is unchanged");
}

/// Set in the child: the directory for its files.
const CHILD: &str = "FOREREAD_TEST_NO_THREADS";

/// No account has it.
const NO_USER: u32 = 61_234;
