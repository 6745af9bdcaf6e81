//! Errors of reads, openings and listings, built from errors of `object_store`.
//!
//! Each is one line with the object, the range, the cause, and a remedy. It never contains a
//! credential, or a whole error page of a server.

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::error_document::{self, Refusal};
use crate::error_text::{one_line, with_sources};
use crate::retries::StoreUnavailable;

/// Error of reading an object or listing a prefix.
///
/// Each variant calls for another reaction of the reader.
#[derive(Debug)]
#[non_exhaustive]
pub enum ObjectError {
    /// The text is not the URL of an object.
    Url {
        /// The rejected text.
        url: String,
        /// Part of the URL that is wrong, and the remedy.
        why: String,
    },
    /// The object or its bucket does not exist.
    NotFound {
        /// The object.
        url: String,
    },
    /// The store requires other credentials.
    Denied {
        /// The object.
        url: String,
        /// The store's message.
        why: String,
    },
    /// No credentials are set, and the metadata service of the machine's role provided none.
    NoCredentials {
        /// The object.
        url: String,
        /// Address of the service.
        service: &'static str,
        /// Result of the request to it.
        why: String,
    },
    /// The object was replaced after it was opened.
    Changed {
        /// The object.
        url: String,
        /// The difference that revealed it.
        why: String,
    },
    /// The store did not answer within [`StoreOptions::deadline`](crate::StoreOptions::deadline).
    TimedOut {
        /// The object.
        url: String,
        /// The requested bytes; None for attributes or a listing.
        range: Option<Range<u64>>,
        /// The deadline.
        deadline: Duration,
        /// Failure of the last attempt that ended before the deadline, if any.
        last_failure: Option<String>,
    },
    /// The store refuses for a reason that other credentials do not fix, such as an object in an
    /// archive class.
    Refused {
        /// The object.
        url: String,
        /// The store's message.
        why: String,
        /// Cause and remedy.
        advice: &'static str,
        /// Kind of the equivalent `io::Error`.
        kind: io::ErrorKind,
    },
    /// The store refused every attempt, or could not be reached. A later request may succeed.
    Unavailable {
        /// The object.
        url: String,
        /// The requested bytes; None for attributes or a listing.
        range: Option<Range<u64>>,
        /// Failure of the last attempt.
        why: String,
    },
    /// Any other failure of the store, the network or this process.
    Failed {
        /// The object.
        url: String,
        /// The requested bytes; None for attributes or a listing.
        range: Option<Range<u64>>,
        /// The cause.
        why: String,
    },
}

impl ObjectError {
    /// Converts the error of a request for these bytes of an object.
    pub(crate) fn of(url: &str, range: Option<Range<u64>>, error: &object_store::Error) -> Self {
        use object_store::Error as Store;
        let text = with_sources(error);
        let (url, why) = (url.to_owned(), one_line(&text));
        if let Store::Generic { source, .. } = error
            && source.is::<StoreUnavailable>()
        {
            return Self::Unavailable { url, range, why };
        }
        if let Some(refusal) = error_document::code(&text).and_then(error_document::refusal) {
            let Refusal { advice, kind } = refusal;
            return Self::Refused { url, why, advice, kind };
        }
        if matches!(error, Store::NotFound { .. }) {
            return Self::NotFound { url };
        }
        let is_refused = matches!(error, Store::Precondition { .. } | Store::NotModified { .. });
        // Only range requests have conditions.
        if is_refused && range.is_some() {
            return Self::Changed { url, why: "the store refuses If-Match".to_owned() };
        }
        if let Some(service) = METADATA_SERVICES.into_iter().find(|host| why.contains(host)) {
            return Self::NoCredentials { url, service, why };
        }
        let is_denied =
            matches!(error, Store::PermissionDenied { .. } | Store::Unauthenticated { .. });
        // For listings and expired credentials, only the text reveals the refusal.
        if is_denied || DENIED.into_iter().chain(EXPIRED).any(|part| text.contains(part)) {
            return Self::Denied { url, why };
        }
        let is_whole = range.is_some() && ignores_ranges(error, &why);
        Self::Failed { url, range, why: if is_whole { WHOLE.to_owned() } else { why } }
    }

    /// Creates an error of this process, such as a failure to start a thread.
    pub(crate) fn of_process(url: &str, error: &io::Error) -> Self {
        Self::Failed { url: url.to_owned(), range: None, why: error.to_string() }
    }
}

/// Returns true if the server answered a range request with the whole object. Clients report this
/// with two errors, one of which has no variant.
fn ignores_ranges(error: &object_store::Error, why: &str) -> bool {
    matches!(error, object_store::Error::NotSupported { .. }) || why.contains(NOT_PARTIAL)
}

/// Returns the remedy for a refusal, by the code in the store's message.
fn advice(why: &str) -> &'static str {
    let code = error_document::code(why).unwrap_or_default();
    match code {
        _ if why.contains(SKEWED) => {
            "set this machine's clock; foreread doctor URL shows the difference"
        }
        "RequestExpired" | "AuthenticationExpired" => {
            "set this machine's clock; foreread doctor URL shows the difference"
        }
        _ if EXPIRED.iter().any(|code| why.contains(code)) => {
            "set new credentials in the environment (docs/guide/objects.md)"
        }
        "InvalidAccessKeyId" | "InvalidSecurity" | "InactiveAccessKey" => {
            "the access key is unknown or disabled: check the credentials in the environment \
             (docs/guide/objects.md), and the endpoint"
        }
        "SignatureDoesNotMatch" => {
            "the secret key does not match the access key, or a proxy changes requests: check the \
             credentials in the environment (docs/guide/objects.md)"
        }
        "AccessDenied" | "AuthorizationFailure" | "AuthorizationPermissionMismatch" => {
            "these credentials have no permission to read it: check its policy, and the \
             credentials in the environment (docs/guide/objects.md)"
        }
        _ => {
            "check the credentials in the environment (docs/guide/objects.md), and this machine's \
             clock"
        }
    }
}

