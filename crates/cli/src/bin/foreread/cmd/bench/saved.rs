//! The file of `--save`.

use std::path::Path;

use foreread_files::CommandInput;
use serde::Serialize;

use super::plan::BenchOutput;
use foreread_cli::output::{Failure, json_head, write_json};
use foreread_cli::output_file::{CommandOutputs, OutputFile};

/// Returns the inputs, which no output may replace.
pub(super) fn inputs_of(target: &Path) -> [CommandInput<'_>; 1] {
    [CommandInput { name: "TARGET", path: target }]
}

/// Creates the file of --save before the measurement, so that a wrong path fails early.
pub(super) fn created(
    output: &BenchOutput,
    outputs: &mut CommandOutputs<'_>,
) -> Result<Option<OutputFile>, Failure> {
    let save = output.save.as_deref();
    save.map(|path| outputs.prepare("--save", path, are_figures)).transpose()
}

/// Writes the figures; a failure keeps the earlier contents.
pub(super) fn save<T: Serialize>(file: Option<OutputFile>, rows: &[T]) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    file.write(|mut file| write_json(&mut file, COMMAND, rows))
}

/// Returns true if a file starts like figures of --save.
fn are_figures(head: &[u8]) -> bool {
    head.starts_with(json_head(COMMAND).as_bytes())
}

/// The command of the figures, as their JSON names it.
const COMMAND: &str = "bench";
