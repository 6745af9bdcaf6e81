//! How the house is built: no circles between files, names that mean one thing, short functions
//! and files.
//!
//! In:    the source of every crate; for the last two rules also tests and examples.
//! Out:   each breach; those of all crates at once.
//! Never: an exception without its reason.
//!
//! **A circle** is a set of files of one crate of which each reaches each other over arrows. A file
//! has an arrow to another if it names, in a `use`, a re-export or a path, something that the other
//! one defines. A name that a third file re-exports leads to the file that defines it. A `mod` line
//! and what only tests build draw no arrow, and a parent draws none to a child that names something
//! of the parent: the two are one thing, so only what leads back over a third file is a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use super::modules::{Arrows, arrows};
use super::source::{Source, code_of, root};
use super::{HOUSE, none, rust};

/// Files of more than `FILE_LINES_MAX` lines, and why each is one thing. Five at most.
const LONG_FILES: [(&str, &str); 0] = [];

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

/// Names of `std`, `bytes` and `futures` that stand for the same thing in every crate.
const TAKEN_NAMES: &str = "\
    Abortable Alignment Any Arc Args Barrier Borrow Bound Box Buf BufMut BufReader BufWriter \
    Builder Bytes BytesMut Cell Chain Chars Child Clone Command Condvar Context Copy Cow Cursor \
    Debug Default Deref Display Drain Drop Duration Either Entry Error ErrorKind File FileType \
    Filter Flatten Fn From Fuse Future Hash HashMap Hasher Instant Into IoSlice Iter Iterator \
    Join Layout Lines Location Map Metadata Mutex Once Option Ordering Output Path Peekable \
    Permissions Pin Poll Range Rc Read Reader Ready Ref Result Scope Seek Select Shared Sink \
    Skip Split Stream String Take Thread Vec Waker Write";

/// Where such a name is what a user of the crate looks for.
const EXCEPTIONS: [(&str, &str, &str); 2] = [
    ("crates/ext4/src/error.rs", "Error", "the error of the crate"),
    ("crates/engine/src/file.rs", "File", "the file of the library, in the place of std's"),
];

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut breaches = Vec::new();
    for place in HOUSE {
        let source = root().join("crates").join(place.folder).join("src");
        let main = ["lib.rs", "main.rs"].map(|name| source.join(name));
        let main = main.iter().find(|file| file.exists()).expect("a crate has a root");
        let arrows = arrows(main);
        for circle in circles(&arrows) {
            for file in &circle {
                let to = arrows[file].iter().filter(|(file, _)| circle.contains(*file));
                let to = to.map(|(to, names)| format!("{} ({names:?})", short(to)));
                let line = format!("{} -> {}", short(file), to.collect::<Vec<_>>().join(", "));
                breaches.push(line);
            }
        }
    }
    none(&breaches);
}

#[test]
fn a_type_name_has_at_most_two_meanings() {
    let mut types = BTreeMap::<String, Vec<String>>::new();
    for file in shipped_files() {
        for name in type_names(&file) {
            types.entry(name).or_default().push(file.path.clone());
        }
    }
    let mut breaches = Vec::new();
    for (name, files) in types.iter().filter(|(_, files)| files.len() > 2) {
        for file in files {
            let line = format!("{file}: {name}, one of {}", files.len());
            breaches.push(line);
        }
    }
    none(&breaches);
}

#[test]
fn no_type_hides_a_name_of_the_standard_library() {
    let mut breaches = Vec::new();
    let files: Vec<Source> = shipped_files().collect();
    let taken: BTreeSet<&str> = TAKEN_NAMES.split_whitespace().collect();
    for file in &files {
        for name in type_names(file).iter().filter(|name| taken.contains(name.as_str())) {
            if !EXCEPTIONS.iter().any(|(path, except, _)| *path == file.path && except == name) {
                let line = format!("{}: {name}", file.path);
                breaches.push(line);
            }
        }
    }
    none(&breaches);
}

