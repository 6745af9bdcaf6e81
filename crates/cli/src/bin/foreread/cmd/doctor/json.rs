//! Lists of `doctor --json` next to the findings: machine, devices, mounts, stacks, notes.
//!
//! docs/guide/doctor.schema.json is their schema.

use foreread_tune::doctor::Examination;
use serde::Serialize;
use serde_json::{Value, json};

use foreread_cli::output::Failure;

pub(super) fn beside(
    examination: &Examination,
) -> Result<Vec<(&'static str, Vec<Value>)>, Failure> {
    let stacks = examination.stacks.iter().zip(&examination.mounts);
    let stacks = stacks.map(|(layers, mount)| json!({ "mount": mount.mount, "layers": layers }));
    Ok(vec![
        ("machine", list(&[&examination.machine])?),
        ("devices", list(&examination.devices)?),
        ("mounts", list(&examination.mounts)?),
        ("stacks", stacks.collect()),
        ("notes", examination.notes.iter().map(|text| json!({ "text": text })).collect()),
    ])
}

fn list<T: Serialize>(elements: &[T]) -> Result<Vec<Value>, Failure> {
    let value = |element| serde_json::to_value(element);
    let values: Result<Vec<Value>, _> = elements.iter().map(value).collect();
    values.map_err(|error| Failure::Check(format!("cannot print JSON: {error}")))
}
