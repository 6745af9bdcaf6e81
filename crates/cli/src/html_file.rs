//! The file of `--html`: one page that needs nothing else.
//!
//! In:    a path, checked before the work; a page.
//! Out:   the file, whole.
//! Never: another file than an earlier page of foreread replaced.

use std::path::Path;

use foreread_files::{CommandInput, ResultFile, is_stdout};
use foreread_report::{ReportPage, is_report, render};

use crate::output::Failure;

/// A page that is not there before [`HtmlFile::write`].
pub(crate) struct HtmlFile(ResultFile);

impl HtmlFile {
    /// Prepares the file, if one was requested. JSON takes stdout for itself.
    pub(crate) fn prepare(
        path: Option<&Path>,
        is_json: bool,
        inputs: &[CommandInput<'_>],
    ) -> Result<Option<Self>, Failure> {
        if let Some(path) = path
            && is_json
            && is_stdout(path)
        {
            let shown = path.display();
            let line = format!("--html {shown}: --json is written there; give the page a file");
            return Err(Failure::WrongUse(line));
        }
        let file = path.map(|path| ResultFile::create(path, inputs, is_report)).transpose();
        file.map(|file| file.map(Self)).map_err(failed)
    }

    /// Writes the page, with the command line at its end.
    pub(crate) fn write(self, mut page: ReportPage) -> Result<(), Failure> {
        page.made_by = format!("foreread {}: {}", env!("CARGO_PKG_VERSION"), command_line());
        let html = render(&page);
        self.0.write_whole(|file| file.write_all(html.as_bytes())).map_err(failed)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: foreread_files::FileError) -> Failure {
    Failure::WrongUse(format!("--html {error}"))
}

/// As a shell would take it, but for quotes in arguments.
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
