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
    /// If it is none of a store, if its key cannot be one, or if it has a query.
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
        let wrong = |why: String| ObjectError::Url { url: text.to_owned(), why };
        let url = Url::parse(text).map_err(|error| wrong(format!("no URL: {error}")))?;
        let parsed = ObjectStoreScheme::parse(&url);
        let (scheme, location) = parsed.map_err(|error| {
            let text = error.to_string();
            wrong(if text.starts_with(UNKNOWN) { KINDS.to_owned() } else { text })
        })?;
        if matches!(scheme, ObjectStoreScheme::Local | ObjectStoreScheme::Memory) {
            return Err(wrong(KINDS.to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            let why = "a query cannot be sent with requests for ranges; give a URL without ?..";
            return Err(wrong(why.to_owned()));
        }
        if url.password().is_some() {
            let why = "no password in a URL, where other users see it; use the environment";
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
        ] {
            assert!(ObjectUrl::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!ObjectUrl::is_url("disk.img"));
        assert!(!ObjectUrl::is_url("./s3://x"));
        assert!(ObjectUrl::is_url("s3://x"));
    }
}
