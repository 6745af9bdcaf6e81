//! The seccomp filter: selects the system calls that stop for the recorder. It never refuses a
//! call.
//!
//! ```text
//!   a read of a 32-bit program        --> stop, to be counted
//!   mmap of no file, or of a library  --> pass
//!   read, pread64, mmap, ..           --> stop
//!   epoll_wait with a time-out        --> stop, if there is a tracer
//!   all others                        --> pass
//! ```

use libc::{c_long, sock_filter};

/// Kind of a watched call: how it reads, and where its arguments are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WatchedCall {
    /// `read(fd, buffer, length)`, at the position of the descriptor.
    Read,
    /// `pread64(fd, buffer, length, offset)`.
    PositionedRead,
    /// `readv(fd, vector, count)`, at the position of the descriptor.
    VectorRead,
    /// `preadv(fd, vector, count, offset)`; `preadv2`, which reads at the position if the offset is
    /// -1.
    PositionedVectorRead,
    /// `sendfile(out, in, offset pointer, length)`.
    SendFile,
    /// `copy_file_range(in, offset pointer, out, offset pointer, length)`; `splice`.
    CopyRange,
    /// `mmap(address, length, protection, flags, fd, offset)` of a file.
    Map,
    /// `io_uring_setup`: reads through the ring are not seen.
    Ring,
    /// `io_submit`: not seen.
    Submit,
    /// `seccomp` with a listener: calls that go to that one are not seen.
    Listener,
}

/// Where a watched call stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StopsAt {
    /// At a tracer (`PTRACE_EVENT_SECCOMP`). No signal interrupts it.
    Tracer,
    /// At a listener (a user notification). A signal may interrupt it before the listener has
    /// received it.
    Listener,
}

/// The watched calls.
pub(crate) const WATCHED: [(c_long, WatchedCall); 12] = [
    (libc::SYS_read, WatchedCall::Read),
    (libc::SYS_pread64, WatchedCall::PositionedRead),
    (libc::SYS_readv, WatchedCall::VectorRead),
    (libc::SYS_preadv, WatchedCall::PositionedVectorRead),
    (libc::SYS_preadv2, WatchedCall::PositionedVectorRead),
    (libc::SYS_sendfile, WatchedCall::SendFile),
    (libc::SYS_copy_file_range, WatchedCall::CopyRange),
    (libc::SYS_splice, WatchedCall::CopyRange),
    (libc::SYS_mmap, WatchedCall::Map),
    (libc::SYS_io_uring_setup, WatchedCall::Ring),
    (libc::SYS_io_submit, WatchedCall::Submit),
    (libc::SYS_seccomp, WatchedCall::Listener),
];

/// Waits with the time-out in their fourth argument, which return EINTR for every signal, even an
/// ignored one. The tracer stops them to record their start.
#[cfg(target_arch = "x86_64")]
pub(crate) const TIMED_WAITS: [c_long; 2] = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait];
#[cfg(target_arch = "aarch64")]
pub(crate) const TIMED_WAITS: [c_long; 0] = [];

/// Returns the filter as a BPF program.
pub(crate) fn program(stops_at: StopsAt) -> Vec<sock_filter> {
    let stop = match stops_at {
        StopsAt::Tracer => libc::SECCOMP_RET_TRACE | OF_THIS_FILTER,
        StopsAt::Listener => libc::SECCOMP_RET_USER_NOTIF,
    };
    // Each jump skips the verdict after it.
    let mut compat = vec![
        jump(libc::BPF_JEQ, COMPAT_ARCH, 1, 0),
        give(libc::SECCOMP_RET_ALLOW),
        load(OFFSET_OF_NUMBER),
    ];
    for number in COMPAT_READS {
        compat.extend([jump(libc::BPF_JEQ, number, 0, 1), give(stop)]);
    }
    compat.push(give(libc::SECCOMP_RET_ALLOW));
    let skip = u8::try_from(compat.len()).expect("a short list");
    let mut code = vec![load(OFFSET_OF_ARCH), jump(libc::BPF_JEQ, ARCH, skip, 0)];
    code.extend(compat);
    code.push(load(OFFSET_OF_NUMBER));
    for number in X32_READS {
        code.extend([jump(libc::BPF_JEQ, X32_BIT | number, 0, 1), give(stop)]);
    }
    for (number, call) in WATCHED {
        let number = u32::try_from(number).expect("numbers of system calls are small");
        // The deciding argument, and the bits with which the call passes or stops.
        let (argument, bits, with, without) = match call {
            WatchedCall::Map => (3, MAPS_PASSED, libc::SECCOMP_RET_ALLOW, stop),
            WatchedCall::Listener => (1, NEW_LISTENER, stop, libc::SECCOMP_RET_ALLOW),
            WatchedCall::Read
            | WatchedCall::PositionedRead
            | WatchedCall::VectorRead
            | WatchedCall::PositionedVectorRead
            | WatchedCall::SendFile
            | WatchedCall::CopyRange
            | WatchedCall::Ring
            | WatchedCall::Submit => {
                code.extend([jump(libc::BPF_JEQ, number, 0, 1), give(stop)]);
                continue;
            }
        };
        code.push(jump(libc::BPF_JEQ, number, 0, 4));
        code.push(load(OFFSET_OF_ARGS + argument * 8));
        code.extend([jump(libc::BPF_JSET, bits, 0, 1), give(with), give(without)]);
    }
    if stops_at == StopsAt::Tracer {
        code.extend(timed_waits(stop));
    }
    code.push(give(libc::SECCOMP_RET_ALLOW));
    code
}

