//! The names below a prefix.
//!
//! In:    a prefix.
//! Out:   objects with their attributes, and prefixes, sorted.
//! Never: more names than [`NAMES_MAX`]: a caller would wait for minutes, and take memory for all.

use crate::error::ObjectError;
use crate::prefix::{ListedName, NAMES_MAX, Prefix};

/// What is below a prefix.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listing {
    /// The names, sorted by their bytes.
    pub names: Vec<ListedName>,
    /// Names that no request can ask for, such as `a//b`, sorted.
    pub unreadable: Vec<String>,
    /// Whether there are more, which were not listed.
    pub is_cut: bool,
}

/// Lists directly below a prefix, or everything. Each page has a deadline of its own.
pub(crate) fn list(prefix: &Prefix, is_deep: bool) -> Result<Listing, ObjectError> {
    let mut listing = Listing::default();
    let (mut token, mut empty) = (None, 0);
    loop {
        let page = prefix.page("", is_deep, token.clone())?;
        empty = if page.names.is_empty() { empty + 1 } else { 0 };
        listing.names.extend(page.names);
        listing.unreadable.extend(page.unreadable);
        listing.is_cut = listing.names.len() + listing.unreadable.len() > NAMES_MAX;
        if listing.is_cut || page.next.is_none() {
            break;
        }
        if page.next == token || empty > EMPTY_MAX {
            let (url, why) = (prefix.url().to_owned(), REPEATS.to_owned());
            return Err(ObjectError::Failed { url, range: None, why });
        }
        token = page.next;
    }
    listing.names.truncate(NAMES_MAX);
    listing.names.sort_by(|a, b| a.name.cmp(&b.name));
    listing.unreadable.sort();
    Ok(listing)
}

/// How many pages without a name may come in a row.
const EMPTY_MAX: usize = 1000;

const REPEATS: &str = "the server sends pages of names without end";
