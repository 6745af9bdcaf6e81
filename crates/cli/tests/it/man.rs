//! Manual pages and completions: each verb has its page, and the page says what `--help` says.

use std::fs;
use std::process::Output;

use crate::common::Command;

fn foreread(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreread")).args(args).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn each_verb_has_a_page_and_a_second_run_replaces_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("UTF-8");
    for _ in 0..2 {
        let out = foreread(&["man", path]);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let help = text(&foreread(&["--help"]).stdout);
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs: Vec<_> = verbs
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 12, "{verbs:?}");
    for verb in &verbs {
        let page = dir.path().join(format!("foreread-{verb}.1"));
        let page = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{verb}: {error}"));
        assert!(page.contains(&format!(".TH foreread-{verb} 1")), "{verb}: {page}");
    }
    assert!(dir.path().join("foreread-tune-forget.1").exists(), "verbs below verbs, too");
    let serve = fs::read_to_string(dir.path().join("foreread-serve.1")).expect("a page");
    assert!(serve.contains("exit\\-timeout") && serve.contains("EXTRA"), "{serve}");
}

#[test]
fn another_file_of_the_name_of_a_page_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let theirs = dir.path().join("foreread-serve.1");
    fs::write(&theirs, "a letter\n").expect("a file");
    let out = foreread(&["man", dir.path().to_str().expect("UTF-8")]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("foreread-serve.1"), "{}", text(&out.stderr));
    assert_eq!(fs::read_to_string(&theirs).expect("it stays"), "a letter\n");
    let out = foreread(&["man", "/does/not/exist"]);
    assert!(text(&out.stderr).contains("no such directory"), "{}", text(&out.stderr));
}

#[test]
fn a_shell_completes_verbs_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&foreread(&["completions", shell]).stdout);
        assert!(script.contains("foreread") && script.contains("exit-timeout"), "{shell}");
    }
    let help = text(&foreread(&["help", "serve"]).stdout);
    assert!(help.contains("--exit-timeout"), "{help}");
}
