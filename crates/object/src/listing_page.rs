//! Checks that a response is a complete page of a listing: ListObjectsV2 (S3, Google) or List Blobs
//! (Azure).
//!
//! `object_store` takes every element that it recognises and misses none, so a web page, an error
//! document or half a page would pass for a short listing.

use crate::listing_xml::{count, element, first_tag};

/// Protocol of a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ListingProtocol {
    /// ListObjectsV2.
    S3,
    /// List Blobs.
    Azure,
}

impl ListingProtocol {
    const fn root(self) -> &'static str {
        match self {
            Self::S3 => "ListBucketResult",
            Self::Azure => "EnumerationResults",
        }
    }

    const fn next_token(self) -> &'static str {
        match self {
            Self::S3 => "NextContinuationToken",
            Self::Azure => "NextMarker",
        }
    }

    /// Returns the query parameter that carries the token of a page.
    pub(crate) const fn token(self) -> &'static str {
        match self {
            Self::S3 => "continuation-token",
            Self::Azure => "marker",
        }
    }
}

/// Checks a page requested with `token`.
///
/// # Errors
///
/// The reason why names may be missing: the page is not a listing, is incomplete, or contradicts
/// its own end or continuation.
pub(crate) fn check(
    page: &str,
    protocol: ListingProtocol,
    token: Option<&str>,
) -> Result<(), String> {
    let root = protocol.root();
    match first_tag(page) {
        Some(tag) if tag == root => {}
        Some("Error") => return Err(error_document(page)),
        Some(tag) => return Err(format!("{NO_LISTING}, but a document that begins with <{tag}>")),
        None => return Err(format!("{NO_LISTING}, but a body that is not XML")),
    }
    let is_empty_tag = element(page, root).is_some_and(|it| it.content.is_empty());
    if !is_empty_tag && !page.trim_end().ends_with(&format!("</{root}>")) {
        return Err("the page of the listing is truncated".to_owned());
    }
    let text = |name: &str| element(page, name).map(|it| it.content.trim());
    let next = text(protocol.next_token()).filter(|next| !next.is_empty());
    if next.is_some() && next == token {
        let why = "the server repeats the same page of the listing";
        return Err(why.to_owned());
    }
    match protocol {
        ListingProtocol::S3 => check_s3(page, next.is_some(), text),
        ListingProtocol::Azure => Ok(()),
    }
}

