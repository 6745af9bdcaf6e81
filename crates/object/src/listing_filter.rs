//! Removes keys that `object_store` cannot represent from listing responses: S3's ListObjectsV2,
//! also served by Google's XML interface, and Azure's List Blobs.
//!
//! `object_store` fails on a page with `a//b` in it, and reads `/a` and `a/` as `a`. Without this
//! filter one such key would lose a page of a thousand, or be mistaken for another key.

use std::borrow::Cow;

use crate::listing_date;
use crate::listing_xml::{XmlElement, element, unescaped};

/// Keys removed from a page; an extension of its response.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct UnreadableKeys(pub(crate) Vec<String>);

/// Returns the page without the elements of unreadable keys and prefixes, and those keys. All text
/// in the page is escaped. If it `is_lossy`, replacement characters stand for invalid UTF-8.
pub(crate) fn without_unreadable(page: &str, is_lossy: bool) -> (String, Vec<String>) {
    let (mut kept, mut unreadable) = (String::with_capacity(page.len()), Vec::new());
    let (mut rest, mut next) = (page, NextElements::default());
    while let Some((found, kind)) = next.first(rest) {
        let end = found.place.end;
        match key_of(found.content, kind) {
            Some(key) if !key.is_readable(kind) || (is_lossy && key.text.contains('\u{fffd}')) => {
                kept.push_str(&rest[..found.place.start]);
                if !key.is_marker(found.content) {
                    unreadable.push(key.text);
                }
            }
            Some(_) => {
                kept.push_str(&rest[..found.place.start]);
                kept.push_str(&with_readable_date(&rest[found.place.clone()], kind));
            }
            None => kept.push_str(&rest[..end]),
        }
        rest = &rest[end..];
        next.forget_before(end);
    }
    kept.push_str(rest);
    (kept, unreadable)
}

/// An element of a page that contains a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PageElement {
    Contents,
    CommonPrefixes,
    Blob,
    BlobPrefix,
}

impl PageElement {
    const ALL: [Self; 4] = [Self::Contents, Self::CommonPrefixes, Self::Blob, Self::BlobPrefix];

    const fn name(self) -> &'static str {
        match self {
            Self::Contents => "Contents",
            Self::CommonPrefixes => "CommonPrefixes",
            Self::Blob => "Blob",
            Self::BlobPrefix => "BlobPrefix",
        }
    }

    /// Returns the element with the date, and the tag behind which it belongs; None for prefixes.
    const fn date(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Contents => Some(("LastModified", "<Contents>")),
            Self::Blob => Some(("Last-Modified", "<Properties>")),
            Self::CommonPrefixes | Self::BlobPrefix => None,
        }
    }

    const fn name_of_key(self) -> &'static str {
        match self {
            Self::Contents => "Key",
            Self::CommonPrefixes => "Prefix",
            Self::Blob | Self::BlobPrefix => "Name",
        }
    }

    const fn is_prefix(self) -> bool {
        match self {
            Self::Contents | Self::Blob => false,
            Self::CommonPrefixes | Self::BlobPrefix => true,
        }
    }
}

/// Start of the next element of each kind, so that a page is scanned once per kind. None: unknown;
/// an offset past the page: no more elements.
#[derive(Debug, Default)]
struct NextElements {
    starts: [Option<usize>; PageElement::ALL.len()],
}

impl NextElements {
    fn first<'x>(&mut self, text: &'x str) -> Option<(XmlElement<'x>, PageElement)> {
        for (kind, start) in PageElement::ALL.into_iter().zip(&mut self.starts) {
            let found = || element(text, kind.name()).map_or(usize::MAX, |it| it.place.start);
            start.get_or_insert_with(found);
        }
        let starts = PageElement::ALL.into_iter().zip(self.starts);
        let (kind, start) = starts.min_by_key(|(_, start)| *start)?;
        let start = start.filter(|start| *start < text.len())?;
        let mut found = element(&text[start..], kind.name())?;
        found.place = found.place.start + start..found.place.end + start;
        Some((found, kind))
    }

    /// Invalidates offsets before this one, because the text in front of it is cut off.
    fn forget_before(&mut self, end: usize) {
        for start in &mut self.starts {
            *start = match *start {
                Some(usize::MAX) => Some(usize::MAX),
                Some(at) => at.checked_sub(end),
                None => None,
            };
        }
    }
}

/// A key of a page.
#[derive(Clone, Debug, Eq, PartialEq)]
struct ListedKey {
    text: String,
    /// Azure percent-encodes names that XML cannot represent.
    is_encoded: bool,
}

fn key_of(content: &str, kind: PageElement) -> Option<ListedKey> {
    let found = element(content, kind.name_of_key())?;
    let is_encoded = found.attributes.contains("Encoded") && found.attributes.contains("true");
    Some(ListedKey { text: unescaped(found.content), is_encoded })
}

impl ListedKey {
    /// Returns true if `object_store` can represent the key, and maps no other key to the same
    /// path.
    fn is_readable(&self, kind: PageElement) -> bool {
        let key = if kind.is_prefix() {
            self.text.strip_suffix('/').unwrap_or(&self.text)
        } else {
            &self.text
        };
        !self.is_encoded && is_path(key)
    }

