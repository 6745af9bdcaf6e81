//! `foreread` runs the verbs of `foreread-lab`.
//!
//! In:    a verb of the lab; `foreread-lab` beside `foreread`, in `PATH`, or nowhere.
//! Out:   what `foreread-lab` answers, or one line that names it.
//! Never: a verb of the lab in the help of `foreread`, or one that a mistyped verb does not find.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use foreread_files::trusted_path::{TrustedUse, replaceable};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::common::{Command, copy_program};
use crate::said::{LAB, json, refused, stdout};

const FOREREAD: &str = env!("CARGO_BIN_EXE_foreread");

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn run(program: impl AsRef<OsStr>, args: &[&str], path: &Path) -> Output {
    Command::new(program).args(args).env("PATH", path).output().unwrap()
}

/// A copy of `foreread` without the lab beside it.
fn alone() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("foreread");
    copy_program(FOREREAD, &program);
    (folder, program)
}

#[test]
fn foreread_gives_the_lab_all_arguments() {
    for args in [
        &["explain", "readahead", "--policy", "linux-6", "0+1", "1+1"][..],
        &["seeds", "004", "--json"],
        &["sim", "--help"],
        &["help", "replay"],
        &["trace", "/does/not/exist"],
        &["explain", "geometry", "64MB"],
    ] {
        let run = |program| Command::new(program).args(args).output().unwrap();
        let (here, there) = (run(FOREREAD), run(LAB));
        assert_eq!(here, there, "{args:?}");
    }
}

#[test]
fn the_lab_is_found_in_path_too() {
    let (_folder, program) = alone();
    let beside = Path::new(LAB).parent().unwrap();
    let answer = run(&program, &["explain", "geometry", "64M"], beside);
    let by_others = replaceable(Path::new(LAB), TrustedUse::Program).unwrap();
    if by_others.is_some() && geteuid().is_root() {
        assert!(text(&answer.stderr).contains("refusing to run"), "{answer:?}");
        return;
    }
    assert_eq!(text(&answer.stdout), stdout(&["explain", "geometry", "64M"]), "{answer:?}");
}

/// Root ran whatever had the lab's name in a directory of `PATH` that any user can write to.
#[test]
fn root_runs_no_lab_that_another_user_can_replace() {
    let (_folder, program) = alone();
    let open = TempDir::new().unwrap();
    fs::set_permissions(open.path(), Permissions::from_mode(0o777)).unwrap();
    let lab = open.path().join("foreread-lab");
    fs::write(&lab, "#!/bin/sh\necho it runs\n").unwrap();
    fs::set_permissions(&lab, Permissions::from_mode(0o755)).unwrap();
    let answer = run(&program, &["sim", "a.toml"], open.path());
    if geteuid().is_root() {
        assert_eq!((answer.status.code(), text(&answer.stdout)), (Some(2), ""), "{answer:?}");
        assert!(
            text(&answer.stderr).contains("refusing to run foreread-lab as root"),
            "{answer:?}"
        );
    } else {
        assert_eq!(text(&answer.stdout), "it runs\n", "{answer:?}");
    }
}

#[test]
fn without_the_lab_one_line_says_what_to_install() {
    let (folder, program) = alone();
    for args in [&["replay", "a.frt"][..], &["help", "sim"]] {
        let answer = run(&program, args, folder.path());
        assert_eq!((answer.status.code(), text(&answer.stdout)), (Some(2), ""), "{answer:?}");
        let line = text(&answer.stderr);
        let verb = args[args.len() - 1].replace("a.frt", "replay");
        assert!(
            line.starts_with(&format!("foreread: '{verb}' is a verb of foreread-lab")),
            "{line}"
        );
        assert!(line.contains("cargo install foreread-cli") && line.lines().count() == 1, "{line}");
    }
    // A lab that cannot be run is no reason to run another one.
    fs::write(folder.path().join("foreread-lab"), "").unwrap();
    let answer = run(&program, &["sim", "a.toml"], Path::new(LAB).parent().unwrap());
    assert_eq!(answer.status.code(), Some(2));
    assert!(text(&answer.stderr).contains("cannot run "), "{answer:?}");
}

#[test]
fn each_help_names_the_other_program_and_none_has_the_verbs_of_the_other() {
    let help = |program: &str| run(program, &["--help"], Path::new("")).stdout;
    let (foreread, lab) = (help(FOREREAD), help(LAB));
    let last = |help: &[u8]| text(help).lines().last().unwrap().to_owned();
    assert!(last(&foreread).contains("see foreread-lab --help"), "{}", last(&foreread));
    assert!(last(&lab).ends_with("see foreread --help"), "{}", last(&lab));
    let has = |help: &[u8], verb: &str| {
        text(help).lines().any(|line| line.starts_with(&format!("  {verb} ")))
    };
    for verb in ["explain", "replay", "seeds", "sim", "trace"] {
        assert!(has(&lab, verb) && !has(&foreread, verb), "{verb}");
    }
    for verb in ["serve", "mount", "record", "tune"] {
        assert!(has(&foreread, verb) && !has(&lab, verb), "{verb}");
    }
}

#[test]
fn a_mistyped_verb_of_the_lab_is_suggested() {
    assert!(refused(&["repaly", "a.frt"]).contains("'replay'"));
    assert!(refused(&["explian"]).contains("'explain'"));
    assert!(refused(&["tnue"]).contains("'tune'"));
    // Hidden verbs that are parts of others stay hidden.
    assert!(!refused(&["serve-slow"]).contains("serve-slow-device"));
}

#[test]
fn json_says_the_verb_and_not_the_program() {
    assert!(!json(&["explain", "geometry", "64M", "--json"]).is_empty());
}
