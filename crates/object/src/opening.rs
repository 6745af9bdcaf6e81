//! The future of an opening object. Dropping it cancels the request.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

use crate::error::ObjectError;
use crate::object::Object;

/// The future of [`Stores::open_async`](crate::Stores::open_async). Dropping it cancels the request.
pub struct OpeningObject {
    url: String,
    task: JoinHandle<Result<Object, ObjectError>>,
}

impl OpeningObject {
    pub(crate) fn new(url: String, task: JoinHandle<Result<Object, ObjectError>>) -> Self {
        Self { url, task }
    }
}

impl Future for OpeningObject {
    type Output = Result<Object, ObjectError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = Pin::new(&mut self.task).poll(cx);
        joined.map(|joined| match joined {
            Ok(opened) => opened,
            Err(_) => {
                let error = io::Error::other("a request to the store panicked");
                Err(ObjectError::of_process(&self.url, &error))
            }
        })
    }
}

impl Drop for OpeningObject {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for OpeningObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpeningObject").field("url", &self.url).finish_non_exhaustive()
    }
}
