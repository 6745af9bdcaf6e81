//! The documents: what they show is what the commands print.
//!
//! `./dev golden` (BLESS=1) writes into them what the commands print today; the diff is the review.

use std::path::Path;

use crate::common::Command;

/// Every block of a document that shows `foreread` at work shows what it prints.
#[test]
fn the_documents_show_what_the_commands_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (document, blocks) in [
        ("docs/design/deadline.md", 6),
        ("docs/design/geometry.md", 5),
        ("docs/design/itable.md", 4),
        ("docs/design/readahead.md", 8),
        ("docs/lab/simulator.md", 1),
        ("docs/guide/tune.md", 1),
    ] {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        let mut printed = String::new();
        let mut count = 0;
        for (i, part) in text.split("```console\n").enumerate() {
            let (block, rest) = if i == 0 { ("", part) } else { part.split_at(end_of(part)) };
            // `./dev` builds and measures: its output is another on each machine.
            let is_ours = !block.is_empty() && !block.contains("./dev");
            count += usize::from(is_ours);
            printed += if i == 0 { "" } else { "```console\n" };
            printed += &if is_ours { as_printed(document, block) } else { block.to_owned() };
            printed += rest;
        }
        assert_eq!(count, blocks, "{document}");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(root.join(document), printed).unwrap();
        } else {
            assert_eq!(text, printed, "{document}: if this change is meant, ./dev golden");
        }
    }
}

fn end_of(part: &str) -> usize {
    part.find("```").expect("a block ends")
}

/// The block with the output that its commands have.
fn as_printed(document: &str, block: &str) -> String {
    let (mut before, mut printed) = (String::new(), String::new());
    for (script, _) in commands_shown(block) {
        let output = bash(&format!("{{ :\n{before}}} >/dev/null\n{script}"));
        printed += &format!("$ {script}");
        printed += &output.unwrap_or_else(|| panic!("{document}: {script} fails"));
        before += &script;
    }
    printed
}

/// A block's commands with their output. A command starts with `$` and goes on until bash finds it
/// whole.
fn commands_shown(block: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut is_complete = true;
    for line in block.split_inclusive('\n') {
        if let Some(first) = line.strip_prefix("$ ") {
            commands.push((first.to_owned(), String::new()));
            is_complete = false;
        } else {
            let (script, output) = commands.last_mut().unwrap();
            if is_complete { output.push_str(line) } else { script.push_str(line) }
        }
        let (script, _) = commands.last().unwrap();
        is_complete = is_complete || is_whole(script);
    }
    commands
}

fn is_whole(script: &str) -> bool {
    !script.ends_with("\\\n") && bash(&format!("set -n\n{script}")).is_some()
}

/// What a script prints; None if it fails or complains.
fn bash(script: &str) -> Option<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_foreread"));
    let path = format!("{}:{}", binary.parent()?.display(), std::env::var("PATH").ok()?);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut bash = Command::new("bash");
    let output = bash.current_dir(root).env("PATH", path).args(["-c", script]).output().unwrap();
    let is_fine = output.status.success() && output.stderr.is_empty();
    is_fine.then(|| String::from_utf8(output.stdout).unwrap())
}