/// Stops waits with a time-out: `epoll_wait(epoll, events, count, milliseconds)`.
fn timed_waits(stop: u32) -> Vec<sock_filter> {
    let mut code = Vec::new();
    for number in TIMED_WAITS {
        let number = u32::try_from(number).expect("numbers of system calls are small");
        code.extend([
            jump(libc::BPF_JEQ, number, 0, 5),
            load(OFFSET_OF_ARGS + 3 * 8),
            jump(libc::BPF_JSET, SIGN_BIT, 2, 0),
            jump(libc::BPF_JEQ, 0, 1, 0),
            give(stop),
            give(libc::SECCOMP_RET_ALLOW),
        ]);
    }
    code
}

/// Returns true for a call of a 32-bit program: another architecture, or x32.
pub(crate) fn is_foreign(arch: u32, number: i64) -> bool {
    let is_x32 = u32::try_from(number).is_ok_and(|number| number & X32_BIT != 0);
    arch != ARCH || (!X32_READS.is_empty() && is_x32)
}

/// Returns true if a call of a 32-bit program reads or maps a file, or submits reads.
pub(crate) fn is_foreign_read(arch: u32, number: i64) -> bool {
    let Ok(number) = u32::try_from(number) else { return false };
    if arch == COMPAT_ARCH {
        return COMPAT_READS.contains(&number);
    }
    arch == ARCH && number & X32_BIT != 0 && X32_READS.contains(&(number & !X32_BIT))
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn jump(condition: u32, value: u32, if_true: u8, if_false: u8) -> sock_filter {
    instruction(libc::BPF_JMP | condition | libc::BPF_K, value, if_true, if_false)
}

fn give(answer: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, answer, 0, 0)
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = u16::try_from(code).expect("codes of BPF have 16 bits");
    sock_filter { code, jt, jf, k }
}

/// Offsets in `struct seccomp_data`: number, architecture, instruction pointer, six arguments.
const OFFSET_OF_NUMBER: u32 = 0;
const OFFSET_OF_ARCH: u32 = 4;
const OFFSET_OF_ARGS: u32 = 16;

/// Anonymous mappings, and mappings by the loader, which are code.
const MAPS_PASSED: u32 = (libc::MAP_ANONYMOUS | libc::MAP_DENYWRITE).cast_unsigned();

/// Distinguishes stops at this filter from stops at a filter of the program.
pub(crate) const OF_THIS_FILTER: u32 = 0xf07e;

/// Sign bit of an `int`: a negative time-out means none.
const SIGN_BIT: u32 = 1 << 31;

/// Flag of `seccomp` that requests a listener.
pub(crate) const NEW_LISTENER: u32 = 1 << 3;

/// `AUDIT_ARCH_*` of linux/audit.h: the ELF machine, 64 bits, little endian.
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCH: u32 = 0xc000_00b7;

/// i386, or ARM with 32 bits.
#[cfg(target_arch = "x86_64")]
const COMPAT_ARCH: u32 = 0x4000_0003;
#[cfg(target_arch = "aarch64")]
const COMPAT_ARCH: u32 = 0x4000_0028;

/// `read`, `pread64`, `readv`, `preadv`, `preadv2`, `sendfile`, `sendfile64`, `copy_file_range`,
/// `splice`, `mmap2`, `io_uring_setup`, `io_submit`.
#[cfg(target_arch = "x86_64")]
const COMPAT_READS: [u32; 12] = [3, 180, 145, 333, 378, 187, 239, 377, 313, 192, 425, 248];
#[cfg(target_arch = "aarch64")]
const COMPAT_READS: [u32; 12] = [3, 180, 145, 361, 392, 187, 239, 391, 340, 192, 425, 246];

