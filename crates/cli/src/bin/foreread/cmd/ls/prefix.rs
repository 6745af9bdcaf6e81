//! `foreread ls` of a bucket or prefix.
//!
//! Object contents are not read.

use std::io::Write as _;

use serde::Serialize;

use foreread_cli::image::node;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::store::{StoreClient, modified, modified_text};

/// A name, as JSON has it.
#[derive(Serialize)]
struct ListedObject {
    name: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

/// Lists the direct children of a prefix, or everything below it.
pub(super) fn list(
    client: &StoreClient,
    url: &str,
    is_deep: bool,
    is_json: bool,
    out: &mut Printer,
) -> Result<(), Failure> {
    let listing = client.list(url, is_deep)?;
    if is_json {
        let objects = listing.names.iter().map(|listed| ListedObject {
            name: listed.name.clone(),
            kind: if listed.meta.is_some() { "object" } else { "prefix" },
            size: listed.meta.as_ref().map(|meta| meta.size),
            modified: listed.meta.as_ref().map(modified_text),
            etag: listed.meta.as_ref().and_then(|meta| meta.e_tag.clone()),
        });
        let unreadable = listing.unreadable.iter().map(|name| ListedObject {
            name: name.clone(),
            kind: "unreadable",
            size: None,
            modified: None,
            etag: None,
        });
        out.json("ls", objects.chain(unreadable))?;
    } else {
        let sizes = listing.names.iter().filter_map(|listed| Some(listed.meta.as_ref()?.size));
        let width = sizes.max().unwrap_or(0).to_string().len();
        for listed in &listing.names {
            let name = node::text(listed.name.as_bytes());
            match &listed.meta {
                Some(meta) => {
                    let time = node::short_time(modified(meta));
                    writeln!(out, "{:>width$} {time} {name}", meta.size)?;
                }
                None => writeln!(out, "{:>width$} {:>19} {name}", "-", "-")?,
            }
        }
        for name in &listing.unreadable {
            writeln!(out, "{:>width$} {:>19} {}", "?", "?", node::text(name.as_bytes()))?;
        }
    }
    if let Some(first) = listing.unreadable.first() {
        let (first, count) = (node::text(first.as_bytes()), listing.unreadable.len());
        let keys = if count == 1 { "key" } else { "keys" };
        let note = format!("{count} {keys} that no request can ask for, such as '{first}'");
        out.notes(&[note])?;
    }
    if listing.is_cut {
        out.flush()?;
        let line = format!("{url}: there are more names than are listed; list longer prefixes");
        return Err(Failure::Check(line));
    }
    Ok(())
}
