//! A name to look up in a directory that may be case-insensitive. It never matches a name that the
//! kernel would not match.
//!
//! Linux compares by UTF-8 normalization form D with full case folding. Here the lower case of each
//! character is compared: names that differ in case alone are found. Names that are composed
//! differently (a letter and its accent as two characters) or fold to several letters are found
//! only as they are written.

use std::borrow::Cow;

/// A name to look up.
#[derive(Debug)]
pub(crate) struct SoughtName<'n> {
    name: &'n [u8],
    /// Name in lower case; None if the directory is case-sensitive, or the name is not text.
    folded: Option<String>,
}

impl<'n> SoughtName<'n> {
    pub(crate) fn new(name: &'n [u8], is_casefolded: bool) -> Self {
        let text = str::from_utf8(name).ok().filter(|_| is_casefolded);
        Self { name, folded: text.map(lower_case) }
    }

    /// Returns whether a name of the directory matches.
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        if name == self.name {
            return true;
        }
        let Some(folded) = &self.folded else { return false };
        str::from_utf8(name).is_ok_and(|name| lower_case(name) == *folded)
    }

    /// Returns the bytes that an index hashes; None if they cannot be determined.
    pub(crate) fn hashed(&self) -> Option<Cow<'n, [u8]>> {
        match &self.folded {
            None => Some(Cow::Borrowed(self.name)),
            // For other letters the index hashes their normalized form.
            Some(folded) if self.name.is_ascii() => Some(Cow::Owned(folded.clone().into_bytes())),
            Some(_) => None,
        }
    }
}

/// Returns the lower case of each character, without the rules for the ends of words.
fn lower_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_are_one_in_a_directory_that_folds_it() {
        for (name, other, is_same) in [
            ("README", "ReadMe", true),
            ("\u{c9}T\u{c9}", "\u{e9}t\u{e9}", true),
            ("a", "b", false),
            ("stra\u{df}e", "STRASSE", false),
        ] {
            let found = |folds| SoughtName::new(name.as_bytes(), folds).is(other.as_bytes());
            assert_eq!(found(true), is_same, "{name} {other}");
            assert!(!found(false), "{name} {other}");
        }
        assert!(!SoughtName::new(b"A\xff", true).is(b"a\xff"), "no text");
        assert_eq!(SoughtName::new(b"AbC", true).hashed().as_deref(), Some(&b"abc"[..]));
        assert_eq!(SoughtName::new("\u{c9}".as_bytes(), true).hashed(), None);
    }
}
