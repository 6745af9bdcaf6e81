//! Copies of memory that another thread may be writing. The caller validates the bytes afterwards.

/// Copies memory that may change during the copy.
///
/// A plain copy would be a data race, which is undefined behaviour even if the bytes are discarded.
/// Inline assembly is opaque to the compiler and avoids that.
///
/// ```text
///   nanoseconds                a multiple of 64 apart  otherwise
///                              4 KiB    64 KiB         4 KiB    64 KiB
///   rep movsb                  480      4260           2500     35800     from 256 MiB of frames
///   16 bytes at a time         520      4600           580      4800
///   four quarters in turn      820      3430           820      3480
/// ```
///
/// Reason for three methods (AMD EPYC, medians of 15): `rep movsb` is fastest when the distance
/// between source and destination is a multiple of a cache line, and up to ten times slower
/// otherwise, which is the usual case for buffers from an allocator. (The kernel's own copy, and
/// with it `pread`, suffers from the same effect.) A long copy from memory stalls at each page,
/// because the hardware prefetcher stops at page boundaries; copying four quarters in turn
/// overlaps the misses of four pages.
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
        // SAFETY: this is the rest of both ranges.
        unsafe { copy_string(from, to, left) }
    } else {
        // SAFETY: the same, and at least one line remains.
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

/// Copies whole lines of 64 bytes, then the last 64 bytes, which may overlap the line before.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes, at least 64, and do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) {
    let last = len - CACHE_LINE;
    // SAFETY: the caller vouches for both ranges. No line starts past `last`, which is one line
    // before the end. Every x86_64 has SSE2.
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

/// Copies four quarters in turn, one block of each at a time. Returns the number of bytes copied.
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
            // SAFETY: the block ends in its quarter, which is inside the range.
            let block = unsafe { from.add(start + at) };
            // SAFETY: the same.
            let dest = unsafe { to.add(start + at) };
            // SAFETY: both blocks are inside their ranges.
            unsafe { copy_block(block, dest) }
        }
    }
    4 * quarter
}

/// Copies four cache lines.
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
    // SAFETY: the caller vouches for both ranges. Every x86_64 has SSE2.
    unsafe { lines!(0 64 128 192) }
}

#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 256;

/// Shortest copy for which four quarters in turn are faster: each quarter is then four pages. With
/// quarters of one page they are not faster.
#[cfg(target_arch = "x86_64")]
const QUARTERS_MIN: usize = 64 << 10;

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Copies memory that may change during the copy, word by word with volatile loads.
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
        // SAFETY: the word is inside `from`, which is aligned, and its bytes are inside `to`.
        unsafe {
            to.add(done).cast::<u64>().write_unaligned(from.add(done).cast::<u64>().read_volatile())
        };
        done += WORD;
    }
    while done < len {
        // SAFETY: the byte is inside `from`.
        let byte = unsafe { from.add(done).read_volatile() };
        // SAFETY: the byte is inside `to`.
        unsafe { to.add(done).write(byte) };
        done += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers lengths around `QUARTERS_MIN` at several alignments.
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
