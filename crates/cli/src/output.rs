//! Buffered output to stdout, and the errors of verbs.
//!
//! Colours and drawings are printed on terminals only.

use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};

use rustix::io::Errno;
use serde::Serialize;

use crate::terminal::{self, DOCUMENT, wrap};

/// Error of a verb.
#[derive(Debug)]
pub enum Failure {
    /// Wrong usage. The line explains the right one.
    WrongUse(String),
    /// A check failed. The line explains the result.
    Check(String),
    /// A child command exited with this code, which becomes ours.
    Command(u8),
    /// Writing to stdout failed.
    Stdout(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Stdout(error)
    }
}

/// Replaces control characters in untrusted text, such as names of devices or files in a trace: a
/// terminal could interpret them.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Creates a closure for `map_err` from the operation that failed.
pub fn cannot(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Check(format!("cannot {what}: {}", refusal(&error)))
}

/// Describes a system error; names the limit to raise if one has refused the call.
pub fn refusal(error: &io::Error) -> String {
    let remedy = if error.kind() == io::ErrorKind::WouldBlock {
        "; a limit of threads is reached: raise it (ulimit -u, TasksMax= of systemd, the pids \
         limit of a container)"
    } else if Errno::from_io_error(error) == Some(Errno::MFILE) {
        "; raise ulimit -n, or close files"
    } else {
        ""
    };
    format!("{error}{remedy}")
}

/// Buffered stdout, with the properties of its terminal.
pub struct Printer {
    writer: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    is_coloured: bool,
    /// Columns; None: unlimited.
    width: Option<usize>,
}

impl Printer {
    pub fn stdout() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        // <https://no-color.org>: set to anything but the empty string.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            width: terminal::width_of(&stdout),
            writer: BufWriter::new(stdout.lock()),
            is_terminal,
            is_coloured: is_terminal && !no_color,
        }
    }

    /// Returns true if stdout is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns true if colours are enabled.
    pub(crate) fn is_coloured(&self) -> bool {
        self.is_coloured
    }

    /// Prints the JSON of `--json`: see [`write_json`].
    pub fn json<T: Serialize>(
        &mut self,
        command: &str,
        data: impl IntoIterator<Item = T>,
    ) -> Result<(), Failure> {
        write_json(&mut self.writer, command, data)?;
        Ok(())
    }

    /// Prints the same, with more lists next to `data`.
    pub fn json_beside<T: Serialize>(
        &mut self,
        command: &str,
        data: impl IntoIterator<Item = T>,
        beside: &[(&str, Vec<serde_json::Value>)],
    ) -> Result<(), Failure> {
        json_list(&mut self.writer, command, data)?;
        for (key, list) in beside {
            write!(self.writer, "\n],\"{key}\":[")?;
            elements(&mut self.writer, list)?;
        }
        writeln!(self.writer, "\n]}}")?;
        Ok(())
    }

    /// Returns the maximum width of a table; None if unlimited.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// Returns the width of prose: that of the terminal, up to a readable maximum.
    pub fn prose_width(&self) -> usize {
        self.width.unwrap_or(DOCUMENT).min(WIDEST_PROSE)
    }

    /// Prints a wrapped paragraph after a label, with a hanging indent.
    pub fn paragraph(&mut self, label: &str, text: &str) -> Result<(), Failure> {
        for line in wrap(label, text, self.prose_width()) {
            writeln!(self.writer, "{line}")?;
        }
        Ok(())
    }

    /// Prints the same, on one line if the width is unknown, for scripts.
    pub fn entry(&mut self, label: &str, text: &str) -> Result<(), Failure> {
        if self.width.is_some() {
            return self.paragraph(label, text);
        }
        writeln!(self.writer, "{}", format!("{label}{text}").trim_end())?;
        Ok(())
    }

    /// Prints one line.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.writer, "{text}")?;
        Ok(())
    }

    /// Prints raw bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes)?;
        Ok(())
    }

    /// Prints notes to stderr after the answer.
    pub fn notes(&mut self, notes: &[String]) -> Result<(), Failure> {
        self.flush()?;
        let mut stderr = io::stderr();
        let width = if stderr.is_terminal() { terminal::width_of(&stderr) } else { None };
        for note in notes.iter().map(|note| plain(note)) {
            let lines = match width {
                Some(width) => wrap("note: ", &note, width.min(WIDEST_PROSE)),
                None => vec![format!("note: {note}")],
            };
            for line in lines {
                // Notes are lost if stderr is closed.
                let _ = writeln!(stderr, "{line}");
            }
        }
        Ok(())
    }

    /// Flushes the buffer.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.writer.flush()?;
        Ok(())
    }
}

/// Writes the JSON of a command: a version, the command, and a list of objects, one per line.
///
/// ```text
/// {"version":1,"command":"explain geometry","data":[
///   {"bytes":67108864, ..},
///   {"bytes":267386880, ..}
/// ]}
/// ```
///
/// docs/guide/json.md defines the guarantees of the version.
pub fn write_json<T: Serialize>(
    writer: &mut impl Write,
    command: &str,
    data: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    json_list(writer, command, data)?;
    writeln!(writer, "\n]}}")
}

/// Writes the head and the list, and leaves the object open.
fn json_list<T: Serialize>(
    writer: &mut impl Write,
    command: &str,
    data: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    write!(writer, "{}", json_head(command))?;
    elements(writer, data)
}

/// Writes the elements of a list, one per line.
fn elements<T: Serialize>(
    writer: &mut impl Write,
    data: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    let mut separator = "\n  ";
    for element in data {
        write!(writer, "{separator}")?;
        serde_json::to_writer(&mut *writer, &element).map_err(io::Error::from)?;
        separator = ",\n  ";
    }
    Ok(())
}

/// Returns the head of a command's JSON.
///
/// # Panics
///
/// If the command's name needs escaping.
pub fn json_head(command: &str) -> String {
    assert!(command.bytes().all(|byte| byte.is_ascii_lowercase() || b" -".contains(&byte)));
    format!("{{\"version\":{JSON_VERSION},\"command\":\"{command}\",\"data\":[")
}

/// Longer lines are hard to read.
const WIDEST_PROSE: usize = 100;

/// Version of the format; incremented if a key is removed or changes its meaning.
const JSON_VERSION: u32 = 1;

impl Write for Printer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
