//! Traces of any length: lines of the MSR Cambridge format.
//!
//! In:    the number of lines.
//! Out:   lines, the same on every machine.
//! Never: memory that grows with their number.

use std::io::{self, Write};

/// Writes so many reads and writes of ten disks: half go on where the last one of their disk ended,
/// the others begin anywhere in 64 GiB.
pub(crate) fn write_lines(lines: u64, out: &mut impl Write) -> io::Result<()> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut ends = [0_u64; DISKS];
    // In units of 100 ns; 0.4 ms pass between two on average.
    let mut at = 128_166_372_000_000_000_u64;
    for _ in 0..lines {
        // xorshift64.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let bits = |from: u32, count: u32| random >> from & ((1 << count) - 1);
        at += bits(0, 13);
        let disk = usize::try_from(bits(13, 16)).expect("16 bits") % DISKS;
        let is_sequential = bits(29, 1) == 1;
        let op = if bits(30, 3) == 0 { "Write" } else { "Read" };
        let length = (bits(33, 5) + 1) * 4096;
        let offset = if is_sequential { ends[disk] } else { bits(38, 24) * 4096 };
        ends[disk] = offset + length;
        writeln!(out, "{at},made,{disk},{op},{offset},{length},0")?;
    }
    Ok(())
}

const DISKS: usize = 10;