fn check_s3<'p>(
    page: &'p str,
    has_next: bool,
    text: impl Fn(&str) -> Option<&'p str>,
) -> Result<(), String> {
    if let Some(encoding) = text("EncodingType").filter(|encoding| !encoding.is_empty()) {
        return Err(format!(
            "the server encodes the names of its listing ({encoding}), which was not requested"
        ));
    }
    let names = count(page, "Contents") + count(page, "CommonPrefixes");
    let is_truncated = match text("IsTruncated").map(str::to_ascii_lowercase).as_deref() {
        Some("true" | "1") => true,
        // Only servers of the first version of the request send this.
        None => text("NextMarker").is_some_and(|marker| !marker.is_empty()),
        Some("false" | "0") => false,
        Some(other) => return Err(format!("the listing has IsTruncated {other:?}")),
    };
    let most = text("MaxKeys").and_then(|text| text.parse().ok()).unwrap_or(PAGE_NAMES);
    if text("IsTruncated").is_none() && !has_next && names >= most.max(1) {
        return Err(format!(
            "the page of the listing is full with {names} names, and does not say (IsTruncated) \
             whether there are more"
        ));
    }
    if is_truncated && !has_next {
        return Err(format!(
            "the server sends {names} names and reports more, but no NextContinuationToken: it \
             may support only version 1 of ListObjects; list longer prefixes"
        ));
    }
    // Some servers do not count prefixes, so the page may hold more names than the count.
    let counted = text("KeyCount").and_then(|text| text.parse::<usize>().ok());
    match counted {
        Some(counted) if counted > names => {
            Err(format!("the page of the listing reports {counted} names, but has {names}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn error_document(page: &str) -> String {
    let text = |name: &str| element(page, name).map(|it| it.content.trim());
    let code = text("Code").unwrap_or("without a code");
    let message = text("Message").unwrap_or_default();
    format!("{NO_LISTING}, but the error {code} with status 200: {message}")
}

/// Names of a full page, unless the request or the server has another limit.
const PAGE_NAMES: usize = 1000;

const NO_LISTING: &str = "the server has sent no listing";

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(inner: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\">{inner}</ListBucketResult>\n"
        )
    }

    fn of_s3(page: &str) -> Result<(), String> {
        check(page, ListingProtocol::S3, Some("t1"))
    }

    const TOKEN: &str = "<NextContinuationToken>t2</NextContinuationToken>";
    const TWO: &str = "<Contents><Key>a</Key></Contents><CommonPrefixes><Prefix>b/</Prefix>\
                       </CommonPrefixes>";

    #[test]
    fn complete_pages_and_pages_with_a_token_are_accepted() {
        for inner in [
            "",
            "<IsTruncated>false</IsTruncated>",
            "<KeyCount>0</KeyCount><IsTruncated> False </IsTruncated><NextContinuationToken/>",
            &format!("{TWO}<KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>{TOKEN}"),
            &format!("{TWO}<KeyCount>1</KeyCount>"),
            &format!("{TWO}<MaxKeys>3</MaxKeys>"),
            "<MaxKeys>0</MaxKeys>",
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t2</NextContinuationToken>",
            "<NextMarker></NextMarker>",
        ] {
            assert_eq!(of_s3(&s3(inner)), Ok(()), "{inner}");
        }
        assert_eq!(of_s3("<ListBucketResult/>"), Ok(()));
        assert_eq!(of_s3("\u{feff}<!-- a --><ListBucketResult></ListBucketResult>"), Ok(()));
        let azure = "<EnumerationResults><Blobs/><NextMarker>m</NextMarker></EnumerationResults>";
        assert_eq!(check(azure, ListingProtocol::Azure, None), Ok(()));
    }

    /// A page without a token for the next one was the last, and any other document was an empty
    /// listing.
    #[test]
    fn a_page_that_may_lack_names_is_an_error() {
        for (page, why) in [
            (s3("<IsTruncated>true</IsTruncated>"), "NextContinuationToken"),
            (s3("<IsTruncated>TRUE</IsTruncated><NextContinuationToken/>"), "NextContinuation"),
            (s3("<IsTruncated>true</IsTruncated><NextMarker>a</NextMarker>"), "version 1"),
            (s3("<NextMarker>a</NextMarker>"), "version 1"),
            (s3("<IsTruncated>perhaps</IsTruncated>"), "perhaps"),
            (s3(&format!("{TWO}<KeyCount>3</KeyCount>")), "3 names, but has 2"),
            (s3(&format!("{TWO}<MaxKeys>2</MaxKeys>")), "full with 2 names"),
            (s3(&TWO.repeat(PAGE_NAMES / 2)), "full with 1000 names"),
            (s3("<EncodingType>url</EncodingType>"), "not requested"),
            (s3("<NextContinuationToken>t1</NextContinuationToken>"), "repeats"),
            ("<ListBucketResult><Contents><Key>a</Key>".to_owned(), "is truncated"),
            ("<ListBucketResult>".to_owned(), "is truncated"),
            ("<html><body>log in</body></html>".to_owned(), "<html>"),
            ("<!DOCTYPE html>\n<HTML>".to_owned(), "<HTML>"),
            ("<Error><Code>SlowDown</Code><Message>m</Message></Error>".to_owned(), "SlowDown"),
            ("{\"keys\": []}".to_owned(), "not XML"),
            (String::new(), "not XML"),
        ] {
            let error = of_s3(&page).expect_err(&page);
            assert!(error.contains(why), "{page}: {error}");
        }
        let azure = |page| check(page, ListingProtocol::Azure, Some("m")).unwrap_err();
        assert!(azure("<EnumerationResults><Blobs>").contains("is truncated"));
        assert!(azure("<html/>").contains("<html>"));
        let again = "<EnumerationResults><Blobs/><NextMarker>m</NextMarker></EnumerationResults>";
        assert!(azure(again).contains("repeats"));
    }
}
