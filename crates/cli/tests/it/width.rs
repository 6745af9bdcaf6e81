//! Output is not wider than the terminal, and no word is cut in two.
//!
//! In:    `COLUMNS`; the commands whose output is prose and tables.
//! Out:   lines that fit, made of the words that there are without a width.
//! Never: a wider line, unless one word alone is too long.

use crate::common::Command;
use crate::tree;

use std::collections::BTreeSet;

use crate::said::program;
use tree::{TREES, tree};

fn printed(args: &[&str], columns: Option<usize>) -> String {
    let mut command = Command::new(program(args));
    command.args(args).env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns.to_string());
    }
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

fn fits(args: &[&str], text: &str, columns: usize) {
    for line in text.lines() {
        let longest = line.split_whitespace().map(str::len).max().unwrap_or(0);
        let is_one_word = longest > columns / 2;
        let width = line.chars().count();
        assert!(width <= columns || is_one_word, "{args:?} at {columns}: {width}: {line}");
    }
}

/// Its words at any width are those that it has where nothing says how wide it may be.
fn is_whole_at_each_width(args: &[&str]) {
    let whole = printed(args, None);
    assert!(!whole.is_empty(), "{args:?}");
    let words: BTreeSet<&str> = whole.split_whitespace().collect();
    for columns in WIDTHS {
        let text = printed(args, Some(columns));
        fits(args, &text, columns);
        // A backslash is where a command goes on.
        let cut = text.split_whitespace().find(|word| !words.contains(word) && *word != "\\");
        assert_eq!(cut, None, "{args:?} at {columns}: {text}");
    }
}

#[test]
fn reports_and_tables_fit() {
    for args in [
        "explain geometry 64M 255M 1870001s 4G",
        "seeds 000",
        "seeds 004",
        "sim grid 0.15ms-1x-180MB-1024K",
        "sim rivals random-64k --policy linux-6 adaptive",
        "sim rivals random-64k --policy linux-6 adaptive --summary",
        "sim ../sim/scenarios/rivals/heads.toml --policy none linux-6 adaptive --seeds 2",
        "tune --device usb-stick-2g --seconds 15",
        "tune --device intel-x25m-80g --profile database",
    ] {
        is_whole_at_each_width(&args.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn findings_of_doctor_fit() {
    for name in TREES {
        let root = tree(name);
        is_whole_at_each_width(&["doctor", "--root", root.path().to_str().unwrap()]);
    }
}

/// Figures differ from run to run: only the width can be compared.
#[test]
fn measurements_fit() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(16 << 20).unwrap();
    let file = file.path().to_str().unwrap();
    for columns in WIDTHS {
        let bench = ["bench", file, "--pattern", "seq4k,rand4k", "--runs", "1", "--amount", "1M"];
        fits(&bench, &printed(&bench, Some(columns)), columns);
    }
    let demo = ["demo", file, "--runs", "1", "--delay", "latency=100us,parallel=8"];
    fits(&demo, &printed(&demo, Some(60)), 60);
}

const WIDTHS: [usize; 3] = [60, 80, 120];
