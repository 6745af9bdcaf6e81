//! Why the attempts of a request have failed, for the error that its deadline makes.
//!
//! In:    failures of attempts: `object_store` sends a request again by itself, and tells of the
//!        last attempt only if it is the one that gives up.
//! Out:   the last of them, in a line.
//! Never: the failure of another request.

use std::sync::{Arc, Mutex, PoisonError};

use object_store::Extensions;
use object_store::client::HttpError;

use crate::error::{one_line, with_sources_of};

/// Sent with a request and its retries, which note here why they fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastFailure(Arc<Mutex<Option<String>>>);

impl LastFailure {
    /// To be sent with a request.
    pub(crate) fn in_extensions(&self, mut extensions: Extensions) -> Extensions {
        extensions.insert(self.clone());
        extensions
    }

    /// An attempt had no response.
    pub(crate) fn had_no_response(&self, error: &HttpError) {
        self.set(&with_sources_of(error.to_string(), error));
    }

    /// An attempt was answered with this status and this start of a text.
    pub(crate) fn was_refused(&self, status: &str, text: &str) {
        let colon = if text.is_empty() { "" } else { ": " };
        self.set(&format!("{status}{colon}{text}"));
    }

    fn set(&self, text: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(one_line(text));
    }

    /// Returns the last one, if there was one.
    pub(crate) fn text(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use object_store::client::HttpErrorKind;

    use super::*;

    #[test]
    fn the_last_failure_of_any_attempt_is_told_in_a_line() {
        let failure = LastFailure::default();
        let sent = failure.in_extensions(Extensions::new());
        let noted = sent.get::<LastFailure>().unwrap();
        assert_eq!(failure.text(), None);
        noted.was_refused("503 Service Unavailable", "<Code>\n SlowDown</Code>");
        let text = "503 Service Unavailable: <Code> SlowDown</Code>";
        assert_eq!(failure.text().as_deref(), Some(text));
        let no_route = std::io::Error::other("no route");
        noted.had_no_response(&HttpError::new(HttpErrorKind::Connect, no_route));
        assert_eq!(failure.text().as_deref(), Some("HTTP error: no route"));
    }
}
