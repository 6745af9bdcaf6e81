//! Fetches the attributes of an object when it is opened, by a GET of its first byte. A server that
//! answers it also serves range requests, and a refusal carries an error document.
//!
//! HEAD is only a hint for servers that do not answer the range. Some do not serve HEAD, or answer
//! it with another length, so it never decides that an object is empty, missing or forbidden.
//!
//! ```text
//!   GET bytes=0-0 --> 206: the length is in Content-Range
//!        |-- refused, or no answer --> the error
//!        '-- 200, 416, a wrong range --> HEAD --> a length
//!                                         '-- 0 or an error --> GET without a range
//! ```

use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{Attributes, Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};

use crate::broken_body::BrokenBody;
use crate::counters::Attempts;
use crate::error_text::with_sources;
use crate::last_failure::LastFailure;
use crate::options::StoreOptions;
use crate::redirects::FoundAt;
use crate::response_head::StatesDate;
use crate::retries::{Deadline, StoreUnavailable, until_opened};

/// The attributes of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectAttributes {
    pub(crate) meta: ObjectMeta,
    pub(crate) attributes: Attributes,
    /// None if the store's responses bypass this crate's client.
    pub(crate) states_date: Option<StatesDate>,
}

/// A request for the attributes of an object, with all of its retries.
pub(crate) struct AttributesRequest<'a> {
    pub(crate) store: &'a dyn ObjectStore,
    pub(crate) location: &'a Path,
    pub(crate) options: &'a StoreOptions,
    pub(crate) deadline: &'a Deadline,
    pub(crate) failure: &'a LastFailure,
    pub(crate) found_at: &'a FoundAt,
}

type Asked = object_store::Result<ObjectAttributes>;

impl AttributesRequest<'_> {
    pub(crate) async fn ask(&self) -> Asked {
        let error = match self.first_byte().await {
            Err(error) if is_about_the_range(&error) => error,
            answered => return answered,
        };
        match self.head().await {
            Ok(head) if head.meta.size > 0 => Ok(head),
            // An empty object has no first byte.
            Ok(_) | Err(_) => self.whole().await.map_err(|whole| {
                let has_no_length = whole.to_string().contains("Content-Length");
                if has_no_length { whole } else { error }
            }),
        }
    }

    async fn head(&self) -> Asked {
        let failure = self.failure.of_copy();
        let attempts = Attempts::extensions();
        let ask = async || {
            let extensions = attempts.clone();
            let options = GetOptions { head: true, extensions, ..GetOptions::default() };
            let answered = self.send(options, &failure).await;
            // A gateway that cannot serve HEAD may serve GET, so only the GET is retried.
            if failure.passing().is_some_and(|why| why.is_server_error) {
                failure.begin();
            }
            answered
        };
        until_opened(self.options, self.deadline, &failure, ask).await
    }

    async fn first_byte(&self) -> Asked {
        self.get(Some(GetRange::Bounded(0..1))).await
    }

    async fn whole(&self) -> Asked {
        self.get(None).await
    }

    async fn get(&self, range: Option<GetRange>) -> Asked {
        let failure = self.failure.of_copy();
        let attempts = Attempts::extensions();
        let ask = async || {
            let (range, extensions) = (range.clone(), attempts.clone());
            let options = GetOptions { range, extensions, ..GetOptions::default() };
            self.send(options, &failure).await
        };
        until_opened(self.options, self.deadline, &failure, ask).await
    }

    async fn send(&self, mut options: GetOptions, failure: &LastFailure) -> Asked {
        options.extensions.insert(failure.clone());
        options.extensions.insert(self.found_at.clone());
        options.extensions.insert(BrokenBody::default());
        let response = self.store.get_opts(self.location, options).await?;
        let states_date = response.extensions.get::<StatesDate>().copied();
        let (meta, attributes) = (response.meta.clone(), response.attributes.clone());
        let body_len = response.range.end - response.range.start;
        if body_len <= 1 {
            let _ = finish(response).await;
        }
        Ok(ObjectAttributes { meta, attributes, states_date })
    }
}

/// Reads a body of a byte or none to its end, which returns the connection to the pool. If the
/// server sends more, it closes the connection instead.
pub(crate) async fn finish(response: GetResult) -> object_store::Result<()> {
    let (mut chunks, mut read) = (response.into_stream(), 0);
    while read <= 1
        && let Some(chunk) = chunks.next().await
    {
        read += chunk?.len();
    }
    Ok(())
}

fn is_unavailable(error: &Error) -> bool {
    matches!(error, Error::Generic { source, .. } if source.is::<StoreUnavailable>())
}

/// Returns true if a GET may have failed because of its range: the server ignores ranges, answers
/// them in a non-standard way, or the object is empty.
fn is_about_the_range(error: &Error) -> bool {
    if matches!(error, Error::NotSupported { .. }) {
        return true;
    }
    let text = with_sources(error);
    let status = text.split_once("status code: ").map(|(_, rest)| rest);
    let is_416 = status.is_none_or(|status| status.starts_with("416"));
    let is_of_response = !is_unavailable(error) && !text.contains("HTTP error");
    is_416 && is_of_response && matches!(error, Error::Generic { .. })
}
