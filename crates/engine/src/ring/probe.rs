//! A probe for io_uring that uses it once. It looks at no kernel version, setting or filter list:
//! whatever forbids io_uring, the probe fails.

use std::io::{self, Write};
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

use super::RETRIES;

/// Submits a NOP and a read of one byte: some systems allow the ring to be created but not entered,
/// or lack either operation.
pub(super) fn probe(uring: &IoUring) -> io::Result<()> {
    let (from, mut to) = io::pipe()?;
    to.write_all(&[PROBE_BYTE])?;
    let mut byte = [0];
    let vector = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    let read = opcode::Readv::new(Fd(from.as_raw_fd()), &raw const vector, 1);
    let entries = [opcode::Nop::new().build().user_data(0), read.build().user_data(1)];
    // SAFETY: no other code uses the ring yet.
    let mut queue = unsafe { uring.submission_shared() };
    // SAFETY: pipe, vector and byte outlive the two completions that are waited for below. If the
    // wait fails, nothing was started, or the read is done: the byte lies in the pipe.
    let pushed = unsafe { queue.push_multiple(&entries) };
    pushed.expect("an empty submission queue has room for two entries");
    drop(queue);
    let (mut results, mut tries) = (0, 0);
    while results < entries.len() {
        match uring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted && tries < RETRIES => {
                tries += 1;
            }
            Err(error) => return Err(error),
        }
        // SAFETY: no other code uses the ring yet.
        for entry in unsafe { uring.completion_shared() } {
            let want = i32::from(entry.user_data() == 1);
            match entry.result() {
                result if result == want => results += 1,
                result if result < 0 => return Err(io::Error::from_raw_os_error(-result)),
                _ => return Err(io::Error::other("its io_uring cannot read")),
            }
        }
    }
    if byte == [PROBE_BYTE] { Ok(()) } else { Err(io::Error::other("its io_uring misreads")) }
}

/// A value that memory does not hold by chance.
const PROBE_BYTE: u8 = 0xa7;

#[cfg(test)]
mod tests {
    use super::super::uring_shared::REFUSALS_MAX;
    use super::super::{IoBackend, Ring, RingKind};
    use super::*;
    use crate::OpenOptions;
    use crate::backend::{Backend, Claims};
    use crate::error::EngineError;
    use crate::pool::{PAGE, Pool};
    use foreread_core::table::Frame;
    use std::sync::Arc;

    /// Makes a system call fail with `errno` on the calling thread from now on, as a container's
    /// filter or a lack of memory does. Other threads are not affected.
    fn refuse(call: libc::c_long, errno: i32) {
        let op = |code: u32, jf: u8, k: u32| libc::sock_filter {
            code: u16::try_from(code).unwrap(),
            jt: 0,
            jf,
            k,
        };
        let errno = u32::try_from(errno).unwrap();
        let mut program = [
            op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, u32::try_from(call).unwrap()),
            op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | errno),
            op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let len = u16::try_from(program.len()).unwrap();
        let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
        // SAFETY: the call takes numbers only.
        let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(set, 0);
        // SAFETY: the kernel copies the program, which outlives the call.
        let set = unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }

    /// Runs `run` on a separate thread, which takes its filters with it when it ends.
    fn apart<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(run).join().expect("no panic in there"))
    }

    fn pool() -> Arc<Pool> {
        Arc::new(Pool::new(4).expect("memory"))
    }

    fn backend() -> (tempfile::TempDir, Arc<Backend>) {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("file"), [7; 8192]).expect("a file");
        let backend =
            Backend::open(&dir.path().join("file"), &OpenOptions::default(), &Claims::default())
                .expect("it is there");
        (dir, Arc::new(backend))
    }

    /// A ring that can be created is no proof: some filters forbid only entering it.
    #[test]
    fn where_any_part_of_io_uring_is_forbidden_threads_read_and_say_why() {
        let (_dir, backend) = backend();
        for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter] {
            for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM] {
                apart(|| {
                    refuse(call, errno);
                    let mut ring =
                        Ring::with(pool(), IoBackend::Probe).expect("threads need no permission");
                    let RingKind::Threads { why } = ring.kind() else {
                        panic!("a ring all the same")
                    };
                    assert_eq!(why, io::Error::from_raw_os_error(errno).to_string());
                    ring.read(1, Arc::clone(&backend), 0, [(Frame(0), 0..PAGE)].into_iter());
                    ring.sleeper().wait(None).expect("a thread reads");
                    assert_eq!(ring.completion().map(|got| got.result), Some(Ok(4096)));
                    let error = Ring::with(pool(), IoBackend::IoUring).expect_err("no ring");
                    assert!(error.to_string().contains("io_uring_disabled=0"), "{error}");
                });
            }
        }
    }

    #[test]
    fn without_descriptors_there_is_an_error_and_no_ring_of_threads() {
        apart(|| {
            refuse(libc::SYS_io_uring_setup, libc::EMFILE);
            let error =
                Ring::with(pool(), IoBackend::Probe).expect_err("threads cannot open files either");
            assert!(matches!(error, EngineError::Ring { .. }));
            assert!(error.to_string().contains("ulimit -n"));
        });
    }

    #[test]
    fn without_threads_reads_are_slow_but_correct() {
        let (_dir, backend) = backend();
        apart(|| {
            let mut ring = Ring::with(pool(), IoBackend::Threads).expect("nothing to fail");
            refuse(libc::SYS_clone3, libc::EAGAIN);
            refuse(libc::SYS_clone, libc::EAGAIN);
            for tag in 0..3 {
                ring.read(tag, Arc::clone(&backend), 4096, [(Frame(0), 0..PAGE)].into_iter());
                ring.sleeper().wait(None).expect("it is done already");
                let got = ring.completion().expect("as wait said");
                assert_eq!((got.tag, got.result), (tag, Ok(4096)));
            }
        });
    }

    /// The driver once treated "no memory" as "later" without a limit, and a reader spun forever.
    #[test]
    fn a_kernel_that_never_has_memory_is_an_error_after_a_bounded_number_of_tries() {
        let (_dir, backend) = backend();
        apart(|| {
            let Ok(mut ring) = Ring::with(pool(), IoBackend::IoUring) else {
                eprintln!("SKIP a_kernel_that_never_has_memory: no io_uring here");
                return;
            };
            refuse(libc::SYS_io_uring_enter, libc::ENOMEM);
            ring.read(1, Arc::clone(&backend), 0, [(Frame(0), 0..PAGE)].into_iter());
            ring.submit().expect_err("it is offered again by the wait");
            let sleeper = ring.sleeper();
            let tries = (1..).find_map(|n| sleeper.wait(None).err().map(|error| (n, error)));
            let (tries, error) = tries.expect("a thousand would be too many");
            assert_eq!((tries, error.raw_os_error()), (REFUSALS_MAX, Some(libc::ENOMEM)));
            assert_eq!(ring.in_flight(), 1, "what the kernel may still do is not forgotten");
        });
    }
}