#[test]
fn functions_end_where_the_screen_does() {
    let mut breaches = Vec::new();
    let files: Vec<Source> = rust().collect();
    for file in &files {
        for (line, lines) in functions(&code_of(&file.text)) {
            if lines > FUNCTION_LINES_MAX {
                let text = format!("{}:{line}: a function of {lines} lines", file.path);
                breaches.push(text);
            }
        }
    }
    none(&breaches);
}

#[test]
fn files_are_short() {
    let mut breaches = Vec::new();
    let files: Vec<Source> = rust().collect();
    for file in &files {
        let lines = file.text.lines().count();
        let is_excused = LONG_FILES.iter().any(|(path, _)| *path == file.path);
        if (lines > FILE_LINES_MAX) != is_excused {
            let line = format!("{}: {lines} lines; what are the two things in it?", file.path);
            breaches.push(line);
        }
    }
    assert!(LONG_FILES.len() <= 5);
    none(&breaches);
}

/// The sets of files of which each reaches each other.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<PathBuf>> {
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        arrows.keys().map(|file| (file, reached_from(arrows, file))).collect();
    let mut circles = Vec::new();
    for (file, others) in &reached {
        let is_back = |other: &&&PathBuf| reached.get(*other).is_some_and(|to| to.contains(*file));
        let circle: BTreeSet<PathBuf> =
            others.iter().filter(is_back).map(|file| (*file).clone()).collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reached_from<'a>(arrows: &'a Arrows, file: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&PathBuf> = arrows.get(file).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(arrows.get(next).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// The types that a file defines, inside of functions and test modules as well.
fn type_names(file: &Source) -> Vec<String> {
    struct Types(Vec<String>);
    impl Visit<'_> for Types {
        fn visit_item(&mut self, item: &syn::Item) {
            let ident = match item {
                syn::Item::Enum(item) => Some(&item.ident),
                syn::Item::Struct(item) => Some(&item.ident),
                syn::Item::Trait(item) => Some(&item.ident),
                syn::Item::Type(item) => Some(&item.ident),
                syn::Item::Union(item) => Some(&item.ident),
                _ => None,
            };
            self.0.extend(ident.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }
    let mut types = Types(Vec::new());
    types.visit_file(&syn::parse_file(&file.text).expect("what compiles can be parsed"));
    types.0
}

/// The first line of each function, from 1, and how many lines it has.
fn functions(code: &str) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let is_word = code[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let mut depth = 0;
        let end = code[start..].char_indices().find(|(_, c)| {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            (depth == 0 && matches!(c, '}' | ';')) || depth < 0
        });
        if let Some((length, '}')) = end
            && !is_word
        {
            let line = code[..start].lines().count().max(1);
            functions.push((line, code[start..start + length].lines().count()));
        }
    }
    functions
}

fn shipped_files() -> impl Iterator<Item = Source> {
    rust().filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
}

/// The folder of a file's crate, or the first folder of its path.
fn short(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

#[test]
fn the_length_of_a_function_is_known() {
    let code = "fn a();\nimpl A {\n    fn b(&self) -> [u8; 2] {\n        { 1 }\n    }\n}\n";
    assert_eq!(functions(code), [(3, 3)]);
}

#[test]
fn a_circle_is_found_and_a_line_is_not() {
    let arrow = |from: &str, to: &str| {
        let names = BTreeSet::from(["Name".to_owned()]);
        (PathBuf::from(from), BTreeMap::from([(PathBuf::from(to), names)]))
    };
    let line = Arrows::from([arrow("a", "b"), arrow("b", "c")]);
    assert_eq!(circles(&line), []);
    let circle = Arrows::from([arrow("a", "b"), arrow("b", "c"), arrow("c", "b")]);
    assert_eq!(circles(&circle), [BTreeSet::from(["b".into(), "c".into()])]);
}
