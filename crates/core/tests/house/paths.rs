//! Only `crates/files` creates, replaces or removes a path in the file system; and the library does
//! where its caller asks for a file that does not exist.
//!
//! In:    the shipped code of every crate.
//! Out:   each call that does so elsewhere, as `file:line: what`.
//! Never: another exception. A call that is needed becomes a function of that crate.
//!
//! Why not clippy's disallowed methods: they hold for tests, too, whose files are their own.

use super::source::{code_of, lines_with, shipped};
use super::{none, rust};

/// Words that stand for such a call wherever they are.
const WORDS: [&str; 36] = [
    "fs::write",
    "fs::copy",
    "fs::link",
    "fs::rename",
    "fs::symlink",
    "File::create",
    "File::create_new",
    "DirBuilder",
    "UnixListener",
    "UnixDatagram",
    "SocketAddrUnix",
    "OFlags::CREATE",
    "OFlags::TMPFILE",
    "OFlags::TRUNC",
    "tempfile",
    ".create",
    "create_new",
    "create_dir",
    "create_dir_all",
    "remove_file",
    "remove_dir",
    "remove_dir_all",
    "hard_link",
    "set_permissions",
    "chmod",
    "chmodat",
    "fchmod",
    "linkat",
    "mkdir",
    "mkdirat",
    "mknodat",
    "renameat",
    "renameat_with",
    "symlinkat",
    "unlink",
    "unlinkat",
];

/// Words that mean other things, too: only a call counts.
const CALLS: [&str; 3] = ["rename", "symlink", "truncate(true)"];

/// What a program may ask the library for, as it asks std for it.
const LIBRARY: [&str; 3] = [
    "crates/engine/src/backend/create.rs",
    "crates/engine/src/open_file.rs",
    "crates/engine/src/open_options.rs",
];

#[test]
fn only_one_crate_creates_replaces_or_removes_paths() {
    let mut breaches = Vec::new();
    for file in rust() {
        let is_shipped = file.path.starts_with("crates/")
            && file.path.contains("/src/")
            && !file.path.starts_with("crates/files/")
            && !LIBRARY.contains(&file.path.as_str())
            // It has no std and no dependency: its words are those of its own lists.
            && !file.path.starts_with("crates/core/")
            && !file.path.ends_with("/tests.rs")
            && !file.path.contains("/tests/");
        if !is_shipped {
            continue;
        }
        for (line, word) in breaches_in(&shipped(&code_of(&file.text))) {
            breaches.push(format!("{}:{line}: {word}: use foreread-files", file.path));
        }
    }
    none(&breaches);
}

/// The lines, from 1, and the words on them.
fn breaches_in(code: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for word in WORDS {
        found.extend(lines_with(code, word).into_iter().map(|line| (line, word)));
    }
    let lines: Vec<&str> = code.lines().collect();
    for word in CALLS {
        let is_call = |line: &usize| {
            let text = lines[line - 1];
            let is_definition = text.contains(&format!("fn {word}"));
            !is_definition && (word.ends_with(')') || text.contains(&format!("{word}(")))
        };
        found.extend(lines_with(code, word).into_iter().filter(is_call).map(|line| (line, word)));
    }
    found
}

#[test]
fn such_calls_are_found() {
    let code = "fn f() {\n  std::fs::write(p, b);\n  rename(a, b);\n  File::options().create(true)\n}\n\
                #[serde(rename = x)]\nfn link(&self) {}\nOpenOptions::new().truncate(true)\nv.truncate(1)\n";
    let lines: Vec<_> = breaches_in(code).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [2, 4, 3, 8]);
}
