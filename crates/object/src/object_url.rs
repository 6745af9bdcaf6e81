//! The URL of an object or of a prefix.
//!
//! In:    text: `s3://bucket/key`, `gs://`, `az://`, `https://`, `http://`.
//! Out:   which store, which key.
//! Never: a path that merely looks like a URL: a text without `://` is none.

use std::fmt;

use object_store::ObjectStoreScheme;
use object_store::path::Path;
use url::{Position, Url};

use crate::error::ObjectError;

/// The URL of an object, or of the objects whose keys begin with a prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObjectUrl {
    text: String,
    pub(crate) url: Url,
    pub(crate) scheme: ObjectStoreScheme,
    pub(crate) location: Path,
}

impl ObjectUrl {
    /// Whether a text is meant as a URL of a store: it has a scheme and `://`. `file://` is one,
    /// too, and names a file.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    }

    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// If it is none of a store, if its key cannot be one, or would be another one than the text
    /// says, or if it has a query or a user. The error names neither query nor user: they may be
    /// secret.
    ///
    /// ```
    /// use foreread_object::ObjectUrl;
    ///
    /// let url = ObjectUrl::parse("s3://bucket/folder/table.parquet")?;
    /// assert_eq!(url.key(), "folder/table.parquet");
    /// assert!(ObjectUrl::parse("s3://bucket/folder/")?.is_prefix());
    /// assert!(ObjectUrl::parse("ftp://host/file").is_err());
    /// # Ok::<(), foreread_object::ObjectError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ObjectError> {
        let wrong = |why: String| ObjectError::Url { url: without_secrets(text), why };
        let url = Url::parse(text).map_err(|error| {
            // Where its user ends is not known: it may have / and ? in it.
            let after_user = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
            let url = without_secrets(after_user);
            ObjectError::Url { url, why: format!("no URL: {error}") }
        })?;
        if let Some(why) = changed_by_parsing(text, &url) {
            return Err(wrong(why.to_owned()));
        }
        let parsed = ObjectStoreScheme::parse(&url);
        let (scheme, location) = parsed.map_err(|error| {
            let text = error.to_string();
            wrong(if text.starts_with(UNKNOWN) { KINDS.to_owned() } else { text })
        })?;
        if matches!(scheme, ObjectStoreScheme::Local | ObjectStoreScheme::Memory) {
            return Err(wrong(KINDS.to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            let why = "a query cannot be sent with requests for ranges; give a URL without ?.., \
                       and write ? and # of a key as %3F and %23";
            return Err(wrong(why.to_owned()));
        }
        // A web server's user alone is sent as well, and may be a token.
        let is_web = matches!(url.scheme(), "http" | "https");
        if url.password().is_some() || (is_web && !url.username().is_empty()) {
            let why = "no user and no password in a URL, where others see it; use the environment";
            return Err(wrong(why.to_owned()));
        }
        Ok(Self { text: text.to_owned(), url, scheme, location })
    }

    /// Returns the key of the object in its bucket, without percent encoding.
    #[must_use]
    pub fn key(&self) -> &str {
        self.location.as_ref()
    }

    /// Returns whether it names a bucket, or ends with `/`: then it stands for all keys that
    /// begin so.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        self.location.as_ref().is_empty() || self.url.path().ends_with('/')
    }

    /// What all URLs of one bucket have in common.
    pub(crate) fn bucket(&self) -> &str {
        let by_host = matches!(self.url.scheme(), "http" | "https")
            && !matches!(self.scheme, ObjectStoreScheme::Http);
        let start = &self.url[..Position::BeforePath];
        if !by_host {
            return start;
        }
        // Of https://host/bucket/key, where the bucket is part of the path.
        let path = self.url.path();
        let bucket = path[1..].find('/').map_or(path.len(), |at| at + 1);
        &self.url.as_str()[..start.len() + bucket]
    }
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text without what may be secret: the user and password before the host, and the query.
pub(crate) fn without_secrets(text: &str) -> String {
    let (start, query) = match text.find(['?', '#']) {
        Some(at) => (&text[..at], "?.."),
        None => (text, ""),
    };
    let Some((scheme, rest)) = start.split_once("://") else {
        return format!("{start}{query}");
    };
    let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
    let user = authority.rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}{query}", &rest[user..])
}

