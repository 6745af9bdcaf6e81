//! Manual pages and shell completions of a program, generated from its help texts.
//!
//! Only files that foreread wrote are replaced.

use std::fs;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use foreread_files::ResultFile;

use crate::output::{Failure, Printer};

/// Writes a page for the program and for each of its verbs into an existing directory.
pub fn write_pages(directory: &Path, mut root: Command, out: &mut Printer) -> Result<(), Failure> {
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

/// Prints the completion script of the program for a shell.
pub fn print_completions(
    shell: Shell,
    mut root: Command,
    out: &mut Printer,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    let name = root.get_name().to_owned();
    clap_complete::generate(shell, &mut root, name, &mut script);
    out.bytes(&script)
}
