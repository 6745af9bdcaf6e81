//! The house rules that a machine can check: dependencies, where `unsafe` lives, and tidiness.
//!
//! In:    the source tree.
//! Out:   every breach at once, as `file:line: what`.
//! Never: a rule that is not in CONTRIBUTING.md or ARCHITECTURE.md.

#![cfg(not(loom))]
#![expect(clippy::wildcard_enum_match_arm, reason = "syn may add variants to its enums")]

#[path = "house/modules.rs"]
mod modules;
#[path = "house/paths.rs"]
mod paths;
#[path = "house/places.rs"]
mod places;
#[path = "house/prose.rs"]
mod prose;
#[path = "house/public_api.rs"]
mod public_api;
#[path = "house/source.rs"]
mod source;
#[path = "house/structure.rs"]
mod structure;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use places::{HOUSE, Place};
use source::{Source, code_of, dependencies, lines_with, root, shipped, sources};

/// The only files with `unsafe` in them.
const UNSAFE: [&str; 22] = [
    "crates/core/src/sync.rs",
    "crates/engine/src/cachestat.rs",
    "crates/engine/src/owned_bytes.rs",
    "crates/engine/src/copy_racing.rs",
    "crates/engine/src/pool.rs",
    "crates/engine/src/ring/transfer.rs",
    "crates/engine/src/ring/vectors.rs",
    "crates/engine/src/ring/probe.rs",
    "crates/engine/src/ring/uring.rs",
    "crates/engine/src/ring/uring_shared.rs",
    "crates/engine/tests/allocations/counter.rs",
    "crates/engine/tests/fork.rs",
    "crates/engine/tests/fork_source.rs",
    "crates/object/tests/fork_store.rs",
    "crates/python/src/buffer.rs",
    "crates/python/src/pinned.rs",
    "crates/python/src/sim/residency.rs",
    "crates/record/src/listener.rs",
    "crates/record/src/registers.rs",
    "crates/record/src/started_command.rs",
    "crates/record/src/tracer.rs",
    "crates/tune/src/pages.rs",
];

#[test]
fn a_crate_uses_only_the_crates_below_it() {
    let mut breaches = Vec::new();
    for manifest in manifests() {
        let Some(folder) =
            manifest.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let place = HOUSE.iter().find(|place| place.folder == folder);
        let Some(Place { ours, others, .. }) = place else {
            breaches.push(format!("{}: a crate without a place in the house", manifest.path));
            continue;
        };
        for dependency in dependencies(&manifest.text) {
            let (section, name) = (dependency.section, dependency.name);
            let is_for_tests = section.ends_with("dev-dependencies")
                || (section == "target.'cfg(loom)'.dependencies" && name == "loom");
            let is_allowed = if name.starts_with("foreread") {
                ours.contains(&name.as_str())
            } else {
                others.is_none_or(|others| others.contains(&name.as_str()))
            };
            if !is_for_tests && !is_allowed {
                breaches.push(format!("{}: {section} must not name {name}", manifest.path));
            }
        }
    }
    none(&breaches);
}

/// Each integration-test binary is linked alone: 175 of them took longer to link than to run.
#[test]
fn integration_tests_are_few_binaries() {
    let binaries: Vec<String> = rust()
        .map(|file| file.path)
        .filter(|path| {
            !path.contains("/src/")
                && path.split_once("/tests/").is_some_and(|(_, rest)| {
                    !rest.contains('/')
                        || rest.ends_with("/main.rs") && rest.matches('/').count() == 1
                })
        })
        .collect();
    assert!(binaries.len() <= 35, "{} binaries: {binaries:#?}", binaries.len());
}

/// A child that a test starts holds the files of all other tests until it executes its program: a
/// mount is busy, a program that was just written cannot be run.
#[test]
fn tests_of_one_process_start_children_one_at_a_time() {
    let is_shared = |path: &str| {
        ["cli", "engine", "ext4", "tune"]
            .iter()
            .any(|name| path.starts_with(&format!("crates/{name}/tests/it/")))
    };
    let starts = |line: &str| line.starts_with("use std::process::") && line.contains("Command");
    let files = rust().filter(|file| is_shared(&file.path) && file.text.lines().any(starts));
    let breaches = files.map(|file| format!("{}: use crate::common::Command", file.path));
    none(&breaches.collect::<Vec<_>>());
}

