//! Wrong use, help, pipes: what a user sees besides answers.

#[cfg(target_os = "linux")]
use std::fs::File;
use std::process::Stdio;

use crate::explain::itable::TABLE;
use crate::explain::run::{command, foreread, stdout, words};

/// Exit code 2, nothing on stdout, one line on stderr that contains `hint`.
#[track_caller]
fn is_refused(args: &[&str], hint: &str) {
    let answer = foreread(args);
    assert_eq!(answer.code, Some(2), "{args:?}: {answer:?}");
    assert_eq!(answer.stdout, "", "{args:?}");
    assert_eq!(answer.stderr.lines().count(), 1, "{args:?}: {}", answer.stderr);
    assert!(answer.stderr.starts_with("foreread-lab: "), "{args:?}: {}", answer.stderr);
    assert!(answer.stderr.contains(hint), "{args:?}: {}", answer.stderr);
}

/// Arguments, and a part of the line that refuses them.
const OF_COMMANDS: &[(&str, &str)] = &[
    ("", "[subcommands: sim, replay, trace, seeds, explain, man, completions, help];"),
    ("", "see 'foreread-lab --help'"),
    ("explian", "'explain'); see 'foreread-lab --help'"),
    (
        "explain",
        "[subcommands: readahead, geometry, itable, schedule, help]; see 'foreread-lab explain --help'",
    ),
    ("explain --no-such-flag", "--no-such-flag"),
    ("explain itable --table 1000+8192/16 1100", "--inode-readahead-blks"),
];

const OF_GEOMETRY: &[(&str, &str)] = &[
    ("explain geometry", "<SIZE>"),
    ("explain geometry 64MB", "64M"),
    ("explain geometry -5", "'-5'"),
    ("explain geometry 1.5G", "powers of 1024"),
    ("explain geometry 99999999999999999999", "2^64 - 1"),
    ("explain geometry 16777216T", "2^64 - 1"),
    ("explain geometry 64M --logical-block 1000", "power of two from 512 to 128K"),
    ("explain geometry 64M --logical-block 0", "power of two from 512 to 128K"),
];

const OF_READAHEAD: &[(&str, &str)] = &[
    ("explain readahead", "<READ>"),
    ("explain readahead 12-4", "PAGE+COUNT (64+32)"),
    ("explain readahead 0+4503599627370496", "at most 1048576"),
    ("explain readahead 0+1 0+18446744073709551615", "at most 1048576"),
    ("explain readahead @9223372036854775807:4096", "2^63 - 1"),
    ("explain readahead 2251799813685248+1", "2^63 - 1"),
    ("explain readahead --policy linux-2.4 0+1", "linux-2.6.28, linux-2.6.31"),
    ("explain readahead --policy", "--policy"),
    ("explain readahead --max-pages 9999999999 0+1", "0..=1048576"),
    ("explain readahead --file-bytes 9223372036854775808 0+1", "2^63 - 1"),
    ("explain readahead --resident 9..3 0+1", "FIRST..END"),
    ("explain readahead --resident 0..39 --file-bytes 40K 0+1", "10 pages"),
    ("explain readahead --resident 0..26@26 26+1", "0..39@26 has a marker"),
    ("explain readahead --json --picture 0+1", "cannot be used with"),
    ("explain readahead --rule often 0+1", "lseek, snap-eof, backwards"),
    ("explain readahead --rule lseek, 0+1", "lseek, snap-eof, backwards"),
    ("explain readahead --rule lseek", "<READ>"),
    ("explain readahead advise:often 0+1", "normal, sequential, random"),
    ("explain readahead advise:b:random", "normal, sequential, random"),
    ("explain readahead seek:b:0+1", "PAGE+COUNT"),
    ("explain readahead seek:", "PAGE+COUNT"),
    ("explain readahead hint:5", "PAGE+COUNT"),
    ("explain readahead hint:0+9999999", "at most 1048576"),
];

const OF_SCHEDULE: &[(&str, &str)] = &[
    ("explain schedule", "<REQUEST>"),
    ("explain schedule R300", "DIRECTION SECTOR@MS (R300@0"),
    ("explain schedule 300@0", "DIRECTION SECTOR@MS"),
    ("explain schedule X300@0", "DIRECTION SECTOR@MS"),
    ("explain schedule R300@-1", "DIRECTION SECTOR@MS"),
    ("explain schedule R300@0.5", "DIRECTION SECTOR@MS"),
    ("explain schedule R300++8@0", "DIRECTION SECTOR@MS"),
    ("explain schedule R300@+5", "DIRECTION SECTOR@MS"),
    ("explain schedule R300+0@0", "at least one sector"),
    ("explain schedule R18446744073709551615@0", "2^64"),
    ("explain schedule R1@99999999999999", "until 3155760000000 ms"),
    ("explain schedule soon:R1@0", "rt:, be: or idle:"),
    ("explain schedule --scheduler elevator R1@0", "noop, deadline, cfq"),
    ("explain schedule --set rule=5.x R1@0", "rule=5.x: must be 2002, 4.x or mq"),
    ("explain schedule --set fifobatch=1 R1@0", "there are rule, read_expire,"),
    ("explain schedule --set fifo_batch R1@0", "NAME=VALUE"),
    ("explain schedule --set fifo_batch=-1 R1@0", "fifo_batch=-1: must be a number from 0"),
    ("explain schedule --scheduler noop --set rule=mq R1@0", "this scheduler has none"),
    ("explain schedule --scheduler noop --set warm=on R1@0", "this scheduler has none"),
    ("explain schedule --dispatch-ms -1 R1@0", "'-1'"),
    ("explain schedule --dispatch-ms 5+ R1@0", "START+STEP in milliseconds"),
    ("explain schedule --dispatch-ms 1+10000001 R1@0", "START+STEP in milliseconds"),
    ("explain schedule --why --json R1@0", "cannot be used with"),
];

