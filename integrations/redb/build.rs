//! Prepares the tests of redb itself, to be run on this backend: `--features redb-tests`.
//!
//! In:    the sources of the redb that is used here, found by `cargo metadata`.
//! Out:   its tests with `Database::create`, `Builder::open` and the like replaced by calls that
//!        open the file through an engine, in `OUT_DIR`.
//! Never: a copy of redb's tests in this repository.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// The files of `tests/` that are run. Left out: `backward_compatibility` and `niche_tests` need a
/// redb 2.6 beside this one,
/// `multiprocess_tests` has several processes share a file, which this backend
/// does not offer.
const TESTS: [&str; 13] = [
    "abort_tests",
    "basic_tests",
    "borrow_markers",
    "check_integrity_failure",
    "check_integrity_nondurable",
    "corrupted_btree_descent",
    "corruption_repair",
    "crash_consistency",
    "cursor_tests",
    "integration_tests",
    "multimap_tests",
    "multithreading_tests",
    "savepoint_integrity",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_REDB_TESTS").is_none() {
        return;
    }
    let tests = redb_sources().join("tests");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut modules = String::new();
    for name in TESTS {
        let path = tests.join(name).with_extension("rs");
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        fs::write(out.join(name).with_extension("rs"), on_the_engine(&text)).expect("OUT_DIR");
        modules.push_str(&format!("#[path = \"{name}.rs\"]\nmod {name};\n"));
    }
    fs::write(out.join("redb_tests.rs"), modules).expect("OUT_DIR");
}

fn redb_sources() -> PathBuf {
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", &target])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("metadata lists packages");
    let redb = packages.iter().find(|package| package["name"] == "redb").expect("redb is used");
    let manifest = PathBuf::from(redb["manifest_path"].as_str().expect("a package has a manifest"));
    manifest.parent().expect("a manifest lies in a folder").to_owned()
}

/// The text of a test file, with each file of a database opened through an engine.
fn on_the_engine(text: &str) -> String {
    let mut out =
        "use crate::on_engine::{BuilderOnEngine as _, FileOnEngine as _, OpenOnEngine as _};\n"
            .to_owned();
    for line in text.lines() {
        // What only the root of a crate may have.
        if line.starts_with("#![") || line.starts_with("//!") {
            continue;
        }
        let line = replace_word(line, "redb::", "crate::redb::");
        let line = replace_word(&line, "Database::create(", "crate::on_engine::create(");
        let line = replace_word(&line, "Database::open(", "crate::on_engine::open(");
        // `OpenOptions::create` of the standard library takes a flag.
        let line = match line.contains(".create(true)") {
            true => line,
            false => line.replace(".create(", ".create_on_engine("),
        };
        out.push_str(&line.replace(".open(", ".open_on_engine("));
        out.push('\n');
    }
    out
}

/// Replaces `from` where it does not begin in the middle of a name.
fn replace_word(line: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(from) {
        let is_in_a_name =
            rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        out.push_str(&rest[..at]);
        out.push_str(if is_in_a_name { from } else { to });
        rest = &rest[at + from.len()..];
    }
    out + rest
}