#[test]
fn every_dependency_has_its_reason_in_the_architecture() {
    let architecture = Source::named("ARCHITECTURE.md").expect("ARCHITECTURE.md");
    let section = architecture.text.split("\n## Dependencies").nth(1).expect("## Dependencies");
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter_map(|line| line.trim().strip_prefix('|'));
    let explained: BTreeSet<String> = rows
        .filter_map(|row| row.split('|').next())
        .map(|cell| cell.trim().trim_matches('`').to_owned())
        .filter(|name| name != "crate" && !name.starts_with(['-', ':']))
        .collect();

    let mut used = BTreeSet::new();
    for manifest in manifests() {
        used.extend(dependencies(&manifest.text).into_iter().map(|dependency| dependency.name));
    }
    used.retain(|name| !name.starts_with("foreread"));

    let unexplained = used.difference(&explained).map(|name| format!("{name}: why do we use it?"));
    let unused = explained.difference(&used).map(|name| format!("{name}: no manifest names it"));
    none(&unexplained.chain(unused).collect::<Vec<_>>());
}

#[test]
fn unsafe_lives_in_few_files_and_each_says_why_it_is_sound() {
    let mut breaches = Vec::new();
    for file in rust() {
        let lines: Vec<&str> = file.text.lines().collect();
        for line in lines_with(&code_of(&file.text), "unsafe") {
            if !UNSAFE.contains(&file.path.as_str()) {
                breaches.push(format!("{}:{line}: no unsafe here", file.path));
            }
            let above = lines[..line].iter().rev().take_while(|line| !line.trim().is_empty());
            if !above.take(30).any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
                breaches.push(format!("{}:{line}: unsafe without a SAFETY: above it", file.path));
            }
        }
    }
    none(&breaches);
}

#[test]
fn the_core_names_nothing_of_std() {
    let mut breaches = Vec::new();
    for file in rust().filter(|file| file.path.starts_with("crates/core/src/")) {
        for line in lines_with(&shipped(&code_of(&file.text)), "std") {
            breaches.push(format!("{}:{line}: std in the core", file.path));
        }
    }
    none(&breaches);
}

/// The compiler's proof: with nothing but `core` and `alloc` to be found, the core still compiles.
#[test]
fn the_core_builds_where_there_is_no_std() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-std");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).expect("a scratch folder");
    let target = bare_target(&scratch);

    // The control: what needs std must not compile there, or the proof would prove nothing.
    let control = scratch.join("control.rs");
    fs::write(&control, "#![no_std]\nextern crate std;\n").expect("a control");
    let complaint = compile(&control, &target, &scratch).expect_err("std is within reach");
    assert!(complaint.contains("`std`"), "the control failed for another reason:\n{complaint}");

    if let Err(complaint) = compile(&root().join("crates/core/src/lib.rs"), &target, &scratch) {
        panic!("the core needs more than core and alloc:\n{complaint}");
    }
}

/// Compiler flags for a target without std: one that is installed, or this machine's own with
/// nothing but `core` and `alloc` in its library.
fn bare_target(scratch: &Path) -> Vec<String> {
    let rustc = |args: &[&str]| {
        let output = Command::new(rustc()).args(args).current_dir(root()).output().expect("rustc");
        String::from_utf8(output.stdout).expect("rustc prints text")
    };
    let library = PathBuf::from(rustc(&["--print", "sysroot"]).trim()).join("lib/rustlib");
    for target in ["x86_64-unknown-none", "aarch64-unknown-none"] {
        if library.join(target).join("lib").is_dir() {
            return vec!["--target".into(), target.into()];
        }
    }
    let version = rustc(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let few = scratch.join("sysroot/lib/rustlib").join(host).join("lib");
    fs::create_dir_all(&few).expect("a library folder");
    for entry in fs::read_dir(library.join(host).join("lib")).expect("a library") {
        let (path, name) = entry.map(|e| (e.path(), e.file_name())).expect("an entry");
        let is_bare = ["libcore-", "liballoc-", "libcompiler_builtins-"]
            .iter()
            .any(|bare| name.to_string_lossy().starts_with(bare));
        if is_bare {
            std::os::unix::fs::symlink(path, few.join(name)).expect("a link");
        }
    }
    vec!["--sysroot".into(), scratch.join("sysroot").display().to_string()]
}

fn compile(crate_root: &Path, target: &[String], scratch: &Path) -> Result<(), String> {
    let output = Command::new(rustc())
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata"])
        .args(["--cap-lints", "allow", "-o"])
        .arg(scratch.join("out.rmeta"))
        .args(target)
        .arg(crate_root)
        .current_dir(root())
        .output()
        .expect("rustc");
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into())
    }
}

fn rustc() -> String {
    std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into())
}

