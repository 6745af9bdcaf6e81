//! The heads of responses, for those that examine a server.
//!
//! In:    each response to a request that is watched, and how long it took.
//! Out:   status and headers that `object_store` does not tell.
//! Never: a body, or a header that may be secret.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::client::HttpResponse;

/// Collects the heads of all responses to the requests that it is sent with.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseWatch(Arc<Mutex<Vec<ResponseHead>>>);

/// What is looked at of a response.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    /// From the request, with a connection if one had to be made, to the head.
    pub(crate) took: Duration,
    pub(crate) date: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) content_range: Option<String>,
    pub(crate) e_tag: Option<String>,
    /// The server closes the connection after this response.
    pub(crate) closes: bool,
}

impl ResponseWatch {
    /// A response has come.
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

    /// The last response, if there was one.
    pub(crate) fn last(&self) -> Option<ResponseHead> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }
}