    /// Returns true if the key is an empty object that marks a directory.
    fn is_marker(&self, content: &str) -> bool {
        let size = element(content, "Size").or_else(|| element(content, "Content-Length"));
        let is_empty = size.is_some_and(|size| size.content.trim() == "0");
        is_empty && self.text.strip_suffix('/').is_some_and(is_path)
    }
}

/// Returns the element of an object with its date in the form of its protocol. The first second of
/// 1970 stands for a date that is missing or none: without this, it would lose the whole page.
fn with_readable_date(object: &str, kind: PageElement) -> Cow<'_, str> {
    let Some((name, parent)) = kind.date() else { return object.into() };
    let found = element(object, name);
    let stated = found.as_ref().map_or("", |found| found.content.trim());
    let is_rfc_3339 = kind == PageElement::Contents;
    let Some(date) = listing_date::in_form(stated, is_rfc_3339) else { return object.into() };
    let place = match (found, object.find(parent)) {
        (Some(found), _) => found.place,
        (None, Some(at)) => at + parent.len()..at + parent.len(),
        (None, None) => return object.into(),
    };
    let (before, after) = (&object[..place.start], &object[place.end..]);
    format!("{before}<{name}>{date}</{name}>{after}").into()
}

fn is_path(key: &str) -> bool {
    let is_segment = |part: &str| !matches!(part, "" | "." | "..");
    !key.contains(|letter: char| letter.is_ascii_control()) && key.split('/').all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, size: u64) -> String {
        let date = "<LastModified>2026-11-24T10:00:00Z</LastModified>";
        format!("<Contents><Key>{key}</Key>{date}<Size>{size}</Size></Contents>")
    }

    #[test]
    fn keys_that_cannot_be_named_are_taken_out_and_the_rest_stays() {
        let prefix = |key: &str| format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>");
        let good = [object("a", 1), prefix("a /"), object("b &amp; c", 0), object("...", 3)];
        let bad = ["a//b", "/a", "a/../b", "./a", "a&#10;b", "a&#x7f;", "a/", "x//"];
        let mut page = format!("<R><Prefix>a//</Prefix>{}", good[0]);
        for key in bad {
            page += &object(key, 1);
        }
        page += &format!("{}{}{}{}{}</R>", good[1], prefix("a//"), prefix("/"), good[2], good[3]);
        let (kept, unreadable) = without_unreadable(&page, false);
        assert_eq!(kept, format!("<R><Prefix>a//</Prefix>{}</R>", good.concat()));
        let expected = ["a//b", "/a", "a/../b", "./a", "a\nb", "a\u{7f}", "a/", "x//", "a//", "/"];
        assert_eq!(unreadable, expected);
    }

    #[test]
    fn bytes_that_are_no_text_are_no_key() {
        let page = object("a\u{fffd}", 1);
        assert_eq!(without_unreadable(&page, false), (page.clone(), Vec::new()));
        assert_eq!(without_unreadable(&page, true), (String::new(), vec!["a\u{fffd}".to_owned()]));
    }

    #[test]
    fn an_empty_object_that_stands_for_a_directory_is_no_loss() {
        let (kept, unreadable) = without_unreadable(&object("a/b/", 0), false);
        assert_eq!((kept.as_str(), unreadable), ("", Vec::new()));
    }

    #[test]
    fn a_page_that_is_cut_or_no_page_stays_as_it_is() {
        for page in ["", "<Contents>", "<Contents><Key>a//b", "<Error/>", "<Contents></Contents>"] {
            assert_eq!(without_unreadable(page, false), (page.to_owned(), Vec::new()), "{page}");
        }
    }

    /// A page of Azure was an error as a whole, or its names were read as others.
    #[test]
    fn names_of_azure_that_cannot_be_read_are_taken_out() {
        let blob = |name: &str, size: u64| {
            let date = "<Last-Modified>Tue, 24 Nov 2026 10:00:00 GMT</Last-Modified>";
            let size = format!("<Content-Length>{size}</Content-Length>");
            format!("<Blob>{name}<Properties>{date}{size}</Properties></Blob>")
        };
        let name = |name: &str| format!("<Name>{name}</Name>");
        let prefix = |name: &str| format!("<BlobPrefix><Name>{name}</Name></BlobPrefix>");
        let good = [blob(&name(" a"), 1), prefix("b/")];
        let bad = [
            blob(&name("a//b"), 1),
            blob("<Name Encoded=\"true\">a%EF%BF%BE</Name>", 1),
            prefix("c//"),
            blob(&name("d/"), 0),
        ];
        let page = format!("<Blobs>{}{}{}</Blobs>", good[0], bad.concat(), good[1]);
        let (kept, unreadable) = without_unreadable(&page, false);
        assert_eq!(kept, format!("<Blobs>{}</Blobs>", good.concat()));
        assert_eq!(unreadable, ["a//b", "a%EF%BF%BE", "c//"]);
    }
}
