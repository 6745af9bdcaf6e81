//! Records status, selected headers and timing of responses for the examination of a server,
//! because `object_store` does not expose them. Secret headers are left out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::client::HttpResponse;

/// Collects the heads of all responses to the requests that carry it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseWatch(Arc<Mutex<Vec<ResponseHead>>>);

/// Recorded part of a response's head.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    /// From the request, including the connection if it was opened for it, to the head.
    pub(crate) took: Duration,
    pub(crate) date: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) content_range: Option<String>,
    pub(crate) e_tag: Option<String>,
    /// True if the server closes the connection after this response.
    pub(crate) closes: bool,
}

impl ResponseWatch {
    /// Records a response.
    pub(crate) fn note(&self, response: &HttpResponse, took: Duration) {
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().ok()?.to_owned())
        };
        let connection = header("connection").unwrap_or_default();
        let head = ResponseHead {
            status: response.status().as_u16(),
            took,
            date: header("date"),
            region: header("x-amz-bucket-region"),
            server: header("server"),
            content_range: header("content-range"),
            e_tag: header("etag"),
            closes: connection.eq_ignore_ascii_case("close"),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    }

    /// Returns the last response, if any.
    pub(crate) fn last(&self) -> Option<ResponseHead> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }
}
