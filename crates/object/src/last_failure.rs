//! Records the last failure of a request's attempts, for the next attempt and for the error at the
//! deadline: one line of text, and whether the same request may succeed later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use object_store::Extensions;
use object_store::client::{HttpError, HttpErrorKind};

use crate::error_document;
use crate::error_text::{one_line, with_sources_of};

/// Attached to a request and its retries, which record their failures here.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastFailure {
    /// Shared by the copies of a request.
    last: Arc<Mutex<Option<LastLine>>>,
    passing: Arc<Mutex<Option<PassingFailure>>>,
}

/// The line of the last failure.
#[derive(Clone, Debug)]
struct LastLine {
    text: String,
    /// True if the response was good and its body broke.
    is_of_body: bool,
}

/// A transient failure: the same request may succeed later.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct PassingFailure {
    /// Pause requested by the store.
    pub(crate) asked: Option<Duration>,
    /// True if the server sent an error unrelated to its load.
    pub(crate) is_server_error: bool,
    /// True if no connection was made: no address, connection refused, or certificate refused.
    pub(crate) is_unreached: bool,
}

impl LastFailure {
    /// Returns extensions that attach this to a request.
    pub(crate) fn in_extensions(&self, mut extensions: Extensions) -> Extensions {
        extensions.insert(self.clone());
        extensions
    }

    /// Returns the record for a hedged copy: separate failures, but a shared last line.
    pub(crate) fn of_copy(&self) -> Self {
        Self { last: Arc::clone(&self.last), passing: Arc::default() }
    }

    /// Begins an attempt.
    pub(crate) fn begin(&self) {
        *lock(&self.passing) = None;
    }

    /// Records an attempt without a response.
    pub(crate) fn had_no_response(&self, error: &HttpError) {
        self.set(&with_sources_of(error.to_string(), error));
        let may_pass = match error.kind() {
            HttpErrorKind::Connect
            | HttpErrorKind::Request
            | HttpErrorKind::Timeout
            | HttpErrorKind::Interrupted => true,
            HttpErrorKind::Decode | HttpErrorKind::Unknown | _ => false,
        };
        let is_unreached = error.kind() == HttpErrorKind::Connect;
        let why = PassingFailure { is_unreached, ..PassingFailure::default() };
        *lock(&self.passing) = may_pass.then_some(why);
    }

    /// Records an attempt refused with this status and this start of a text. Returns true if the
    /// same request may succeed later.
    pub(crate) fn was_refused(
        &self,
        (status, reason): (u16, &str),
        text: &str,
        asked: Option<Duration>,
    ) -> bool {
        let colon = if text.is_empty() { "" } else { ": " };
        self.set(&format!("{reason}{colon}{text}"));
        let is_throttled = is_throttling(status, text);
        // 501 and 505 mean that the server never supports the request.
        let is_server_error = status >= 500 && !matches!(status, 501 | 505);
        // 421: another connection may be served; 425: the request came too early.
        let may_pass = is_throttled || is_server_error || matches!(status, 408 | 421 | 425);
        let is_server_error = is_server_error && !is_throttled;
        let why = PassingFailure { asked, is_server_error, is_unreached: false };
        *lock(&self.passing) = may_pass.then_some(why);
        may_pass
    }

    /// Returns the failure of the last attempt, if it was transient.
    pub(crate) fn passing(&self) -> Option<PassingFailure> {
        *lock(&self.passing)
    }

    fn set(&self, text: &str) {
        *lock(&self.last) = Some(LastLine { text: one_line(text), is_of_body: false });
    }

    /// Records a good response whose body broke.
    pub(crate) fn body_broke(&self, text: &str) {
        *lock(&self.last) = Some(LastLine { text: one_line(text), is_of_body: true });
    }

    /// Returns the line of the last failure, if any.
    pub(crate) fn text(&self) -> Option<String> {
        lock(&self.last).as_ref().map(|last| last.text.clone())
    }

    /// Returns true if the last attempt that failed had no good response.
    pub(crate) fn had_no_good_head(&self) -> bool {
        lock(&self.last).as_ref().is_some_and(|last| !last.is_of_body)
    }
}

/// Returns true if a response requests fewer requests, by its status or by the code in its
/// document.
pub(crate) fn is_throttling(status: u16, text: &str) -> bool {
    matches!(status, 429 | 503)
        || (status >= 400
            && error_document::code(text).is_some_and(|code| THROTTLING.contains(&code)))
}

/// Codes that stores also send with other statuses.
const THROTTLING: [&str; 8] = [
    "SlowDown",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "ServerBusy",
    "BandwidthLimitExceeded",
    "RequestTimeout",
];

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds this lock.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_of_any_attempt_is_told_in_a_line() {
        let failure = LastFailure::default();
        let sent = failure.in_extensions(Extensions::new());
        let noted = sent.get::<LastFailure>().unwrap();
        assert_eq!(failure.text(), None);
        noted.was_refused((503, "503 Service Unavailable"), "<Code>\n SlowDown</Code>", None);
        let text = "503 Service Unavailable: <Code> SlowDown</Code>";
        assert_eq!(failure.text().as_deref(), Some(text));
        let no_route = std::io::Error::other("no route");
        noted.of_copy().had_no_response(&HttpError::new(HttpErrorKind::Connect, no_route));
        assert_eq!(failure.text().as_deref(), Some("HTTP error: no route"));
        assert!(failure.passing().is_some(), "that of the copy is its own");
    }

    #[test]
    fn only_transient_failures_are_retried() {
        let refused = |status, code: &str| {
            let text = format!("<Error><Code>{code}</Code></Error>");
            LastFailure::default().was_refused((status, ""), &text, None)
        };
        for status in [408, 429, 500, 502, 503, 504, 509, 599] {
            assert!(refused(status, "x"), "{status}");
        }
        for status in [400, 401, 403, 404, 405, 412, 416, 501, 505] {
            assert!(!refused(status, "x"), "{status}");
        }
        assert!(refused(400, "SlowDown") && refused(403, "RequestLimitExceeded"));
        for (kind, may_pass) in [
            (HttpErrorKind::Connect, true),
            (HttpErrorKind::Interrupted, true),
            (HttpErrorKind::Unknown, false),
        ] {
            let failure = LastFailure::default();
            failure.had_no_response(&HttpError::new(kind, std::io::Error::other("x")));
            assert_eq!(failure.passing().is_some(), may_pass);
            failure.begin();
            assert_eq!(failure.passing(), None);
        }
    }
}
