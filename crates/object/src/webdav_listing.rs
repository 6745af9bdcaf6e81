//! Checks a listing of a web server (the answer to PROPFIND) before `object_store` reads it:
//! `object_store` drops names that are shorter than the directory's, and fails on odd dates.

use url::Url;

use crate::listing_date;

/// Returns the page, all text escaped, with its dates in the form of HTTP.
///
/// # Errors
///
/// If it lists something that is not below `directory`, the URL of the request.
pub(crate) fn readable(page: &str, directory: &str) -> Result<String, String> {
    let base = Url::parse(directory).map_err(|error| error.to_string())?;
    let start = decoded(base.path().trim_end_matches('/'));
    let (mut kept, mut rest) = (String::with_capacity(page.len()), page);
    while let Some((name, text_at)) = next_tag(rest) {
        let text = rest[text_at..].split('<').next().unwrap_or_default();
        kept.push_str(&rest[..text_at]);
        rest = &rest[text_at + text.len()..];
        match name {
            "href" => {
                check_href(text.trim(), &base, &start)?;
                kept.push_str(text);
            }
            "getlastmodified" => match listing_date::in_form(text.trim(), false) {
                Some(date) => kept.push_str(&date),
                None => kept.push_str(text),
            },
            _ => kept.push_str(text),
        }
    }
    kept.push_str(rest);
    Ok(kept)
}

fn check_href(href: &str, base: &Url, start: &str) -> Result<(), String> {
    let url = base.join(&crate::listing_xml::unescaped(href)).map_err(|error| error.to_string())?;
    let path = decoded(url.path());
    let is_below = path
        .strip_prefix(start)
        .is_some_and(|rest| matches!(rest.chars().next(), None | Some('/')));
    if is_below {
        Ok(())
    } else {
        Err(format!("the server lists {href:?}, which is not below {start:?}"))
    }
}

/// Returns the local name of the next opening tag with a text, and the start of that text.
fn next_tag(text: &str) -> Option<(&str, usize)> {
    let mut at = 0;
    loop {
        at += text[at..].find('<')? + 1;
        let end = at + text[at..].find('>')?;
        let tag = &text[at..end];
        if !tag.starts_with(['/', '?', '!']) && !tag.ends_with('/') {
            let name = tag.split_ascii_whitespace().next().unwrap_or_default();
            return Some((name.rsplit(':').next().unwrap_or_default(), end + 1));
        }
    }
}

/// Returns a path without percent-encoding.
fn decoded(path: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: &str = "http://host/a%20dir";

    fn page(href: &str, date: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{href}\
             </D:href><D:prop><lp1:getlastmodified>{date}</lp1:getlastmodified><D:collection/>\
             </D:prop></D:response></D:multistatus>"
        )
    }

    const DATE: &str = "Tue, 24 Nov 2026 10:00:00 GMT";

    #[test]
    fn names_below_the_directory_are_taken() {
        for href in [
            "/a%20dir",
            "/a%20dir/",
            " /a%20dir/x%2520y ",
            "http://host/a%20dir/x",
            "/%61%20dir/a&amp;b",
            "/a%20dir/\u{e4}",
        ] {
            let page = page(href, DATE);
            assert_eq!(readable(&page, DIRECTORY).as_deref(), Ok(&*page));
        }
        let page = page("/x", DATE);
        assert_eq!(readable(&page, "http://host/").as_deref(), Ok(&*page));
    }

    /// Such a directory was empty if its names were short.
    #[test]
    fn names_of_another_directory_are_an_error() {
        for href in ["/b", "/", "/a%20dirt/x", "/a%20dir/../b", "/internal/a%20dir/x"] {
            let error = readable(&page(href, DATE), DIRECTORY).expect_err(href);
            assert!(error.contains("which is not below \"/a dir\""), "{error}");
        }
    }

    #[test]
    fn a_date_in_another_form_is_rewritten() {
        for (date, expected) in
            [("2026-11-24T10:00:00Z", DATE), ("soon", "Thu, 01 Jan 1970 00:00:00 GMT")]
        {
            let found = readable(&page("/a%20dir/x", date), DIRECTORY);
            assert_eq!(found, Ok(page("/a%20dir/x", expected)));
        }
    }

    #[test]
    fn what_is_no_page_stays_as_it_is() {
        for text in ["", "<", "<a", "<a>", "text", "<D:href", "</D:href>"] {
            assert_eq!(readable(text, DIRECTORY).as_deref(), Ok(text));
        }
    }
}
