//! Listings of the names below a prefix: objects with their attributes, and prefixes, sorted and
//! without duplicates.
//!
//! A listing stops at [`NAMES_MAX`] names, which already take minutes. An incomplete one is always
//! an error or marked [`Listing::is_cut`].

use std::collections::HashSet;

use crate::error::ObjectError;
use crate::prefix::{ListedName, NAMES_MAX, Prefix, PrefixPage};

/// Names below a prefix.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listing {
    /// Names, sorted bytewise. Appended to the URL of the prefix they form the URLs of the objects;
    /// below `https://` they are percent-encoded.
    pub names: Vec<ListedName>,
    /// Names that no request can address, such as `a//b`, sorted.
    pub unreadable: Vec<String>,
    /// True if the listing was cut off before its end.
    pub is_cut: bool,
}

/// Lists the names directly below a prefix, or all of them. Each page has its own deadline.
pub(crate) fn list(prefix: &Prefix, is_deep: bool) -> Result<Listing, ObjectError> {
    let mut listing = Listing::default();
    let mut progress = ListingProgress::default();
    let mut token = None;
    loop {
        let page = prefix.page("", is_deep, token)?;
        let is_going_on = progress.take(&page);
        listing.names.extend(page.names);
        listing.unreadable.extend(page.unreadable);
        listing.is_cut = listing.names.len() + listing.unreadable.len() > NAMES_MAX;
        if listing.is_cut || page.next.is_none() {
            break;
        }
        if !is_going_on {
            let (url, why) = (prefix.url().to_owned(), REPEATS.to_owned());
            return Err(ObjectError::Failed { url, range: None, why });
        }
        token = page.next;
    }
    listing.names.truncate(NAMES_MAX);
    for listed in &mut listing.names {
        listed.name = prefix.name_in_url(std::mem::take(&mut listed.name));
    }
    listing.names.sort_by(|a, b| a.name.cmp(&b.name));
    // If an object was replaced between two pages, the later entry wins.
    listing.names.dedup_by(|next, kept| {
        let is_same = next.name == kept.name;
        if is_same {
            std::mem::swap(next, kept);
        }
        is_same
    });
    listing.unreadable.sort();
    listing.unreadable.dedup();
    Ok(listing)
}

/// Detects listings that make no progress from page to page.
#[derive(Debug, Default)]
struct ListingProgress {
    /// Tokens seen so far. A server that repeats one sends pages without end.
    tokens: HashSet<String>,
    /// Consecutive pages without a name.
    empty: u32,
    /// Names of the previous page, if it contained an object.
    before: Option<Vec<ListedName>>,
}

impl ListingProgress {
    /// Returns true if the page advanced the listing.
    fn take(&mut self, page: &PrefixPage) -> bool {
        self.empty = if page.names.is_empty() { self.empty + 1 } else { 0 };
        let is_new = page.next.as_ref().is_none_or(|token| self.tokens.insert(token.clone()));
        // A prefix may recur on each page that has keys below it; an object may not.
        let has_object = page.names.iter().any(|listed| listed.meta.is_some());
        let names = has_object.then(|| page.names.clone());
        let is_repeated = names.is_some() && names == self.before;
        self.before = names;
        is_new && !is_repeated && self.empty <= EMPTY_MAX
    }
}

/// Maximum number of consecutive pages without a name.
const EMPTY_MAX: u32 = 1000;

const REPEATS: &str = "the server's listing does not end";

#[cfg(test)]
mod tests {
    use super::*;

    fn page(names: &[&str], next: Option<&str>) -> PrefixPage {
        let listed = |name: &&str| {
            let location = object_store::path::Path::parse(name).unwrap();
            let last_modified = std::time::SystemTime::UNIX_EPOCH.into();
            let meta = object_store::ObjectMeta {
                location,
                last_modified,
                size: 1,
                e_tag: None,
                version: None,
            };
            ListedName { name: (*name).to_owned(), meta: (!name.ends_with('/')).then_some(meta) }
        };
        let names = names.iter().map(listed).collect();
        PrefixPage { names, unreadable: Vec::new(), next: next.map(str::to_owned) }
    }

    /// Tokens that took turns, or pages that began anew each time, went on for a million names.
    #[test]
    fn pages_that_come_again_end_a_listing() {
        let mut of_tokens = ListingProgress::default();
        assert!(of_tokens.take(&page(&["a"], Some("1"))));
        assert!(of_tokens.take(&page(&["b"], Some("2"))));
        assert!(!of_tokens.take(&page(&["c"], Some("1"))));
        let mut of_pages = ListingProgress::default();
        assert!(of_pages.take(&page(&["a", "b"], Some("1"))));
        assert!(!of_pages.take(&page(&["a", "b"], Some("2"))));
        let mut of_prefixes = ListingProgress::default();
        assert!(of_prefixes.take(&page(&["a/"], Some("1"))));
        assert!(of_prefixes.take(&page(&["a/"], Some("2"))));
        let mut empty = ListingProgress::default();
        let pages = (0..=EMPTY_MAX).map(|number| empty.take(&page(&[], Some(&number.to_string()))));
        assert_eq!(pages.filter(|is_going_on| !is_going_on).count(), 1);
    }
}