/// Why the parsed URL would have another key than the text: `s3://bucket/a/../b` is read as `b`,
/// though a store may have both.
fn changed_by_parsing(text: &str, url: &Url) -> Option<&'static str> {
    if text.trim() != text || text.contains(|letter: char| letter.is_ascii_control()) {
        return Some(
            "a URL has no spaces around it and no control characters; write %20 for a space",
        );
    }
    let path = text.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    if path.contains('\\') && url.is_special() {
        return Some("a URL has no \\; write %5C");
    }
    let is_dots = |segment: &str| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    };
    if path.split('/').skip(1).any(is_dots) {
        return Some("a part of the key is . or .., which keys that are read cannot have");
    }
    // As a prefix it would be one slash short, as a key another key.
    if path.to_ascii_lowercase().ends_with("%2f") {
        return Some("the key ends with /, which keys that are read cannot");
    }
    None
}

/// How `object_store` begins its error about a URL of no store.
const UNKNOWN: &str = "Unable to recognise";

const KINDS: &str = "no URL of a store; they begin with s3://, gs://, az://, https:// or http://";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_bucket_share_it() {
        let bucket = |text: &str| ObjectUrl::parse(text).unwrap().bucket().to_owned();
        assert_eq!(bucket("s3://lab/a/b"), "s3://lab");
        assert_eq!(bucket("http://host:8080/a/b"), "http://host:8080");
        assert_eq!(
            bucket("https://s3.eu-west-1.amazonaws.com/lab/a/b"),
            "https://s3.eu-west-1.amazonaws.com/lab"
        );
    }

    #[test]
    fn keys_are_decoded_and_prefixes_are_seen() {
        let url = ObjectUrl::parse("s3://lab/a%20b").unwrap();
        assert_eq!((url.key(), url.is_prefix()), ("a b", false));
        for prefix in ["s3://lab", "s3://lab/", "gs://lab/x/"] {
            assert!(ObjectUrl::parse(prefix).unwrap().is_prefix(), "{prefix}");
        }
    }

    /// `s3://lab/a/../b` was read as `b`, and `s3://lab/a%2F` as `a`.
    #[test]
    fn a_key_is_never_another_one_than_the_text_says() {
        for wrong in [
            "s3://lab/a/../b",
            "s3://lab/a/%2E%2e/b",
            "s3://lab/./b",
            "s3://lab/..",
            "s3://lab/a%2F",
            "s3://lab/a//b",
            "s3://lab//a",
            "s3://lab/a ",
            " s3://lab/a",
            "s3://lab/a\nb",
            "s3://lab/a%0Ab",
            "s3://lab/a%ff",
            "https://host/a\\b",
        ] {
            let parsed = ObjectUrl::parse(wrong);
            assert!(matches!(parsed, Err(ObjectError::Url { .. })), "{wrong:?}: {parsed:?}");
        }
        for (text, key) in [
            ("s3://lab/a b/c", "a b/c"),
            ("s3://lab/100%25", "100%"),
            ("s3://lab/100%", "100%"),
            ("s3://lab/\u{e4}/%C3%A4", "\u{e4}/\u{e4}"),
            ("s3://lab/...", "..."),
            ("s3://lab/a+b=c&d", "a+b=c&d"),
            ("s3://lab/what%3F%23", "what?#"),
            ("s3://lab/a\\b", "a\\b"),
        ] {
            assert_eq!(ObjectUrl::parse(text).unwrap().key(), key, "{text}");
        }
    }

    /// The error had the whole text, and a log has the error.
    #[test]
    fn an_error_about_a_url_has_no_password_and_no_signature() {
        for wrong in [
            "https://user:hush@host/x",
            "https://hush@host/x",
            "s3://key:hu%2Fsh@lab/hush@x?hush",
            "ftp://a:hush@host/x",
            "https://host/x?X-Amz-Signature=hush",
            "https://user:hush@host:port/x",
            "https://user:hush/more@host/x",
            "https://user:hush?more@host/x",
            "https://host/x#hush",
        ] {
            let error = ObjectUrl::parse(wrong).unwrap_err().to_string();
            assert!(!error.replace("/hush@x", "").contains("hush"), "{wrong}: {error}");
            assert!(error.contains("host") || error.contains("lab"), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_is_no_url_of_a_store_is_refused() {
        for wrong in [
            "s3:/lab/x",
            "ftp://host/x",
            "file:///x",
            "memory:///x",
            "s3://",
            "https://host/x?signature=1",
            "https://user:word@host/x",
            "https://token@host/x",
        ] {
            assert!(ObjectUrl::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!ObjectUrl::is_url("disk.img"));
        assert!(!ObjectUrl::is_url("./s3://x"));
        assert!(ObjectUrl::is_url("s3://x"));
    }
}
