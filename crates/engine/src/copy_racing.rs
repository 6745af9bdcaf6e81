//! Copies of memory that another thread may be writing.
//!
//! In:    where from, where to, how many bytes.
//! Out:   bytes, of which the caller finds out whether they are to be used.
//! Never: an instruction that the compiler can look into: to it, the copy would be a data race.

/// Copies memory that may change while it is copied.
///
/// A plain copy would be a data race, which the language forbids whatever is done with the bytes;
/// so the copy is instructions that the compiler cannot look into.
///
/// ```text
///   nanoseconds                64 bytes apart          not
///                              4 KiB    64 KiB         4 KiB    64 KiB
///   rep movsb                  480      4260           2500     35800     from 256 MiB of frames
///   sixteen bytes a time       520      4600           580      4800
///   four places in turns       820      3430           820      3480
/// ```
///
/// Why three ways (AMD EPYC, medians of 15): `rep movsb` is quickest where source and destination
/// lie a multiple of a cache line apart, and up to ten times slower elsewhere; and a buffer from an
/// allocator lies elsewhere. (The kernel's own copy, and with it `pread`, meets the same trap.)
/// A long copy from memory waits for one page after the other, as the processor fetches ahead only
/// inside a page: four places in turns are four pages that come together.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    if len >= QUARTERS_MIN {
        // SAFETY: the caller vouches for both ranges.
        done = unsafe { copy_quarters(from, to, len) };
    }
    // SAFETY: the quarters end in the range.
    let from = unsafe { from.add(done) };
    // SAFETY: the same.
    let to = unsafe { to.add(done) };
    let left = len - done;
    let is_in_step = (from.addr() ^ to.addr()).is_multiple_of(CACHE_LINE);
    if is_in_step || left < CACHE_LINE {
        // SAFETY: what is left of both ranges.
        unsafe { copy_string(from, to, left) }
    } else {
        // SAFETY: the same, and there is a line of bytes at least.
        unsafe { copy_lines(from, to, left) }
    }
}

/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller vouches for both ranges; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Whole lines of 64 bytes, and then the last 64 bytes, which may overlap the line before.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes, which are 64 at least, and do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) {
    let last = len - CACHE_LINE;
    // SAFETY: the caller vouches for both ranges. Lines end at `last` or before the line that
    // reaches over it, and `last` is one line before the end. SSE2 is there on every x86_64.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from} + {at}]",
            "movups {b}, [{from} + {at} + 16]",
            "movups {c}, [{from} + {at} + 32]",
            "movups {d}, [{from} + {at} + 48]",
            "movups [{to} + {at}], {a}",
            "movups [{to} + {at} + 16], {b}",
            "movups [{to} + {at} + 32], {c}",
            "movups [{to} + {at} + 48], {d}",
            "cmp {at}, {last}",
            "jae 3f",
            "add {at}, 64",
            "cmp {at}, {last}",
            "cmova {at}, {last}",
            "jmp 2b",
            "3:",
            from = in(reg) from,
            to = in(reg) to,
            last = in(reg) last,
            at = inout(reg) 0_usize => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// Four quarters in turns, a block of each at a time; says how many bytes these were.
///
/// ```text
///   from   |1 5 9 ..    |2 6 10 ..   |3 7 11 ..   |4 8 12 ..   |less than four blocks|
/// ```
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_quarters(from: *const u8, to: *mut u8, len: usize) -> usize {
    let quarter = len / 4 / BLOCK * BLOCK;
    for at in (0..quarter).step_by(BLOCK) {
        for start in [0, quarter, 2 * quarter, 3 * quarter] {
            // SAFETY: the block ends in its quarter, which lies in the range.
            let block = unsafe { from.add(start + at) };
            // SAFETY: the same.
            let dest = unsafe { to.add(start + at) };
            // SAFETY: the same of both.
            unsafe { copy_block(block, dest) }
        }
    }
    4 * quarter
}

/// Four cache lines.
///
/// # Safety
///
/// `from` and `to` are valid for [`BLOCK`] bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_block(from: *const u8, to: *mut u8) {
    macro_rules! lines {
        ($($at:literal)*) => {
            std::arch::asm!(
                $(
                    concat!("movups {a}, [{from} + ", $at, "]"),
                    concat!("movups {b}, [{from} + ", $at, " + 16]"),
                    concat!("movups {c}, [{from} + ", $at, " + 32]"),
                    concat!("movups {d}, [{from} + ", $at, " + 48]"),
                    concat!("movups [{to} + ", $at, "], {a}"),
                    concat!("movups [{to} + ", $at, " + 16], {b}"),
                    concat!("movups [{to} + ", $at, " + 32], {c}"),
                    concat!("movups [{to} + ", $at, " + 48], {d}"),
                )*
                from = in(reg) from,
                to = in(reg) to,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            )
        };
    }
    // SAFETY: the caller vouches for both ranges. SSE2 is there on every x86_64.
    unsafe { lines!(0 64 128 192) }
}

#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 256;

/// From here on four places in turns are quicker than one after the other: each quarter is then
/// four pages. With quarters of a page they are not.
#[cfg(target_arch = "x86_64")]
const QUARTERS_MIN: usize = 64 << 10;

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// The same where there is no such instruction: word by word, each a volatile load.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    const WORD: usize = size_of::<u64>();
    let (mut done, aligned) = (0, (from as usize).is_multiple_of(WORD));
    while aligned && done + WORD <= len {
        // SAFETY: the word lies in `from`, which is aligned, and its bytes in `to`.
        unsafe {
            to.add(done).cast::<u64>().write_unaligned(from.add(done).cast::<u64>().read_volatile())
        };
        done += WORD;
    }
    while done < len {
        // SAFETY: the byte lies in `from`.
        let byte = unsafe { from.add(done).read_volatile() };
        // SAFETY: and in `to`.
        unsafe { to.add(done).write(byte) };
        done += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Around the length from which on quarters are copied, at several distances from a line.
    #[test]
    fn a_long_copy_is_whole_and_touches_nothing_beside_it() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        for len in [65_535, 65_536, 65_537, 65_536 + 1023, 66_560, 131_071, 262_144] {
            for (from, at) in [(0, 0), (1, 0), (0, 17), (64, 128), (4097, 63)] {
                let mut got = vec![0xff; at + len + 64];
                let (source, dest) = (bytes[from..].as_ptr(), got[at..].as_mut_ptr());
                // SAFETY: both are as long as that, and are not one.
                unsafe { copy_racing(source, dest, len) };
                assert!(got[at..at + len] == bytes[from..from + len], "{len} from {from} to {at}");
                assert!(got[..at].iter().chain(&got[at + len..]).all(|&byte| byte == 0xff));
            }
        }
    }
}
