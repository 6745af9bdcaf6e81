//! The ends of a program: its one-line errors and exit codes.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue};

use crate::output::{Failure, plain};
use crate::store;

/// Prints help and version to stdout; any other error of clap is one line.
pub fn end_of_parsing(program: &Command, error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return end(program.get_name(), error.print().map_err(Failure::Stdout));
    }
    let line = in_one_line(program, error, std::env::args_os().skip(1));
    end(program.get_name(), Err(Failure::WrongUse(line)))
}

/// Prints the cost of requests to stores, if a price was given, and the error; returns the exit
/// code.
pub fn end_of_verb(program: &str, result: Result<(), Failure>) -> ExitCode {
    store::say_cost();
    end(program, result)
}

/// Prints the error and returns its exit code; `args::help` documents the codes.
fn end(program: &str, result: Result<(), Failure>) -> ExitCode {
    let mut code = ExitCode::from(2);
    let line = match result {
        Ok(()) => return ExitCode::SUCCESS,
        // The reader closed the pipe: `foreread-lab explain .. | head`.
        Err(Failure::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(Failure::Stdout(error)) => format!("cannot write the answer: {error}"),
        // The command printed its own error.
        Err(Failure::Command(code)) => return ExitCode::from(code),
        Err(Failure::WrongUse(line)) => line,
        Err(Failure::Check(line)) => {
            code = ExitCode::from(1);
            line
        }
    };
    // Ignored if stderr is closed; the exit code remains.
    let _ = writeln!(io::stderr(), "{program}: {}", plain(&line));
    code
}

/// Returns clap's error as one line, which ends with the help to read.
fn in_one_line(
    program: &Command,
    mut error: clap::Error,
    args: impl Iterator<Item = OsString>,
) -> String {
    hide_hidden_verbs(program, &mut error);
    let text = error.render().to_string();
    let is_about_the_error =
        |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more information");
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .take_while(is_about_the_error)
        .filter(|line| !line.is_empty())
        .map(|line| match line.strip_prefix("tip: ") {
            Some(tip) => format!("(tip: {tip})"),
            None => line.to_owned(),
        })
        .collect();
    let what = lines.join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    format!("{what}; see '{} --help'", named_verb(program, args))
}

/// Removes hidden verbs from what the error lists and suggests.
fn hide_hidden_verbs(program: &Command, error: &mut clap::Error) {
    let is_hidden = |name: &String| program.find_subcommand(name).is_some_and(Command::is_hide_set);
    for kind in [ContextKind::ValidSubcommand, ContextKind::SuggestedSubcommand] {
        match error.remove(kind) {
            Some(ContextValue::Strings(mut names)) => {
                names.retain(|name| !is_hidden(name));
                if !names.is_empty() {
                    error.insert(kind, ContextValue::Strings(names));
                }
            }
            Some(ContextValue::String(name)) if is_hidden(&name) => {}
            Some(value) => {
                error.insert(kind, value);
            }
            None => {}
        }
    }
}

/// Returns the subcommand to recommend help for, as far as the arguments name one.
fn named_verb(program: &Command, args: impl Iterator<Item = OsString>) -> String {
    let mut command = program;
    let mut name = command.get_name().to_owned();
    for arg in args {
        let Some(verb) = command.find_subcommand(&arg) else {
            break;
        };
        name = format!("{name} {}", verb.get_name());
        command = verb;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_the_verb_that_was_named_is_recommended() {
        let below = Command::new("explain").subcommand(Command::new("itable"));
        let program = Command::new("foreread-lab").subcommand(below);
        let named = |line: &str| named_verb(&program, line.split(' ').map(OsString::from));
        assert_eq!(named(""), "foreread-lab");
        assert_eq!(named("explain"), "foreread-lab explain");
        assert_eq!(named("explain itable --table 3"), "foreread-lab explain itable");
        assert_eq!(named("explian itable"), "foreread-lab");
    }
}