#[test]
fn files_open_with_what_they_are_for() {
    let mut breaches = Vec::new();
    for file in rust() {
        if !file.text.starts_with("//! ") {
            breaches.push(format!("{}:1: no //! that says what the file is for", file.path));
        }
    }
    none(&breaches);
}

#[test]
fn texts_are_tidy() {
    // In pieces, so that this file may name them.
    let unwanted =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("for ", "now")];
    let mut breaches = Vec::new();
    for file in sources() {
        for (n, line) in (1..).zip(file.text.lines()) {
            let mut breach = |what: &str| breaches.push(format!("{}:{n}: {what}", file.path));
            if !line.is_ascii() && !file.has_extension("md") {
                breach("not ASCII");
            }
            if line.trim_end() != line {
                breach("white space at the end");
            }
            if line.contains('\t') {
                breach("a tab");
            }
            // Code is rustfmt's affair, and it leaves long literals alone.
            let is_code = file.has_extension("rs") && !line.trim_start().starts_with("//");
            let may_be_long = is_code
                || file.has_extension("toml")
                || line.contains("://")
                || line.contains("](")
                || line.trim_start_matches(['/', '!', ' ']).starts_with('|');
            if line.chars().count() > 100 && !may_be_long {
                breach("longer than 100 columns");
            }
            for word in unwanted.iter().filter(|word| !lines_with(line, word).is_empty()) {
                breach(&format!("'{word}': do it, or open an issue"));
            }
        }
        if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
            breaches.push(format!("{}: does not end with one line feed", file.path));
        }
    }
    none(&breaches);
}

/// A technical sentence names its actor: the driver, the reader thread, the caller, the device.
#[test]
fn texts_name_their_actors() {
    let unnamed = [
        concat!("no", "body"),
        concat!("some", "body"),
        concat!("any", "body"),
        concat!("every", "body"),
        concat!("who", "ever"),
    ];
    // What an engineer of the field would not write, and what a reader stumbles over.
    let private = [
        concat!("came to ", "nothing"),
        concat!("comes to ", "nothing"),
        concat!("what it ", "came to"),
        concat!("whatever ", "they are"),
        concat!("for ever, ", "unless"),
        concat!("as far as ", "is known"),
        concat!("by ", "and by"),
        concat!("sees to ", "what"),
    ];
    let mut breaches = Vec::new();
    for file in sources() {
        for (n, line) in (1..).zip(file.text.lines()) {
            let text = line.trim_start_matches(['/', '!', '#', '-', '*', '|', '>', ' ']);
            if text.starts_with("Who ") || text.contains(concat!(". ", "Who ")) {
                breaches.push(format!("{}:{n}: who is that?", file.path));
            }
            let line = line.to_lowercase();
            for phrase in private.iter().filter(|phrase| line.contains(*phrase)) {
                breaches.push(format!("{}:{n}: '{phrase}': in plain words?", file.path));
            }
            let mut words = line.split(|c: char| !c.is_alphanumeric());
            if let Some(word) = words.find(|word| unnamed.contains(word)) {
                breaches.push(format!("{}:{n}: '{word}' does what?", file.path));
            }
        }
    }
    none(&breaches);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut breaches = Vec::new();
    for file in sources().into_iter().filter(|file| file.has_extension("md")) {
        for (line, link) in links(&file.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
            let target = match path {
                "" => root().join(&file.path),
                _ => root().join(folder).join(path),
            };
            let leads = target.exists()
                && (anchor.is_empty()
                    || fs::read_to_string(&target).is_ok_and(|text| has_anchor(&text, anchor)));
            if !leads {
                breaches.push(format!("{}:{line}: {link} leads nowhere", file.path));
            }
        }
    }
    none(&breaches);
}

/// The targets of `[text](target)` outside of code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut is_code = false;
    for (n, line) in (1..).zip(text.lines()) {
        is_code ^= line.trim_start().starts_with("```");
        // Every second piece between backquotes is code.
        for piece in line.split('`').step_by(2).filter(|_| !is_code) {
            let targets = piece.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            links.extend(targets.map(|target| (n, target.trim())));
        }
    }
    links
}

/// Whether a heading of `text` gets this anchor on a code host.
fn has_anchor(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim().to_lowercase()).any(|heading| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).eq(anchor.chars())
    })
}

fn manifests() -> impl Iterator<Item = Source> {
    sources().into_iter().filter(|file| file.path.ends_with("Cargo.toml"))
}

fn rust() -> impl Iterator<Item = Source> {
    sources().into_iter().filter(|file| file.has_extension("rs"))
}

#[track_caller]
fn none(breaches: &[String]) {
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}
