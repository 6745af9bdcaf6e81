//! The verbs of `foreread-lab`, which `foreread` runs like git and cargo run theirs.
//!
//! `foreread sim ..` replaces this process by `foreread-lab sim ..`, with the same arguments.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use foreread_cli::output::Failure;
use foreread_files::trusted_path::helper_program;

/// Verbs of `foreread-lab`.
pub(crate) const LAB_VERBS: [&str; 5] = ["explain", "replay", "seeds", "sim", "trace"];

const LAB: &str = "foreread-lab";

/// Returns the verb of the lab that these arguments name: `sim ..` or `help sim`.
pub(crate) fn lab_verb(args: &[OsString]) -> Option<&'static str> {
    let named = |arg: &OsStr| LAB_VERBS.into_iter().find(|verb| arg == *verb);
    match args {
        [help, verb, ..] if help == "help" => named(verb),
        [verb, ..] => named(verb),
        [] => None,
    }
}

/// Replaces this process by the lab; returns only if that fails.
///
/// The lab is looked for beside this program, then in `PATH`; as root only in directories that no
/// other user can write to.
pub(crate) fn run(verb: &str, args: &[OsString]) -> Failure {
    let program = match beside_this_program().map_or_else(|| helper_program(LAB), Ok) {
        Ok(program) => program,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return missing(verb),
        Err(refused) => {
            return Failure::WrongUse(format!("'{verb}' is a verb of {LAB}: {refused}"));
        }
    };
    let error = Command::new(&program).args(args).exec();
    if error.kind() == io::ErrorKind::NotFound {
        return missing(verb);
    }
    let program = program.display();
    Failure::WrongUse(format!("'{verb}' is a verb of {LAB}; cannot run {program}: {error}"))
}

fn missing(verb: &str) -> Failure {
    Failure::WrongUse(format!(
        "'{verb}' is a verb of {LAB}, which is neither beside foreread nor in PATH: install it \
         (cargo install foreread-cli installs both)"
    ))
}

fn beside_this_program() -> Option<PathBuf> {
    let lab = std::env::current_exe().ok()?.with_file_name(LAB);
    lab.is_file().then_some(lab)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_argument_or_that_of_help_is_a_verb() {
        let verb = |line: &str| lab_verb(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(verb("sim db.toml --json"), Some("sim"));
        assert_eq!(verb("help replay"), Some("replay"));
        assert_eq!(verb("help help replay"), None);
        assert_eq!(verb("cat sim"), None);
        assert_eq!(verb("simulate"), None);
        assert_eq!(lab_verb(&[]), None);
    }
}