const OF_A_TABLE: &[(&str, &str)] = &[
    ("--inode-readahead-blks 16", "BLOCK>"),
    ("--inode-readahead-blks adaptive 1100", "give a TARGET"),
    ("--inode-readahead-blks 15 1100", "power of two"),
    ("--inode-readahead-blks 2147483648 1100", "power of two"),
    ("--inode-readahead-blks -1 1100", "'-1'"),
    ("--inode-readahead-blks 16 999", "before the table, which starts at 1000"),
    ("--inode-readahead-blks 0 0", "before the table"),
    ("--inode-readahead-blks 16 1100 999", "before the table"),
    ("--inode-readahead-blks 16 18446744073709551615", "no block"),
    ("--inode-readahead-blks 15+1 1100", "power of two"),
    ("--inode-readahead-blks 16+2 1100", "power of two"),
    ("--inode-readahead-blks 16 --offset 1M 1100", "cannot be used with"),
    ("--inode-readahead-blks 16 --cost 1000 1100", "two numbers"),
    ("--inode-readahead-blks 16 1100.5", "1100.5"),
];

#[test]
fn wrong_use_is_one_line_that_says_what_is_right() {
    let all = [OF_COMMANDS, OF_GEOMETRY, OF_READAHEAD, OF_SCHEDULE];
    for (line, hint) in all.into_iter().flatten() {
        is_refused(&words(line), hint);
    }
    for (flags, hint) in OF_A_TABLE {
        is_refused(&words(&format!("{TABLE} {flags}")), hint);
    }
    for (table, hint) in [
        ("1000", "FIRST+INODES/PER_BLOCK"),
        ("1+8/0", "FIRST+INODES/PER_BLOCK"),
        ("1+8/1-", "FIRST+INODES/PER_BLOCK"),
        ("1+8/1--1", "FIRST+INODES/PER_BLOCK"),
        ("18446744073709551615+8/1", "end of all block numbers"),
    ] {
        let line = format!("explain itable --table {table} --inode-readahead-blks 1 1");
        is_refused(&words(&line), hint);
    }
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_not_utf_8_is_refused_like_any_other() {
    use std::os::unix::ffi::OsStrExt as _;

    let output = command(&["explain", "geometry"])
        .arg(std::ffi::OsStr::from_bytes(b"64M\xff"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(output.stderr.starts_with(b"foreread-lab: "));
}

#[test]
fn every_flag_is_in_the_help_of_its_verb() {
    let verbs = [
        ("geometry", "--logical-block --json SIZE 1870001s KiB"),
        ("itable", "--table --inode-readahead-blks --cost --offset --json BLOCK"),
        (
            "readahead",
            "--policy --max-pages --io-pages --file-bytes --resident --rule --picture --json READ none linux-2.6.28 linux-2.6.31 linux-6 thrash-2009 \
             thrash-2010 fixed distance adaptive lseek snap-eof backwards PAGE+COUNT @POS:LEN \
             NAME: seek: hint: advise:random",
        ),
    ];
    for (verb, flags) in verbs {
        let help = stdout(&["explain", verb, "--help"]);
        for flag in words(flags) {
            assert!(help.contains(flag), "{verb}: {flag} is not in its help");
        }
        for part in ["Usage:", "Examples:", "Units:", "Exit codes:"] {
            assert!(help.contains(part), "{verb}: no {part}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 150), "{verb}: too wide");
    }
    for args in [["--help"].as_slice(), &["explain", "--help"], &["-h"], &["--version"]] {
        assert!(stdout(args).contains("foreread"), "{args:?}");
    }
}

#[test]
fn the_examples_in_the_help_work() {
    for verb in ["geometry", "itable", "readahead"] {
        let help = stdout(&["explain", verb, "--help"]).replace("\\\n", " ");
        let examples: Vec<_> =
            help.lines().filter_map(|line| line.trim().strip_prefix("foreread-lab ")).collect();
        assert!(examples.len() >= 2, "{verb}");
        for example in examples {
            assert!(!stdout(&words(example)).is_empty(), "{example}");
        }
    }
}

#[test]
fn no_colour_where_no_person_looks() {
    for line in ["explain geometry 64M", "explain --help", "explain readahead 0+1"] {
        assert!(!stdout(&words(line)).contains('\x1b'), "{line}");
    }
}

#[test]
fn a_pipe_that_closes_ends_the_answer_without_a_word() {
    // A hundred thousand lines: more than any pipe holds.
    let mut child = command(&words("explain readahead --max-pages 1 0+100000"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command(&words("explain geometry 64M")).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stderr.starts_with(b"foreread-lab: cannot write"));
}
