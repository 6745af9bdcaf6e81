//! The answers of a store to ListObjectsV2.
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

/// A page of at most so many names.
///
/// # Panics
///
/// If the request has a token that no page ended with.
pub fn answer<'k>(keys: impl Iterator<Item = Key<'k>>, query: &str, page: usize) -> String {
    let of = |name: &str| {
        let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.map(|value| decoded(&value.replace('+', " ")))
    };
    let prefix = of("prefix").unwrap_or_default();
    let delimiter = of("delimiter").filter(|delimiter| !delimiter.is_empty());
    let start: usize = of("continuation-token").map_or(0, |token| token.parse().unwrap());
    let mut names: Vec<(String, Option<(u64, String)>)> = Vec::new();
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
    let mut text = String::from("<?xml version=\"1.0\"?><ListBucketResult>");
    let end = (start + page).min(names.len());
    for (name, meta) in &names[start..end] {
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
    if end < names.len() {
        let _ = write!(text, "<NextContinuationToken>{end}</NextContinuationToken>");
    }
    let _ = write!(text, "<IsTruncated>{}</IsTruncated>", end < names.len());
    text + "</ListBucketResult>"
}

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
