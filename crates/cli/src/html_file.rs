//! The file of `--html`: one page that needs nothing else.
//!
//! The path is checked before the work starts. Only earlier reports are replaced.

use std::path::Path;

use foreread_report::{ReportPage, is_report, render};

use crate::output::Failure;
use crate::output_file::{CommandOutputs, OutputFile, refuse_stdout};

/// A page that is not there before [`HtmlFile::write`].
pub struct HtmlFile(OutputFile);

impl HtmlFile {
    /// Prepares the file, if one was requested. JSON takes stdout for itself.
    pub fn prepare(
        path: Option<&Path>,
        is_json: bool,
        outputs: &mut CommandOutputs<'_>,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if is_json {
            refuse_stdout(("--html", "the page"), path, "--json is")?;
        }
        outputs.prepare("--html", path, is_report).map(|file| Some(Self(file)))
    }

    /// Writes the page, with the command line at its end.
    pub fn write(self, mut page: ReportPage) -> Result<(), Failure> {
        page.made_by = format!("foreread {}: {}", env!("CARGO_PKG_VERSION"), command_line());
        let html = render(&page);
        self.0.write(|file| file.write_all(html.as_bytes()))
    }
}

/// Returns the command line as typed into a shell, apart from quotes in arguments.
fn command_line() -> String {
    let quoted = |arg: String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
        if !arg.is_empty() && arg.chars().all(is_plain) { arg } else { format!("'{arg}'") }
    };
    let args = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
    let args: Vec<String> =
        std::iter::once("foreread".to_owned()).chain(args.map(quoted)).collect();
    args.join(" ")
}
