//! Takes keys that `object_store` cannot name out of responses to listings.
//!
//! In:    responses to S3's ListObjectsV2, which Google's XML interface answers, too.
//! Out:   the same without such keys, and the keys beside them.
//! Never: a page of a thousand keys that is lost because of one; a key read as another one.
//!
//! `object_store` fails on a page with `a//b` in it, and reads `/a`, `a/` and ` a` as `a`.

/// The keys that were taken out of a page; an extension of its response.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct UnreadableKeys(pub(crate) Vec<String>);

/// The page without the elements of keys and prefixes that cannot be read, and those keys.
///
/// Text in XML has no `<` of its own, so an element ends where its closing tag is.
pub(crate) fn without_unreadable(page: &str) -> (String, Vec<String>) {
    let (mut kept, mut unreadable) = (String::with_capacity(page.len()), Vec::new());
    let mut rest = page;
    while let Some((start, end, element)) = next_element(rest) {
        let text = &rest[start..end];
        match key_of(text, element) {
            Some(key) if !is_readable(&key, element) => {
                kept.push_str(&rest[..start]);
                if !is_marker(&key, text) {
                    unreadable.push(key);
                }
            }
            Some(_) | None => kept.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    kept.push_str(rest);
    (kept, unreadable)
}

/// An element of a page: its name, and that of the key in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PageElement {
    Contents,
    CommonPrefixes,
}

impl PageElement {
    const fn tags(self) -> (&'static str, &'static str) {
        match self {
            Self::Contents => ("<Contents>", "</Contents>"),
            Self::CommonPrefixes => ("<CommonPrefixes>", "</CommonPrefixes>"),
        }
    }

    const fn key_tags(self) -> (&'static str, &'static str) {
        match self {
            Self::Contents => ("<Key>", "</Key>"),
            Self::CommonPrefixes => ("<Prefix>", "</Prefix>"),
        }
    }
}

/// Where the next element of a key or prefix begins and ends.
fn next_element(text: &str) -> Option<(usize, usize, PageElement)> {
    let at = |element: PageElement| Some((text.find(element.tags().0)?, element));
    let found = [at(PageElement::Contents), at(PageElement::CommonPrefixes)];
    let (start, element) = found.into_iter().flatten().min_by_key(|(start, _)| *start)?;
    let closing = element.tags().1;
    let end = start + text[start..].find(closing)? + closing.len();
    Some((start, end, element))
}

fn key_of(text: &str, element: PageElement) -> Option<String> {
    let (open, close) = element.key_tags();
    let (_, rest) = text.split_once(open)?;
    Some(unescaped(rest.split_once(close)?.0))
}

/// Whether `object_store` can name the key, and names no other one by it.
fn is_readable(key: &str, element: PageElement) -> bool {
    // Space at the ends of a text is lost when it is parsed.
    let is_trimmed = key.trim() == key;
    let key = match element {
        PageElement::Contents => key,
        PageElement::CommonPrefixes => key.strip_suffix('/').unwrap_or(key),
    };
    let is_segment = |part: &str| !matches!(part, "" | "." | "..");
    is_trimmed
        && !key.contains(|letter: char| letter.is_ascii_control() || letter == '\u{fffd}')
        && key.split('/').all(is_segment)
}

/// Whether it is an empty object that stands for a directory.
fn is_marker(key: &str, element: &str) -> bool {
    let name = key.strip_suffix('/');
    name.is_some_and(|name| is_readable(name, PageElement::Contents))
        && element.contains("<Size>0</Size>")
}

/// The text of an element. What is no reference of XML stays as it is.
fn unescaped(text: &str) -> String {
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

    fn object(key: &str, size: u64) -> String {
        format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>")
    }

    #[test]
    fn keys_that_cannot_be_named_are_taken_out_and_the_rest_stays() {
        let prefix = |key: &str| format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>");
        let good = [object("a", 1), prefix("a /"), object("b &amp; c", 0), object("...", 3)];
        let bad = ["a//b", "/a", "a/../b", "./a", "a&#10;b", " a", "a&#x7f;", "a/", "x//"];
        let mut page = format!("<R><Prefix>a//</Prefix>{}", good[0]);
        for key in bad {
            page += &object(key, 1);
        }
        page += &format!("{}{}{}{}{}</R>", good[1], prefix("a//"), prefix("/"), good[2], good[3]);
        let (kept, unreadable) = without_unreadable(&page);
        assert_eq!(kept, format!("<R><Prefix>a//</Prefix>{}</R>", good.concat()));
        let expected =
            ["a//b", "/a", "a/../b", "./a", "a\nb", " a", "a\u{7f}", "a/", "x//", "a//", "/"];
        assert_eq!(unreadable, expected);
    }

    #[test]
    fn an_empty_object_that_stands_for_a_directory_is_no_loss() {
        let (kept, unreadable) = without_unreadable(&object("a/b/", 0));
        assert_eq!((kept.as_str(), unreadable), ("", Vec::new()));
    }

    #[test]
    fn a_page_that_is_cut_or_no_page_stays_as_it_is() {
        for page in ["", "<Contents>", "<Contents><Key>a//b", "<Error/>", "<Contents></Contents>"] {
            assert_eq!(without_unreadable(page), (page.to_owned(), Vec::new()), "{page}");
        }
        assert_eq!(unescaped("a&b &lt;&#65;&#x42;&; &#xffffffff;"), "a&b <AB&; &#xffffffff;");
    }
}
