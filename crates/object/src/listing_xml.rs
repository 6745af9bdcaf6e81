//! A minimal XML reader for pages of listings: finds elements by name and unescapes text.
//!
//! It reports no errors; text that is not XML has no elements. Namespace prefixes are unsupported,
//! because no store sends them.

use std::borrow::Cow;
use std::ops::Range;

/// An element in a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct XmlElement<'x> {
    /// Position of the element, tags included.
    pub(crate) place: Range<usize>,
    /// Text of its opening tag behind the name.
    pub(crate) attributes: &'x str,
    pub(crate) content: &'x str,
}

/// Returns the first element of this name. Elements of the same name do not nest.
pub(crate) fn element<'x>(text: &'x str, name: &str) -> Option<XmlElement<'x>> {
    let (start, behind_name) = opening_tag(text, name, 0)?;
    let tag_end = behind_name + text[behind_name..].find('>')?;
    let attributes = &text[behind_name..tag_end];
    if let Some(attributes) = attributes.strip_suffix('/') {
        return Some(XmlElement { place: start..tag_end + 1, attributes, content: "" });
    }
    let closing = format!("</{name}>");
    let content = &text[tag_end + 1..];
    let content = &content[..content.find(&closing)?];
    let end = tag_end + 1 + content.len() + closing.len();
    Some(XmlElement { place: start..end, attributes, content })
}

/// Returns the number of elements of this name that begin in a text.
pub(crate) fn count(text: &str, name: &str) -> usize {
    let (mut count, mut at) = (0, 0);
    while let Some((_, behind)) = opening_tag(text, name, at) {
        (count, at) = (count + 1, behind);
    }
    count
}

/// Returns the name of the first tag of a document.
pub(crate) fn first_tag(text: &str) -> Option<&str> {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let skipped = match rest {
            _ if rest.starts_with("<!--") => "-->",
            _ if rest.starts_with("<?") => "?>",
            _ if rest.starts_with("<!") => ">",
            _ => break,
        };
        rest = rest[rest.find(skipped)? + skipped.len()..].trim_start();
    }
    let name = rest.strip_prefix('<')?;
    let end = name.find(|letter: char| letter.is_whitespace() || matches!(letter, '>' | '/'))?;
    Some(&name[..end])
}

/// Returns the start of the next opening tag of this name, and the end of its name.
fn opening_tag(text: &str, name: &str, from: usize) -> Option<(usize, usize)> {
    let opening = format!("<{name}");
    let mut at = from;
    loop {
        let start = at + text[at..].find(&opening)?;
        at = start + opening.len();
        let is_whole = |next: char| next.is_whitespace() || matches!(next, '>' | '/');
        if text[at..].starts_with(is_whole) {
            return Some((start, at));
        }
    }
}

/// Returns the document with all text escaped and without comments, so that each `<` begins a tag.
pub(crate) fn without_sections(text: &str) -> Cow<'_, str> {
    if !text.contains("<!") {
        return text.into();
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("<!") {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (opening, closing) = match rest {
            _ if rest.starts_with("<![CDATA[") => ("<![CDATA[", "]]>"),
            _ if rest.starts_with("<!--") => ("<!--", "-->"),
            _ => ("<!", ">"),
        };
        // An unterminated section truncates the document.
        let Some(length) = rest[opening.len()..].find(closing) else { break };
        if opening == "<![CDATA[" {
            let content = &rest[opening.len()..opening.len() + length];
            plain += &content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        }
        rest = &rest[opening.len() + length + closing.len()..];
    }
    plain.push_str(rest);
    plain.into()
}

/// Unescapes the text of an element. Invalid references stay unchanged.
pub(crate) fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let reference = rest.find(';').and_then(|end| Some((letter_of(&rest[1..end])?, end)));
        let (letter, end) = reference.unwrap_or(('&', 0));
        plain.push(letter);
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    plain
}

fn letter_of(name: &str) -> Option<char> {
    let number = |text: &str, radix| u32::from_str_radix(text, radix).ok().and_then(char::from_u32);
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match name.strip_prefix("#x") {
            Some(hex) => number(hex, 16),
            None => number(name.strip_prefix('#')?, 10),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_their_whole_names() {
        let text = "<Keys>1</Keys><Key a='b'>2</Key><Key/><Key>3</Key>";
        let found = element(text, "Key").unwrap();
        assert_eq!((found.attributes, found.content, found.place), (" a='b'", "2", 14..32));
        assert_eq!((count(text, "Key"), count(text, "Ke"), element("<Key>", "Key")), (3, 0, None));
        assert_eq!(element(&text[32..], "Key").unwrap().content, "");
    }

    #[test]
    fn references_and_sections_are_text() {
        assert_eq!(unescaped("a&b &lt;&#65;&#x42;&; &#xffffffff;"), "a&b <AB&; &#xffffffff;");
        let text = "<!DOCTYPE a><Key><![CDATA[</Key>&a]]></Key><!-- <Key> -->";
        assert_eq!(without_sections(text), "<Key>&lt;/Key&gt;&amp;a</Key>");
        assert_eq!(without_sections("<a><![CDATA[b"), "<a><![CDATA[b");
        assert_eq!(without_sections("<a>"), "<a>");
    }
}
