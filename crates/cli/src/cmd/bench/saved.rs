//! The file of `--save`.

use std::path::Path;

use foreread_files::{CommandInput, ResultFile};
use serde::Serialize;

use super::args::BenchArgs;
use crate::output::{Failure, json_head, write_json};

/// The file of --save, before an hour of measuring has passed.
pub(super) fn created(args: &BenchArgs) -> Result<Option<ResultFile>, Failure> {
    let inputs = [CommandInput { name: "TARGET", path: Path::new(&args.target) }];
    let save = args.save.as_deref().map(|path| ResultFile::create(path, &inputs, are_figures));
    save.transpose().map_err(|error| Failure::WrongUse(format!("--save {error}")))
}

/// Writes the figures into it; what was there before stays if that fails.
pub(super) fn save<T: Serialize>(file: Option<ResultFile>, rows: &[T]) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    file.write_whole(|mut file| write_json(&mut file, COMMAND, rows))
        .map_err(|error| Failure::WrongUse(format!("--save {error}")))
}

/// Whether a file begins as the figures that --save writes.
fn are_figures(head: &[u8]) -> bool {
    head.starts_with(json_head(COMMAND).as_bytes())
}

/// The command of the figures, as their JSON names it.
const COMMAND: &str = "bench";
