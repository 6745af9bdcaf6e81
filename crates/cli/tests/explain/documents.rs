//! The documents: what they show is what the commands print.

use std::path::Path;
use std::process::Command;

/// Every block of a document that shows commands and their output is what they print.
#[test]
fn the_documents_show_what_the_commands_print() {
    for (document, text, blocks) in [
        ("geometry.md", include_str!("../../../../docs/geometry.md"), 5),
        ("itable.md", include_str!("../../../../docs/itable.md"), 4),
        ("readahead.md", include_str!("../../../../docs/readahead.md"), 4),
    ] {
        let shown: Vec<_> = text
            .split("```console\n")
            .skip(1)
            .map(|rest| rest.split_once("```").unwrap().0)
            .collect();
        assert_eq!(shown.len(), blocks, "{document}");
        for block in shown {
            let mut before = String::new();
            for (script, want) in commands_shown(block) {
                let got = bash(&format!("{{ :\n{before}}} >/dev/null\n{script}"));
                assert_eq!(got.as_deref(), Some(want.as_str()), "{document}: {script}");
                before += &script;
            }
        }
    }
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
    let output = Command::new("bash").env("PATH", path).args(["-c", script]).output().unwrap();
    let is_fine = output.status.success() && output.stderr.is_empty();
    is_fine.then(|| String::from_utf8(output.stdout).unwrap())
}
