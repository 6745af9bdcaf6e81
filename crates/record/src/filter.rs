//! The seccomp filter: which system calls of the program are looked at.
//!
//! In:    nothing.
//! Out:   a BPF program.
//! Never: a call that is refused. A call of another architecture passes unseen.
//!
//! ```text
//!   other architecture?             --> pass
//!   mmap of no file, or of a library --> pass
//!   read, pread64, mmap, ..          --> notify
//!   all others                       --> pass
//! ```

use libc::{c_long, sock_filter};

/// What a call reads, and where its arguments are.
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
    /// `io_uring_setup`: what follows is not seen.
    Ring,
    /// `io_submit`: not seen.
    Submit,
}

/// The calls that are looked at.
pub(crate) const WATCHED: [(c_long, WatchedCall); 11] = [
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
];

/// The filter.
pub(crate) fn program() -> Vec<sock_filter> {
    let mut code = vec![
        load(OFFSET_OF_ARCH),
        jump(libc::BPF_JEQ, ARCH, 1, 0),
        give(libc::SECCOMP_RET_ALLOW),
        load(OFFSET_OF_NUMBER),
    ];
    for (number, call) in WATCHED {
        let number = u32::try_from(number).expect("numbers of system calls are small");
        if call == WatchedCall::Map {
            // Each jump skips the answer behind it.
            code.push(jump(libc::BPF_JEQ, number, 0, 4));
            code.push(load(OFFSET_OF_ARGS + 3 * 8));
            code.push(jump(libc::BPF_JSET, MAPS_PASSED, 0, 1));
            code.push(give(libc::SECCOMP_RET_ALLOW));
            code.push(give(libc::SECCOMP_RET_USER_NOTIF));
        } else {
            code.push(jump(libc::BPF_JEQ, number, 0, 1));
            code.push(give(libc::SECCOMP_RET_USER_NOTIF));
        }
    }
    code.push(give(libc::SECCOMP_RET_ALLOW));
    code
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

/// In `struct seccomp_data`: the number, the architecture, the instruction pointer, six arguments.
const OFFSET_OF_NUMBER: u32 = 0;
const OFFSET_OF_ARCH: u32 = 4;
const OFFSET_OF_ARGS: u32 = 16;

/// Mappings without a file, and those of the loader, which are code.
const MAPS_PASSED: u32 = (libc::MAP_ANONYMOUS | libc::MAP_DENYWRITE).cast_unsigned();

/// `AUDIT_ARCH_*` of linux/audit.h: the ELF machine, 64 bits, little endian.
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCH: u32 = 0xc000_00b7;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel does.
    fn verdict(number: c_long, arch: u32, flags: u32) -> u32 {
        let word = |offset: u32| match offset {
            OFFSET_OF_NUMBER => u32::try_from(number).unwrap(),
            OFFSET_OF_ARCH => arch,
            _ => flags,
        };
        let (code, mut at, mut accumulator) = (program(), 0, 0);
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

    #[test]
    fn reads_are_notified_and_all_else_passes() {
        for (number, call) in WATCHED {
            let expected = libc::SECCOMP_RET_USER_NOTIF;
            assert_eq!(verdict(number, ARCH, 0), expected, "{call:?}");
            assert_eq!(verdict(number, 0x4000_0003, 0), libc::SECCOMP_RET_ALLOW, "i386");
        }
        for number in [libc::SYS_write, libc::SYS_close, libc::SYS_execve, libc::SYS_sendmsg] {
            assert_eq!(verdict(number, ARCH, 0), libc::SECCOMP_RET_ALLOW);
        }
        let map = |flags: i32| verdict(libc::SYS_mmap, ARCH, flags.cast_unsigned());
        assert_eq!(map(libc::MAP_PRIVATE), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS), libc::SECCOMP_RET_ALLOW);
        assert_eq!(map(libc::MAP_PRIVATE | libc::MAP_DENYWRITE), libc::SECCOMP_RET_ALLOW);
        assert_eq!(verdict(libc::SYS_pread64, ARCH, u32::MAX), libc::SECCOMP_RET_USER_NOTIF);
    }
}
