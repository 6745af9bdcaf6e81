//! Ends a body whose connection breaks, and keeps the error for the request.
//!
//! `object_store` would resume the body by up to ten requests of its own, beyond the retries of the
//! request and while the store asks for a pause. [`transfer`](crate::transfer) requests the rest
//! instead: it counts the bytes, so a body that ends early is never taken for a whole one.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use object_store::client::{HttpError, HttpResponseBody};

/// Error that broke the body of a response; attached to requests that resume bodies themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct BrokenBody(Arc<Mutex<Option<HttpError>>>);

/// A body that ends where its connection breaks.
struct EndingBody {
    body: HttpResponseBody,
    broken: BrokenBody,
}

impl BrokenBody {
    /// Returns a body with the same bytes, which ends at the first error.
    pub(crate) fn ending(&self, body: HttpResponseBody) -> HttpResponseBody {
        HttpResponseBody::new(EndingBody { body, broken: self.clone() })
    }

    /// Takes the error, if the body is broken.
    pub(crate) fn take(&self) -> Option<HttpError> {
        // Nothing panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Body for EndingBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Err(error)) => {
                *self.broken.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                None
            }
            frame => frame,
        };
        Poll::Ready(frame)
    }
}
