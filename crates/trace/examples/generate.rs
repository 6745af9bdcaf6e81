//! Writes a trace with the given number of lines to stdout, in the format of the MSR Cambridge
//! traces, to test readers with more lines than fit on the disk.
//!
//!     cargo run --release -p foreread-trace --example generate -- 100000000 | foreread-lab trace -

#[path = "../tests/support/generated.rs"]
mod generated;

use std::io::{self, BufWriter, Write as _};

fn main() -> io::Result<()> {
    let lines = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let lines = lines.expect("the number of lines");
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    generated::write_lines(lines, &mut out)?;
    out.flush()
}