/// x32 calls have the architecture of 64-bit calls and this bit. They share the numbers of `read`,
/// `pread64`, `sendfile`, `splice`, `copy_file_range`, `mmap` and `io_uring_setup`; `readv`,
/// `preadv`, `preadv2` and `io_submit` have separate numbers.
const X32_BIT: u32 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const X32_READS: [u32; 11] = [0, 17, 40, 275, 326, 9, 425, 515, 534, 546, 544];
#[cfg(target_arch = "aarch64")]
const X32_READS: [u32; 0] = [];

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter for a tracer.
    fn verdict(number: u32, arch: u32, flags: u32) -> u32 {
        verdict_of(StopsAt::Tracer, number, arch, flags)
    }

    /// Runs a filter as the kernel does.
    fn verdict_of(stops_at: StopsAt, number: u32, arch: u32, flags: u32) -> u32 {
        let word = |offset: u32| match offset {
            OFFSET_OF_NUMBER => number,
            OFFSET_OF_ARCH => arch,
            _ => flags,
        };
        let (code, mut at, mut accumulator) = (program(stops_at), 0, 0);
        loop {
            let step = code[at];
            at += 1;
            match u32::from(step.code) {
                code if code == libc::BPF_RET | libc::BPF_K => return step.k,
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    accumulator = word(step.k);
                }
                code => {
                    let holds = if code & 0xf0 == libc::BPF_JEQ {
                        accumulator == step.k
                    } else {
                        accumulator & step.k != 0
                    };
                    at += usize::from(if holds { step.jt } else { step.jf });
                }
            }
        }
    }

    const STOP: u32 = libc::SECCOMP_RET_TRACE | OF_THIS_FILTER;

    #[test]
    fn reads_are_stopped_and_all_else_passes() {
        let number = |number: c_long| u32::try_from(number).unwrap();
        for (call, kind) in WATCHED {
            let flags = if kind == WatchedCall::Listener { NEW_LISTENER } else { 0 };
            assert_eq!(verdict(number(call), ARCH, flags), STOP, "{kind:?}");
            assert!(!is_foreign(ARCH, call));
        }
        for call in [libc::SYS_write, libc::SYS_close, libc::SYS_execve, libc::SYS_seccomp] {
            assert_eq!(verdict(number(call), ARCH, 0), libc::SECCOMP_RET_ALLOW);
        }
        let map = |flags: i32| verdict(number(libc::SYS_mmap), ARCH, flags.cast_unsigned());
        assert_eq!(map(libc::MAP_PRIVATE), STOP);
        assert_eq!(map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS), libc::SECCOMP_RET_ALLOW);
        assert_eq!(map(libc::MAP_PRIVATE | libc::MAP_DENYWRITE), libc::SECCOMP_RET_ALLOW);
        assert_eq!(verdict(number(libc::SYS_pread64), ARCH, u32::MAX), STOP);
    }

    #[test]
    fn waits_with_a_time_out_stop_at_a_tracer_only() {
        for call in TIMED_WAITS {
            let number = u32::try_from(call).unwrap();
            for timeout in [1, 300, u32::MAX >> 1] {
                assert_eq!(verdict(number, ARCH, timeout), STOP);
                let listened = verdict_of(StopsAt::Listener, number, ARCH, timeout);
                assert_eq!(listened, libc::SECCOMP_RET_ALLOW);
            }
            for timeout in [0, u32::MAX, 1 << 31] {
                assert_eq!(verdict(number, ARCH, timeout), libc::SECCOMP_RET_ALLOW);
            }
        }
    }

    /// Such reads used to pass unseen, and the trace was empty without a warning.
    #[test]
    fn reads_of_32_bit_programs_are_stopped_to_be_counted() {
        for number in COMPAT_READS {
            assert_eq!(verdict(number, COMPAT_ARCH, 0), STOP, "{number}");
            assert!(is_foreign_read(COMPAT_ARCH, number.into()));
        }
        for number in X32_READS.map(|number| number | X32_BIT) {
            assert_eq!(verdict(number, ARCH, 0), STOP, "{number}");
            assert!(is_foreign(ARCH, number.into()) && is_foreign_read(ARCH, number.into()));
        }
        for (number, arch) in [(4, COMPAT_ARCH), (1 | X32_BIT, ARCH), (3, 0x4000_0005)] {
            assert_eq!(verdict(number, arch, 0), libc::SECCOMP_RET_ALLOW, "{number}");
            assert!(!is_foreign_read(arch, number.into()));
        }
    }
}
