//! `explain itable`: the worked windows, through the command line.

use serde_json::json;

use crate::explain::run::{json_of, lines, words};

/// A table of 512 blocks.
pub(crate) const TABLE: &str = "explain itable --table 1000+8192/16";

fn itable(flags: &str) -> Vec<String> {
    let table = if flags.starts_with("--table") { "explain itable" } else { TABLE };
    lines(&words(&format!("{table} {flags}")))
}

#[test]
fn the_worked_windows_come_out() {
    assert_eq!(
        itable("--inode-readahead-blks 16 1000 1100 1505 1003"),
        [
            "1000: 1000..1015 (16)",
            "1100: 1088..1103 (16)",
            "1505: 1504..1511 (8)",
            "1003: 1000..1015 (16)"
        ]
    );
    assert_eq!(
        itable("--table 1000+8192/16-8000 --inode-readahead-blks 16 1003 1300"),
        ["1003: 1000..1011 (12)", "1300: 1300..1300 (1)"]
    );
    assert_eq!(
        itable("--table 1000+8192/16-7992 --inode-readahead-blks 16 1003"),
        ["1003: 1000..1012 (13)"]
    );
}

#[test]
fn as_linux_reads_it_there_is_one_block_more() {
    assert_eq!(
        itable("--inode-readahead-blks 16+1 1000 1100 1505"),
        ["1000: 1000..1016 (17)", "1100: 1088..1104 (17)", "1505: 1504..1512 (9)"]
    );
    assert_eq!(
        itable("--table 1000+8192/16-8000 --inode-readahead-blks 16+1 1003"),
        ["1003: 1000..1012 (13)"]
    );
    assert_eq!(
        itable("--table 1000+8192/16-7992 --inode-readahead-blks 16+1 1003"),
        ["1003: 1000..1012 (13)"]
    );
}

#[test]
fn a_block_comes_alone_without_readahead_and_behind_the_used_ones() {
    assert_eq!(itable("--inode-readahead-blks 0 1300"), ["1300: 1300..1300 (1)"]);
    assert_eq!(itable("--inode-readahead-blks 16 9999"), ["9999: 9999..9999 (1)"]);
    assert_eq!(
        itable("--table 1000+8192/16-4294967295 --inode-readahead-blks 16 1000"),
        ["1000: 1000..1000 (1)"]
    );
}

#[test]
fn windows_as_json_say_what_the_lines_say() {
    let line = format!("{TABLE} --inode-readahead-blks 16 --json 1100 1505");
    assert_eq!(
        json_of(&words(&line)),
        json!([
            {"block": 1100, "first": 1088, "last": 1103, "blocks": 16},
            {"block": 1505, "first": 1504, "last": 1511, "blocks": 8},
        ])
    );
}
