//! Where answers go, and what can go wrong with them.
//!
//! In:    lines, or values for JSON.
//! Out:   stdout, buffered; [`Failure`] with its one line for the user.
//! Never: a colour or a picture that a program would have to read.

use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};

use serde::Serialize;

use crate::terminal::{self, DOCUMENT, wrap};

/// Why a verb could not answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked makes no sense. The line says what does.
    WrongUse(String),
    /// What was to be checked is not so. The line says what is.
    Check(String),
    /// A command that we ran has ended so; our exit code is its own.
    Command(u8),
    /// The answer could not be written to stdout.
    Stdout(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Stdout(error)
    }
}

/// Text of others, as names of devices and of files in a trace, without control characters: they
/// could be commands to a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// For `map_err`: what could not be done.
pub(crate) fn cannot(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Check(format!("cannot {what}: {}", refusal(&error)))
}

/// What the system said, and the limit to raise where it had no thread or process to give.
pub(crate) fn refusal(error: &io::Error) -> String {
    match error.kind() == io::ErrorKind::WouldBlock {
        true => format!(
            "{error}; a limit of threads is reached: raise it (ulimit -u, TasksMax= of systemd, \
             the pids limit of a container)"
        ),
        false => error.to_string(),
    }
}

/// Stdout, and whether a person reads it.
pub(crate) struct Printer {
    writer: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    is_coloured: bool,
    /// None: as wide as the text is.
    width: Option<usize>,
}

impl Printer {
    pub(crate) fn stdout() -> Self {
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

    /// Whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether colours are wanted.
    pub(crate) fn is_coloured(&self) -> bool {
        self.is_coloured
    }

    /// What `--json` prints: see [`write_json`].
    pub(crate) fn json<T: Serialize>(
        &mut self,
        command: &str,
        data: impl IntoIterator<Item = T>,
    ) -> Result<(), Failure> {
        write_json(&mut self.writer, command, data)?;
        Ok(())
    }

    /// The same with more lists beside `data`.
    pub(crate) fn json_beside<T: Serialize>(
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

    /// How wide a table may be; None where nothing says so.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// How wide prose is: as the terminal, but not wider than can be read.
    pub(crate) fn prose_width(&self) -> usize {
        self.width.unwrap_or(DOCUMENT).min(WIDEST_PROSE)
    }

    /// A paragraph behind a label, wrapped between words; its other lines are indented as far.
    pub(crate) fn paragraph(&mut self, label: &str, text: &str) -> Result<(), Failure> {
        for line in wrap(label, text, self.prose_width()) {
            writeln!(self.writer, "{line}")?;
        }
        Ok(())
    }

    /// The same, but one line where nothing says how wide lines may be: for what scripts read.
    pub(crate) fn entry(&mut self, label: &str, text: &str) -> Result<(), Failure> {
        if self.width.is_some() {
            return self.paragraph(label, text);
        }
        writeln!(self.writer, "{}", format!("{label}{text}").trim_end())?;
        Ok(())
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.writer, "{text}")?;
        Ok(())
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes)?;
        Ok(())
    }

    /// What a reader of the answer has to know, on stderr, after the answer.
    pub(crate) fn notes(&mut self, notes: &[String]) -> Result<(), Failure> {
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

    /// Writes out what is still buffered.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.writer.flush()?;
        Ok(())
    }
}

/// The one shape of `--json`: a version, the command, and a list of objects, one a line.
///
/// ```text
/// {"version":1,"command":"explain geometry","data":[
///   {"bytes":67108864, ..},
///   {"bytes":267386880, ..}
/// ]}
/// ```
///
/// docs/json.md says what the version promises.
pub(crate) fn write_json<T: Serialize>(
    writer: &mut impl Write,
    command: &str,
    data: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    json_list(writer, command, data)?;
    writeln!(writer, "\n]}}")
}

/// Its beginning, up to the end of the list, which is left open.
fn json_list<T: Serialize>(
    writer: &mut impl Write,
    command: &str,
    data: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    write!(writer, "{}", json_head(command))?;
    elements(writer, data)
}

/// The elements of a list, one a line.
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

/// How the JSON of a command begins.
///
/// # Panics
///
/// If the command's name would have to be escaped.
pub(crate) fn json_head(command: &str) -> String {
    assert!(command.bytes().all(|byte| byte.is_ascii_lowercase() || b" -".contains(&byte)));
    format!("{{\"version\":{JSON_VERSION},\"command\":\"{command}\",\"data\":[")
}

/// Longer lines are hard to read.
const WIDEST_PROSE: usize = 100;

/// Of the shape and the keys: it grows when a key goes or changes its meaning.
const JSON_VERSION: u32 = 1;

impl Write for Printer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
