//! Systems for tests: a folder with `sys` and `proc` from a short text.
//!
//! In:    lines `path: value` below the folder that the last `[line in brackets]` names; a path
//!        that comes again adds a line to its file; `#` begins a comment.
//! Out:   a temporary folder that looks like the root of such a system.
//! Never: a real attribute.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The trees, in the order of the golden reports.
pub const TREES: [&str; 8] = [
    "laptop",
    "usb-stick",
    "nvme-io-opt",
    "cloud-disk",
    "dm-odd-partition",
    "loop",
    "md",
    "tuned-by-hand",
];

/// Builds the system of this name.
pub fn tree(name: &str) -> TempDir {
    let path = here().join("trees").join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    built(&text)
}

/// Builds the system that a text describes.
pub fn built(text: &str) -> TempDir {
    let root = TempDir::new().expect("a folder");
    let mut folder = PathBuf::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            folder = root.path().join(name);
            continue;
        }
        let (path, value) = line.split_once(':').unwrap_or_else(|| panic!("{line}: no colon"));
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, format!("{before}{}\n", value.trim_start())).expect("it is written");
    }
    root
}

/// Compares with a golden file, or writes it if BLESS is set.
#[track_caller]
pub fn golden(name: &str, text: &str) {
    let path = here().join("golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, text).expect("it is written");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(expected, text, "{name}: if this change is meant, ./dev golden");
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tune/tests/it/doctor")
}
