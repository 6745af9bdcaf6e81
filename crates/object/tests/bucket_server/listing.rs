//! The answers of a store to ListObjectsV2 (S3, Google) and List Blobs (Azure).
//!
//! In:    the keys of a bucket, in order; the query of a request.
//! Out:   a page of names, as XML.
//! Never: a page of more names than are allowed.

use std::fmt::Write as _;

use super::http::decoded;

/// An object of a bucket.
pub struct Key<'k> {
    pub name: &'k str,
    pub size: u64,
    pub tag: String,
}

/// A name of a listing; with size and tag, if it is that of an object.
type Name = (String, Option<(u64, String)>);

/// The names that a query asks for: at most so many, and where the next page begins.
///
/// # Panics
///
/// If the request has a token that no page ended with.
fn page<'k>(
    keys: impl Iterator<Item = Key<'k>>,
    query: &str,
    token: &str,
    page: usize,
) -> (Vec<Name>, Option<usize>) {
    let of = |name: &str| {
        let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.map(|value| decoded(&value.replace('+', " ")))
    };
    let prefix = of("prefix").unwrap_or_default();
    let delimiter = of("delimiter").filter(|delimiter| !delimiter.is_empty());
    let start: usize = of(token).map_or(0, |token| token.parse().unwrap());
    let mut names: Vec<Name> = Vec::new();
    for Key { name, size, tag } in keys.skip_while(|key| *key.name < *prefix) {
        let Some(rest) = name.strip_prefix(&prefix) else { break };
        let cut = delimiter.as_ref().and_then(|delimiter| rest.find(&**delimiter));
        let name = match cut {
            Some(at) => (format!("{prefix}{}", &rest[..=at]), None),
            None => (name.to_owned(), Some((size, tag))),
        };
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    let end = (start + page).min(names.len());
    let next = (end < names.len()).then_some(end);
    (names.drain(start..end).collect(), next)
}

/// A page of at most so many names, as S3 and Google's store list them.
pub fn answer<'k>(keys: impl Iterator<Item = Key<'k>>, query: &str, most: usize) -> String {
    let (names, next) = page(keys, query, "continuation-token", most);
    let mut text = String::from("<?xml version=\"1.0\"?><ListBucketResult>");
    for (name, meta) in &names {
        let name = escaped(name);
        let part = match meta {
            Some((size, tag)) => format!(
                "<Contents><Key>{name}</Key><LastModified>2026-11-24T10:00:00.000Z\
                 </LastModified><ETag>{}</ETag><Size>{size}</Size></Contents>",
                escaped(tag)
            ),
            None => format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"),
        };
        text += &part;
    }
    if let Some(next) = next {
        let _ = write!(text, "<NextContinuationToken>{next}</NextContinuationToken>");
    }
    let _ = write!(text, "<IsTruncated>{}</IsTruncated>", next.is_some());
    text + "</ListBucketResult>"
}

/// The same as Azure lists them.
pub fn blobs<'k>(keys: impl Iterator<Item = Key<'k>>, query: &str, most: usize) -> String {
    let (names, next) = page(keys, query, "marker", most);
    let mut text = String::from("<?xml version=\"1.0\"?><EnumerationResults><Blobs>");
    for (name, meta) in &names {
        let name = escaped(name);
        let part = match meta {
            Some((size, tag)) => format!(
                "<Blob><Name>{name}</Name><Properties><Last-Modified>{DATE}</Last-Modified>\
                 <Content-Length>{size}</Content-Length>\
                 <Content-Type>application/octet-stream</Content-Type><Etag>{}</Etag>\
                 </Properties></Blob>",
                // Without the quotes of its responses.
                tag.trim_matches('"')
            ),
            None => format!("<BlobPrefix><Name>{name}</Name></BlobPrefix>"),
        };
        text += &part;
    }
    let next = next.map(|next| next.to_string()).unwrap_or_default();
    let _ = write!(text, "</Blobs><NextMarker>{next}</NextMarker>");
    text + "</EnumerationResults>"
}

/// When all objects were written.
pub const DATE: &str = "Tue, 24 Nov 2026 10:00:00 GMT";

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            letter if letter.is_ascii_control() => {
                let _ = write!(escaped, "&#x{:x};", u32::from(letter));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}
