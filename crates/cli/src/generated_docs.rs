//! Manual pages and shell completions of a program, generated from its help texts.
//!
//! Only files that foreread wrote are replaced.

use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use foreread_files::ResultFile;

use crate::args::help::CODES_AND_UNITS;
use crate::output::{Failure, Printer};

/// Parser of a program whose documents are generated.
pub trait DocumentedProgram: CommandFactory {
    /// Name of the program.
    const NAME: &'static str;
    /// Verb that the examples name.
    const VERB: &'static str;
}

/// Write the manual pages into a directory
#[derive(Debug, Args)]
#[command(long_about = about_pages::<P>(), after_long_help = page_examples::<P>())]
pub struct ManArgs<P: DocumentedProgram> {
    /// Existing directory for the pages
    directory: PathBuf,

    #[arg(skip)]
    program: PhantomData<P>,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_long_help = completion_examples::<P>())]
pub struct CompletionsArgs<P: DocumentedProgram> {
    /// Shell to print the script for
    shell: Shell,

    #[arg(skip)]
    program: PhantomData<P>,
}

impl<P: DocumentedProgram> ManArgs<P> {
    /// Writes the pages.
    pub fn run(&self, out: &mut Printer) -> Result<(), Failure> {
        write_pages(&self.directory, P::command(), out)
    }
}

impl<P: DocumentedProgram> CompletionsArgs<P> {
    /// Prints the script.
    pub fn run(&self, out: &mut Printer) -> Result<(), Failure> {
        print_completions(self.shell, P::command(), out)
    }
}

fn about_pages<P: DocumentedProgram>() -> String {
    let (name, verb) = (P::NAME, P::VERB);
    format!(
        "Write the manual pages into a directory\n\nWrites one page for {name} and one for each \
         verb, in section 1: {name}.1, {name}-{verb}.1. Their text is that of `--help`. Earlier \
         pages are replaced; any other file of the same name is refused."
    )
}

fn page_examples<P: DocumentedProgram>() -> String {
    let (name, verb) = (P::NAME, P::VERB);
    let man = "~/.local/share/man/man1";
    format!(
        "Examples:\n  mkdir -p {man} && {name} man {man}\n  man {name}-{verb}\n\n{CODES_AND_UNITS}"
    )
}

fn completion_examples<P: DocumentedProgram>() -> String {
    let name = P::NAME;
    let bash = "~/.local/share/bash-completion/completions";
    let fish = "~/.config/fish/completions";
    format!(
        "Examples:\n  {name} completions bash > {bash}/{name}\n  {name} completions fish > \
         {fish}/{name}.fish\n\n{CODES_AND_UNITS}"
    )
}

/// Writes a page for the program and for each of its verbs into an existing directory.
fn write_pages(directory: &Path, mut root: Command, out: &mut Printer) -> Result<(), Failure> {
    let is_directory = fs::metadata(directory).is_ok_and(|it| it.is_dir());
    if !is_directory {
        let path = directory.display();
        return Err(Failure::WrongUse(format!("{path}: no such directory; make it first")));
    }
    root.build();
    let mut count = 0;
    write_tree(&root, root.get_name(), directory, &mut count)?;
    out.line(&format!("{count} pages in {}", directory.display()))
}

/// Writes a page for a command and for each of its subcommands.
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

/// Prints the completion script of the program for a shell.
fn print_completions(shell: Shell, mut root: Command, out: &mut Printer) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = root.get_name().to_owned();
    clap_complete::generate(shell, &mut root, name, &mut script);
    out.bytes(&script)
}
