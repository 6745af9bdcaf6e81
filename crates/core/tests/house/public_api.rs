//! The public API of the libraries, as lists in the tree: a change of the API is a change of a
//! list.
//!
//! In:    sources as rustfmt writes them.
//! Out:   a line for each public item of an exported type.
//! Never: a full parser. Items that macros make are not listed.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::{Source, root, shipped, sources};

/// The crates that programs link.
const LIBRARIES: [&str; 2] = ["crates/engine", "crates/object"];

/// `BLESS=1` writes the lists.
#[test]
fn the_public_api_is_listed() {
    for folder in LIBRARIES {
        let list = public_api(folder);
        let path = root().join(folder).join("public-api.txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &list).expect("the list can be written");
        }
        let listed = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = listed.lines().zip(list.lines()).find(|(was, is)| was != is);
        assert!(
            listed == list,
            "{folder}/public-api.txt is not of today: {differs:?}. If the change of the API is \
             meant, write the list with BLESS=1, and review its diff"
        );
    }
}

/// The public items of a crate: what its root exports, and the public methods and fields of these.
fn public_api(folder: &str) -> String {
    let in_crate = |file: &Source| {
        Path::new(&file.path).starts_with(Path::new(folder).join("src"))
            && !file.path.ends_with("/tests.rs")
            && !file.path.contains("/tests/")
    };
    let files: Vec<String> =
        sources().into_iter().filter(in_crate).map(|file| shipped(&file.text)).collect();
    let lib = Source::named(&format!("{folder}/src/lib.rs")).expect("a library");
    let exports = exports(&lib.text);
    let mut api: BTreeSet<String> = exports.iter().map(|name| format!("pub use {name}")).collect();
    let names: BTreeSet<&str> =
        exports.iter().map(|path| path.rsplit("::").next().unwrap_or(path)).collect();
    for text in &files {
        items(text, &names, &mut api);
    }
    api.into_iter().map(|line| line + "\n").collect()
}

/// The paths that a crate's root exports: `pub use a::{b, c};` has two.
fn exports(lib: &str) -> Vec<String> {
    let mut exports = Vec::new();
    for statement in lib.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let statement = one_line(statement);
        match statement.split_once("::{") {
            Some((module, names)) => {
                let names = names.trim_end_matches('}').split(',').map(str::trim);
                let names = names.filter(|name| !name.is_empty());
                exports.extend(names.map(|name| format!("{module}::{name}")));
            }
            None => exports.push(statement),
        }
    }
    exports
}

/// Adds the lines of the items in `text` that belong to one of `names`.
fn items(text: &str, names: &BTreeSet<&str>, api: &mut BTreeSet<String>) {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_item = ["pub struct ", "pub enum ", "pub trait ", "impl", "pub fn ", "pub const "];
        if !is_item.iter().any(|item| line.starts_with(item)) {
            continue;
        }
        let mut head = line.to_owned();
        while !head.contains(['{', ';']) {
            let Some(next) = lines.next() else { break };
            head = format!("{head} {}", next.trim());
        }
        let is_whole = head.ends_with([';', '}']);
        let head = one_line(head.split(" {").next().unwrap_or(&head).trim_end_matches(';'));
        let subject = subject(&head);
        let is_inherent = head.starts_with("impl") && !head.contains(" for ");
        if !names.contains(subject) {
            continue;
        }
        if !is_inherent {
            // The private fields of a tuple are no part of it.
            let private = if head.starts_with("pub struct ") { head.find('(') } else { None };
            api.insert(head[..private.unwrap_or(head.len())].to_owned());
        }
        if is_whole {
            continue;
        }
        let is_open = head.starts_with("pub enum ") || head.starts_with("pub trait ");
        let mut depth = 1;
        let mut member = String::new();
        for line in lines.by_ref() {
            if line == "}" {
                break;
            }
            let text = line.trim();
            if depth == 1 && member.is_empty() {
                let is_member = line.starts_with("    ") && !line.starts_with("     ");
                let is_public = text.starts_with("pub ") && !text.starts_with("pub(");
                let is_listed = is_public || (is_open && !text.starts_with(['#', '/', '}']));
                if is_member && is_listed && !head.contains(" for ") {
                    member = text.to_owned();
                }
            } else if depth == 1 {
                member = format!("{member} {text}");
            }
            let is_field = text.ends_with(',') && depth == 1 && !member.contains('(');
            if !member.is_empty() && (text.ends_with([';', '{', '}']) || is_field) {
                let signature = member.split(" {").next().unwrap_or(&member);
                let signature = one_line(signature.trim_end_matches([',', ';']));
                api.insert(format!("{subject}: {signature}"));
                member.clear();
            } else if !member.is_empty() && text.ends_with("),") && is_open {
                api.insert(format!("{subject}: {}", one_line(member.trim_end_matches(','))));
                member.clear();
            }
            depth += text.matches('{').count();
            depth -= text.matches('}').count().min(depth);
        }
    }
}

/// The type of an item: of `impl<T> Trait for Type<T>` it is `Type`.
fn subject(head: &str) -> &str {
    let head = head.split(" where ").next().unwrap_or(head);
    let name = match head.split_once(" for ") {
        Some((_, name)) => name,
        None if head.starts_with("impl<") => after_parameters(head),
        None => head.trim_start_matches("pub ").split_once(' ').map_or(head, |(_, name)| name),
    };
    let name = name.trim_start_matches(['&', '\'', ' ']);
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(name)
}

/// The rest of `impl<..> ..` behind its parameters.
fn after_parameters(head: &str) -> &str {
    let mut depth = 0;
    let is_end = |(_, c): &(usize, char)| {
        depth += i32::from(*c == '<') - i32::from(*c == '>');
        *c == '>' && depth == 0
    };
    head.char_indices().find(is_end).map_or(head, |(at, _)| &head[at + 1..])
}

/// The words of a text, with the breaks that rustfmt made taken back.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace("( ", "(").replace(", )", ")").replace(",)", ")")
}

#[test]
fn an_api_is_read_from_sources() {
    let text = "pub struct A<T> {\n    pub field: u64,\n    hidden: u64,\n}\nimpl<T> A<T> {\n    \
                pub fn long(\n        &self,\n        at: u64,\n    ) -> u64 {\n        { 1 }\n    \
                }\n    pub(crate) fn no(&self) {}\n    pub fn short(self) -> Self { self }\n}\nimpl \
                Drop for A {\n    fn drop(&mut self) {}\n}\npub enum B {\n    C,\n    D(u64),\n}\n\
                pub struct Other;\n";
    let mut api = BTreeSet::new();
    items(text, &BTreeSet::from(["A", "B"]), &mut api);
    let expected = [
        "A: pub field: u64",
        "A: pub fn long(&self, at: u64) -> u64",
        "A: pub fn short(self) -> Self",
        "B: C",
        "B: D(u64)",
        "impl Drop for A",
        "pub enum B",
        "pub struct A<T>",
    ];
    assert_eq!(api, expected.map(str::to_owned).into());
}