/// Describes a request that has not succeeded within the deadline.
pub(crate) fn silence(deadline: Duration, last_failure: Option<&str>) -> String {
    let before = last_failure.map(|why| format!("; the last attempt failed: {why}"));
    format!("no answer within {} ms{}", deadline.as_millis(), before.unwrap_or_default())
}

impl ObjectError {
    fn url(&self) -> &str {
        match self {
            Self::Url { url, .. }
            | Self::NotFound { url }
            | Self::Denied { url, .. }
            | Self::NoCredentials { url, .. }
            | Self::Changed { url, .. }
            | Self::TimedOut { url, .. }
            | Self::Refused { url, .. }
            | Self::Unavailable { url, .. }
            | Self::Failed { url, .. } => url,
        }
    }

    /// Returns the message without the name of the object.
    fn cause(&self) -> String {
        let part = |range: &Option<Range<u64>>| match range {
            Some(Range { start, end }) => format!("bytes {start} to {end}: "),
            None => String::new(),
        };
        match self {
            Self::Url { why, .. } => why.clone(),
            Self::NotFound { .. } => "no such object".to_owned(),
            Self::Denied { why, .. } => format!("not allowed: {why}; {}", advice(why)),
            Self::NoCredentials { service, why, .. } => format!(
                "not allowed: no credentials are set in the environment, and the metadata service \
                 at {service} provided none for the machine's role; set credentials \
                 (docs/guide/objects.md), or, if this machine has a role, check the service: {why}"
            ),
            Self::Changed { why, .. } => {
                format!("it has changed since it was opened ({why}); open it again")
            }
            Self::TimedOut { range, deadline, last_failure, .. } => format!(
                "{}{}; check the endpoint, or give a longer deadline",
                part(range),
                silence(*deadline, last_failure.as_deref())
            ),
            Self::Refused { why, advice, .. } => format!("refused: {why}; {advice}"),
            Self::Unavailable { range, why, .. } | Self::Failed { range, why, .. } => {
                format!("{}{why}", part(range))
            }
        }
    }

    /// Returns true if any other range would fail with the same error.
    pub(crate) fn is_of_all(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::Denied { .. }
                | Self::NoCredentials { .. }
                | Self::Changed { .. }
                | Self::Refused { .. }
                | Self::Unavailable { .. }
        )
    }

    /// Returns true if the server answered a request for this range with its beginning alone, as
    /// servers do that limit the length of a range.
    pub(crate) fn is_short_range(&self, range: &Range<u64>) -> bool {
        let Self::Failed { why, .. } = self else { return false };
        let sent = why.rsplit_once(", got ").and_then(|(_, sent)| sent.split_once(".."));
        let Some((start, end)) = sent else { return false };
        start.parse() == Ok(range.start) && end.parse().is_ok_and(|end: u64| end < range.end)
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Url { .. } => io::ErrorKind::InvalidInput,
            Self::NotFound { .. } => io::ErrorKind::NotFound,
            Self::Denied { .. } | Self::NoCredentials { .. } => io::ErrorKind::PermissionDenied,
            Self::Changed { .. } => io::ErrorKind::InvalidData,
            Self::TimedOut { .. } => io::ErrorKind::TimedOut,
            Self::Refused { kind, .. } => *kind,
            Self::Unavailable { .. } | Self::Failed { .. } => io::ErrorKind::Other,
        }
    }

    /// Converts to the error of a read of an engine's file, which adds the object's name itself.
    pub(crate) fn of_read(&self) -> io::Error {
        io::Error::new(self.kind(), self.cause())
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.url(), self.cause())
    }
}

impl Error for ObjectError {}

impl From<ObjectError> for io::Error {
    fn from(error: ObjectError) -> Self {
        Self::new(error.kind(), error)
    }
}

/// Parts of `object_store`'s text for a refused listing.
const DENIED: [&str; 2] = ["status code: 401", "status code: 403"];

/// Codes by which S3 refuses expired credentials, with status 400.
const EXPIRED: [&str; 3] =
    ["<Code>ExpiredToken<", "<Code>TokenRefreshRequired<", "<Code>InvalidToken<"];

/// Code for a request with a signature too old, or dated in the future.
const SKEWED: &str = "<Code>RequestTimeTooSkewed<";

/// Metadata services, the last place where clients look for credentials on cloud machines. On other
/// machines there may be no such server, and the error can be of any kind.
const METADATA_SERVICES: [&str; 2] = ["169.254.169.254", "metadata.google.internal"];

/// Message for a server that answers a range with the whole object.
const WHOLE: &str = "the server ignores Range and sends the whole object, so foreread cannot read \
                     parts of it";

/// Part of `object_store`'s text for a response of 200 to a range request.
const NOT_PARTIAL: &str = "non-partial response";

#[cfg(test)]
mod tests;
