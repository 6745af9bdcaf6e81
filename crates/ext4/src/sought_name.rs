//! A name that is looked for in a directory, which may not distinguish the case of letters.
//!
//! In:    the name, and whether the directory folds case.
//! Out:   whether a name of the directory is it; the form that the index hashes.
//! Never: a name found that the kernel would not find.
//!
//! Linux compares by UTF-8 normalization form D with full case folding. Here each character's lower
//! case is compared: names that differ in case alone are found, those that are composed in another
//! way (a letter and its accent as two characters) or fold to several letters are found as they are
//! written.

use std::borrow::Cow;

/// A name that is looked for.
#[derive(Debug)]
pub(crate) struct SoughtName<'n> {
    name: &'n [u8],
    /// In lower case; None: the directory distinguishes case, or the name is no text.
    folded: Option<String>,
}

impl<'n> SoughtName<'n> {
    pub(crate) fn new(name: &'n [u8], is_casefolded: bool) -> Self {
        let text = str::from_utf8(name).ok().filter(|_| is_casefolded);
        Self { name, folded: text.map(lower_case) }
    }

    /// Whether a name of the directory is this one.
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        if name == self.name {
            return true;
        }
        let Some(folded) = &self.folded else { return false };
        str::from_utf8(name).is_ok_and(|name| lower_case(name) == *folded)
    }

    /// The bytes that an index hashes; None if they are not known here.
    pub(crate) fn hashed(&self) -> Option<Cow<'n, [u8]>> {
        match &self.folded {
            None => Some(Cow::Borrowed(self.name)),
            // Of other letters the hash is of their normalized form.
            Some(folded) if self.name.is_ascii() => Some(Cow::Owned(folded.clone().into_bytes())),
            Some(_) => None,
        }
    }
}

/// The lower case of each character, without the rules for the ends of words.
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
