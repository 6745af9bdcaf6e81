//! Reads the source tree: its files, the code without its comments, and the manifests.
//!
//! In:    the text of a file.
//! Out:   the parts that the house rules speak of.
//! Never: a full parser. What these few lines misread would be rejected in review anyway.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the repository.
pub(crate) struct Source {
    /// From the root, as in `crates/core/src/lib.rs`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|e| e == extension)
    }

    /// A file of the root, or None if there is no such file.
    pub(crate) fn named(path: &str) -> Option<Self> {
        let text = fs::read_to_string(root().join(path)).ok()?;
        Some(Self { path: path.to_owned(), text })
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a workspace")
}

/// Every text file that belongs to the repository, in the order of their paths.
pub(crate) fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut paths);
    }
    let files = fs::read_dir(root()).expect("the root can be read").map(|e| e.unwrap().path());
    paths.extend(files.filter(|path| path.is_file()));
    paths.sort();
    let texts = paths.into_iter().filter(|path| is_text(path)).map(|path| Source {
        path: path.strip_prefix(root()).unwrap().to_str().expect("plain names").to_owned(),
        text: fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
    });
    texts.collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            collect(&path, paths);
        } else if path.is_file() {
            paths.push(path);
        }
    }
}

fn is_text(path: &Path) -> bool {
    match path.extension() {
        Some(extension) => TEXT.iter().any(|text| extension == *text),
        None => SCRIPTS.iter().any(|script| path.ends_with(script)),
    }
}

/// The code with its comments and the contents of its literals blanked; lines stay where they are.
pub(crate) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let skipped = match rest[0] {
            b'/' if rest.starts_with(b"//") => until(rest, b"\n"),
            b'/' if rest.starts_with(b"/*") => until(rest, b"*/") + 2,
            b'"' => 1 + quoted(&rest[1..], b'"'),
            b'r' if !is_word(at.checked_sub(1).map(|at| bytes[at])) => raw_string(rest),
            // A lifetime has no second quote where a character literal has it.
            b'\'' if rest.get(1) == Some(&b'\\') => 1 + quoted(&rest[1..], b'\''),
            b'\'' if rest.get(2) == Some(&b'\'') => 3,
            _ => 0,
        };
        let skipped = skipped.min(rest.len());
        if skipped == 0 {
            code.push(rest[0]);
            at += 1;
        } else {
            code.extend(rest[..skipped].iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }));
            at += skipped;
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// How many bytes lie before `end`.
fn until(bytes: &[u8], end: &[u8]) -> usize {
    bytes.windows(end.len()).position(|window| window == end).unwrap_or(bytes.len())
}

/// The length of a literal whose opening quote is behind us, with its closing quote.
fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The length of the raw string that begins here, or 0.
fn raw_string(bytes: &[u8]) -> usize {
    let hashes = bytes[1..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end = [b"\"".as_slice(), &bytes[1..=hashes]].concat();
    2 + hashes + until(&bytes[2 + hashes..], &end) + end.len()
}

fn is_word(byte: Option<u8>) -> bool {
    byte.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The lines, from 1, on which `word` stands by itself.
pub(crate) fn lines_with(code: &str, word: &str) -> Vec<usize> {
    let stands_alone = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let bytes = line.as_bytes();
            let before = at.checked_sub(1).map(|at| bytes[at]);
            !is_word(before) && !is_word(bytes.get(at + word.len()).copied())
        })
    };
    (1..).zip(code.lines()).filter(|(_, line)| stands_alone(line)).map(|(n, _)| n).collect()
}

/// The code without the items that only tests and model checkers build.
pub(crate) fn shipped(code: &str) -> String {
    let mut shipped = code.to_owned();
    while let Some((start, end)) = first_unshipped(&shipped) {
        let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
        let blanked: String = shipped[start..end].chars().map(blank).collect();
        shipped.replace_range(start..end, &blanked);
    }
    shipped
}

/// Where the first item under `cfg(test)` or `cfg(loom)` begins and ends.
fn first_unshipped(code: &str) -> Option<(usize, usize)> {
    for (start, _) in code.match_indices("#[cfg(") {
        let condition = &code[start..start + item_end(&code[start + 1..]) + 1];
        let line = condition.lines().next().unwrap_or(condition);
        let attribute = &line[..line.find(']').map_or(line.len(), |at| at + 1)];
        let is_negated = attribute.contains("not(");
        if !is_negated && (attribute.contains("test") || attribute.contains("loom")) {
            return Some((start, start + condition.len()));
        }
    }
    None
}

/// The length of the item that begins here: to its `;` or to the end of its block.
fn item_end(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' => depth -= 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// A dependency as a manifest names it.
pub(crate) struct Dependency {
    /// The section, as in `dev-dependencies` or `target.'cfg(loom)'.dependencies`.
    pub(crate) section: String,
    pub(crate) name: String,
}

/// The dependencies in a `Cargo.toml`.
pub(crate) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in manifest.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            header.clone_into(&mut section);
            // `[dependencies.name]`
            if let Some((parent, name)) = header.rsplit_once('.')
                && parent.ends_with("dependencies")
            {
                found.push(Dependency { section: parent.to_owned(), name: name.to_owned() });
            }
        } else if section.ends_with("dependencies")
            && let Some((key, _)) = line.split_once('=')
        {
            let name = key.split('.').next().unwrap_or(key).trim();
            found.push(Dependency { section: section.clone(), name: name.to_owned() });
        }
    }
    found
}

/// Where the repository keeps its texts, besides the root itself.
const FOLDERS: [&str; 7] = ["crates", "docs", "examples", "fuzz", "scenarios", "bench", ".ci"];

const TEXT: [&str; 5] = ["rs", "toml", "md", "sh", "py"];

const SCRIPTS: [&str; 2] = ["dev", ".ci/run"];

#[test]
fn comments_and_literals_are_not_code() {
    let text = "a(\"std::\\\"x\", 'u', '\\'', r#\"std::\"#); // std::\n/* std:: */ b::<'static>()";
    let code = code_of(text);
    assert!(!code.contains("std"), "{code}");
    assert!(code.contains("b::<'static>()"), "{code}");
    assert_eq!(code.len(), text.len());
}

#[test]
fn what_only_tests_build_is_not_shipped() {
    let code = "use a;\n#[cfg(test)]\nmod tests {\n  fn f() {}\n}\n#[cfg(not(loom))]\nuse b;\n\
                #[cfg(loom)]\nuse c;\nuse d;";
    let kept: String = shipped(code).split_whitespace().collect();
    assert_eq!(kept, "usea;#[cfg(not(loom))]useb;used;");
}
