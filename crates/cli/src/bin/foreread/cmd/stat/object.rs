//! `foreread stat` of an object.
//!
//! Contents are not read.

use std::io::Write as _;

use serde::Serialize;

use foreread_cli::output::{Failure, Printer};
use foreread_cli::store::{StoreClient, modified_text};

/// All of an object but its contents.
#[derive(Serialize)]
struct ObjectReport {
    url: String,
    size: u64,
    modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

pub(super) fn print(
    client: &StoreClient,
    url: &str,
    is_json: bool,
    out: &mut Printer,
) -> Result<(), Failure> {
    let object = client.object(url)?;
    let meta = object.meta();
    let report = ObjectReport {
        url: url.to_owned(),
        size: meta.size,
        modified: modified_text(meta),
        etag: meta.e_tag.clone(),
        version: meta.version.clone(),
    };
    if is_json {
        return out.json("stat", [report]);
    }
    writeln!(out, "       url: {}", report.url)?;
    writeln!(out, "      size: {} bytes", report.size)?;
    writeln!(out, "  modified: {}", report.modified)?;
    if let Some(etag) = &report.etag {
        writeln!(out, "      etag: {etag}")?;
    }
    if let Some(version) = &report.version {
        writeln!(out, "   version: {version}")?;
    }
    Ok(())
}
