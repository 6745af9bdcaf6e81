//! `foreread man` and `foreread completions`: manual pages and shell completions.
//!
//! Both are generated from the help texts. Only files that foreread wrote are replaced.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use foreread_files::ResultFile;

use crate::args::help::CODES_AND_UNITS;
use crate::output::{Failure, Printer};

/// Write the manual pages into a directory
///
/// Writes one page for foreread and one for each verb, in section 1: foreread.1, foreread-serve.1.
/// Their text is that of `--help`. Earlier pages are replaced; any other file of the same name is
/// refused.
#[derive(Debug, Args)]
#[command(after_long_help = [MAN_EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ManArgs {
    /// Existing directory for the pages
    directory: PathBuf,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_long_help = [COMPLETIONS_EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/man/man1 && foreread man ~/.local/share/man/man1
  man foreread-serve

";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  foreread completions bash > ~/.local/share/bash-completion/completions/foreread
  foreread completions fish > ~/.config/fish/completions/foreread.fish

";

pub(crate) fn write_pages(
    args: &ManArgs,
    mut root: Command,
    out: &mut Printer,
) -> Result<(), Failure> {
    let is_directory = fs::metadata(&args.directory).is_ok_and(|it| it.is_dir());
    if !is_directory {
        let path = args.directory.display();
        return Err(Failure::WrongUse(format!("{path}: no such directory; make it first")));
    }
    root.build();
    let mut count = 0;
    write_tree(&root, "foreread", &args.directory, &mut count)?;
    out.line(&format!("{count} pages in {}", args.directory.display()))
}

/// A page for a command and for each of those below it.
fn write_tree(
    command: &Command,
    name: &str,
    directory: &Path,
    count: &mut usize,
) -> Result<(), Failure> {
    let path = directory.join(format!("{name}.1"));
    let failed = |error: &dyn std::fmt::Display| Failure::WrongUse(error.to_string());
    let file = ResultFile::create(&path, &[], is_page).map_err(|error| failed(&error))?;
    let page = clap_mangen::Man::new(command.clone().name(name.to_owned())).title(name);
    file.write_whole(|to| page.render(&mut &mut *to)).map_err(|error| failed(&error))?;
    *count += 1;
    let below = command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help");
    for verb in below {
        write_tree(verb, &format!("{name}-{}", verb.get_name()), directory, count)?;
    }
    Ok(())
}

/// Returns true if a file starts like a manual page of foreread.
fn is_page(head: &[u8]) -> bool {
    String::from_utf8_lossy(head).lines().any(|line| line.starts_with(".TH foreread"))
}

pub(crate) fn print_completions(
    args: &CompletionsArgs,
    mut root: Command,
    out: &mut Printer,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut root, "foreread", &mut script);
    out.bytes(&script)
}
