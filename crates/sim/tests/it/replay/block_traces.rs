//! The trace that `./dev bench replay` makes where it is given none.

use std::collections::HashSet;

use foreread_trace::{TraceFormat, TraceLevel, TraceOp, TraceReader, TraceSummary};

use crate::replay::block_trace::block_trace;

#[test]
fn a_made_block_trace_is_read_as_one_and_has_the_shape_of_a_disk_of_a_virtual_machine() {
    let bytes = block_trace(20_000, 1);
    let open = || TraceReader::new(&bytes[..], "made").expect("its format is detected");
    let summary = TraceSummary::of(open()).expect("all records are valid");
    assert_eq!((summary.format, summary.level()), (TraceFormat::VscsiV1, TraceLevel::Block));
    assert_eq!((summary.records(), summary.skipped, summary.out_of_order), (20_000, 0, 0));
    let reads = summary.reads;
    assert!((7_500..8_500).contains(&reads), "{reads} reads: two of five");
    let mean = summary.read_bytes / reads;
    assert!((32 << 10..44 << 10).contains(&mean), "{mean} bytes in the mean");

    let (mut pages, mut again, mut ends, mut going_on) = (HashSet::new(), 0, HashSet::new(), 0);
    let mut reader = open();
    while let Some(record) = reader.next_record().expect("all records are valid") {
        let is_again = !pages.insert(record.offset / 4096);
        again += u64::from(is_again && record.op == TraceOp::Read);
        going_on += u64::from(ends.contains(&record.offset));
        ends.insert(record.offset + record.length);
    }
    assert!((reads / 10..reads / 2).contains(&again), "{again} of {reads} are read again");
    assert!((13_000..17_000).contains(&going_on), "{going_on} go on where another ended");
    assert_ne!(bytes, block_trace(20_000, 2));
}
