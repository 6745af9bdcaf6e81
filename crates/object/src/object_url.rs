//! Parses the URL of an object or a prefix: `s3://bucket/key`, `gs://`, `az://`, `https://`,
//! `http://`.
//!
//! In store URLs the key is literal, as in other clients of stores; the path of `https://` and
//! `http://` is percent-decoded once. A key is never altered: a URL that `object_store` would map
//! to another key is an error. Text without `://` is a path, not a URL.

use std::fmt;

use object_store::ObjectStoreScheme;
use object_store::path::Path;
use url::{Position, Url};

use crate::error::ObjectError;

/// URL of an object, or of all objects under a prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObjectUrl {
    text: String,
    pub(crate) url: Url,
    pub(crate) scheme: ObjectStoreScheme,
    pub(crate) location: Path,
}

impl ObjectUrl {
    /// Returns true if a text has a scheme and `://`, and so is meant as a URL of a store. This
    /// includes `file://`, which names a file.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    }

    /// Parses a URL. In `s3://`, `gs://` and `az://` URLs, everything behind the bucket is the
    /// literal key, including `%`, `?` and `#`; in `https://` and `http://` URLs it is
    /// percent-decoded once.
    ///
    /// # Errors
    ///
    /// If the URL is not of a store, has a query or a user, or its key is invalid or would be
    /// mapped to another key. The error omits query and user, which may be secret.
    ///
    /// ```
    /// use foreread_object::ObjectUrl;
    ///
    /// let url = ObjectUrl::parse("s3://bucket/folder/table.parquet")?;
    /// assert_eq!(url.key(), "folder/table.parquet");
    /// assert_eq!(ObjectUrl::parse("s3://bucket/a%20b?")?.key(), "a%20b?");
    /// assert_eq!(ObjectUrl::parse("https://host/a%20b%3F")?.key(), "a b?");
    /// assert!(ObjectUrl::parse("s3://bucket/folder/")?.is_prefix());
    /// assert!(ObjectUrl::parse("ftp://host/file").is_err());
    /// # Ok::<(), foreread_object::ObjectError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ObjectError> {
        let wrong = |why: String| ObjectError::Url { url: without_secrets(text), why };
        let (start, key) =
            literal_key(text).map_or((text, None), |(start, key)| (start, Some(key)));
        let url = Url::parse(start).map_err(|error| {
            // The end of the user is ambiguous: it may contain / and ?.
            let after_user = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
            let url = without_secrets(after_user);
            ObjectError::Url { url, why: format!("no URL: {error}") }
        })?;
        if key.is_none()
            && let Some(why) = changed_by_parsing(text, &url)
        {
            return Err(wrong(why.to_owned()));
        }
        let parsed = ObjectStoreScheme::parse(&url);
        let (scheme, decoded) = parsed.map_err(|error| {
            let text = error.to_string();
            wrong(if text.starts_with(UNKNOWN) { KINDS.to_owned() } else { text })
        })?;
        if matches!(scheme, ObjectStoreScheme::Local | ObjectStoreScheme::Memory) {
            return Err(wrong(KINDS.to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            let why = "a query cannot be sent with requests for ranges; give a URL without ?.., \
                       and write ? and # of a name as %3F and %23";
            return Err(wrong(why.to_owned()));
        }
        // A user alone is sent to web servers, too, and may be a token.
        let is_web = matches!(url.scheme(), "http" | "https");
        if url.password().is_some() || (is_web && !url.username().is_empty()) {
            let why = "a URL must not contain a user or password, since other users may see it; \
                       use the environment";
            return Err(wrong(why.to_owned()));
        }
        if matches!(scheme, ObjectStoreScheme::Http) && has_encoded_slash(&url) {
            return Err(wrong(ENCODED_SLASH.to_owned()));
        }
        let location = match key {
            Some(key) => literal_path(key).map_err(|why| wrong(why.to_owned()))?,
            None => decoded,
        };
        Ok(Self { text: text.to_owned(), url, scheme, location })
    }

    /// Returns the key of the object in its bucket, without the percent-encoding of `https://`.
    #[must_use]
    pub fn key(&self) -> &str {
        self.location.as_ref()
    }

    /// Returns true if the URL names a bucket or ends with `/`: it then stands for all keys with
    /// this prefix.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        self.location.as_ref().is_empty() || self.text.ends_with('/')
    }

    /// Returns true if the names below it are percent-encoded in URLs, as in `https://`.
    pub(crate) fn is_encoded(&self) -> bool {
        matches!(self.url.scheme(), "http" | "https")
    }

    /// Returns the part that all URLs of one bucket share.
    pub(crate) fn bucket(&self) -> &str {
        let by_host = matches!(self.url.scheme(), "http" | "https")
            && !matches!(self.scheme, ObjectStoreScheme::Http);
        let start = &self.url[..Position::BeforePath];
        if !by_host {
            return start;
        }
        // For https://host/bucket/key, the bucket is the first part of the path.
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

/// Removes possible secrets from a URL: user and password in front of the host, and the query.
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

/// Splits the URL of a store into the part in front of the key, and the key. Returns None for other
/// URLs, including those of web servers.
fn literal_key(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    if matches!(&*scheme.to_ascii_lowercase(), "http" | "https" | "file" | "memory") {
        return None;
    }
    let Some(at) = rest.find('/') else { return Some((text, "")) };
    let key_at = scheme.len() + "://".len() + at;
    Some((&text[..key_at], &text[key_at + 1..]))
}

/// Converts a key to the path of its requests.
///
/// # Errors
///
/// If `object_store` cannot represent the key, or would map it to another one.
fn literal_path(key: &str) -> Result<Path, &'static str> {
    if key.contains(|letter: char| letter.is_ascii_control()) {
        return Err("the key contains a control character, which is not supported");
    }
    let key = key.strip_suffix('/').map_or(key, |stem| if stem.is_empty() { key } else { stem });
    if key.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err("a part of the key is . or .., which is not supported");
    }
    match Path::parse(key) {
        Ok(path) if path.as_ref() == key => Ok(path),
        Ok(_) | Err(_) => {
            Err("a part of the key is empty (// in it, or / at its start), which is not supported")
        }
    }
}

/// Percent-encodes a name for URLs of web servers.
pub(crate) fn encoded(name: &str) -> String {
    let mut url = Url::parse("http://host").expect("it is a URL");
    let segments = url.path_segments_mut();
    segments.expect("it has a host").clear().extend(name.split('/'));
    url.path().strip_prefix('/').unwrap_or_default().to_owned()
}

/// Returns the reason why parsing would change the key in the URL of a web server:
/// `https://host/a/../b` is parsed as `b`.
fn changed_by_parsing(text: &str, url: &Url) -> Option<&'static str> {
    if text.trim() != text || text.contains(|letter: char| letter.is_ascii_control()) {
        return Some(
            "a URL must not have spaces around it or control characters; write %20 for a space",
        );
    }
    let path = text.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    if path.contains('\\') && url.is_special() {
        return Some("a URL must not contain \\; write %5C");
    }
    let is_dots = |segment: &str| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    };
    if path.split('/').skip(1).any(is_dots) {
        return Some("a part of the key is . or .., which is not supported");
    }
    // As a prefix it would lose a slash, and as a key it would become another key.
    if path.to_ascii_lowercase().ends_with("%2f") {
        return Some("the key ends with /, which is not supported");
    }
    None
}

/// Returns true if requests would contain a slash for a `%2F` in the URL. Web servers distinguish
/// the two.
fn has_encoded_slash(url: &Url) -> bool {
    url.path().to_ascii_lowercase().contains("%2f")
}

const ENCODED_SLASH: &str =
    "a web server may distinguish %2F from /, but requests would use /; copy the object to a file";

/// Start of `object_store`'s error about a URL of no store.
const UNKNOWN: &str = "Unable to recognise";

const KINDS: &str = "not the URL of a store; it must begin with s3://, gs://, az://, https:// or \
                     http://";

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
    fn prefixes_are_seen() {
        for prefix in ["s3://lab", "s3://lab/", "gs://lab/x/", "s3://lab/a?/", "https://host/x/"] {
            assert!(ObjectUrl::parse(prefix).unwrap().is_prefix(), "{prefix}");
        }
        for object in ["s3://lab/a%2F", "s3://lab/?", "https://host/x"] {
            assert!(!ObjectUrl::parse(object).unwrap().is_prefix(), "{object}");
        }
    }

    /// `s3://lab/a%20b` was read as `a b`, `s3://lab/a/../b` as `b`, and `s3://lab/v1#2` was
    /// refused.
    #[test]
    fn a_key_of_a_store_is_literal_and_never_another_one() {
        for wrong in [
            "s3://lab/a/../b",
            "s3://lab/./b",
            "s3://lab/..",
            "s3://lab/../",
            "s3://lab/a//b",
            "s3://lab//a",
            "s3://lab//",
            "s3://lab/a//",
            "s3://lab/a\nb",
            "s3://lab/a\u{7f}",
            "s3://lab?a",
            "s3://lab#a",
        ] {
            let parsed = ObjectUrl::parse(wrong);
            assert!(matches!(parsed, Err(ObjectError::Url { .. })), "{wrong:?}: {parsed:?}");
        }
        for key in [
            "a b/c",
            "a%20b",
            "a%2Fb",
            "a%2F",
            "a/%2E%2e/b",
            "a%ff",
            "a%0Ab",
            "100%25",
            "100%",
            "\u{e4}/%C3%A4",
            "a\u{308}",
            "...",
            "a+b=c&d",
            "what?",
            "v1#2",
            "?",
            "a?b=c#d/e",
            "a\\b",
            " a",
            "a ",
            "\u{a0}",
            "a@b:c/d@e",
        ] {
            for scheme in ["s3", "S3", "s3a", "gs", "az", "abfs"] {
                let url = ObjectUrl::parse(&format!("{scheme}://lab/{key}")).unwrap();
                assert_eq!((url.key(), url.is_prefix()), (key, false), "{url}");
            }
            let url = ObjectUrl::parse(&format!("s3://lab/{key}/")).unwrap();
            assert_eq!((url.key(), url.is_prefix()), (key, true), "{url}");
            // The same object by the URL of its web server, if that names one.
            let web = format!("https://host/{}", encoded(key));
            assert_eq!(ObjectUrl::parse(&web).unwrap().key(), key, "{web}");
        }
    }

    #[test]
    fn a_url_of_a_web_server_is_decoded_once() {
        for wrong in [
            "https://host/a/../b",
            "https://host/a/%2E%2e/b",
            "https://host/a%2F",
            "https://host/a%2Fb",
            "https://host/a//b",
            "https://host/a ",
            "https://host/a%0Ab",
            "https://host/a%ff",
            "https://host/a\\b",
            "https://host/a?b",
            "https://host/a#b",
        ] {
            let parsed = ObjectUrl::parse(wrong);
            assert!(matches!(parsed, Err(ObjectError::Url { .. })), "{wrong:?}: {parsed:?}");
        }
        for (path, key) in
            [("a%20b", "a b"), ("a%2520b", "a%20b"), ("100%", "100%"), ("a+b", "a+b"), ("%3F", "?")]
        {
            assert_eq!(ObjectUrl::parse(&format!("https://host/{path}")).unwrap().key(), key);
        }
        // The store behind this host has keys, not paths.
        let url = ObjectUrl::parse("https://s3.eu-west-1.amazonaws.com/lab/a%2Fb").unwrap();
        assert_eq!(url.key(), "a/b");
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
    fn urls_of_other_kinds_are_refused() {
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
