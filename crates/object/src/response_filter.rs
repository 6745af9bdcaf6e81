//! Adapts responses of all stores to `object_store`, so that it neither refuses nor misreads them,
//! and records failures for the error of the request.
//!
//! Bodies of objects pass unchanged. Listings and error documents are limited in size. Errors are
//! made final for `object_store` if [`retries`](crate::retries) resends the request.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::time::timeout;

use crate::broken_body::BrokenBody;
use crate::last_failure::LastFailure;
use crate::listing_filter::{UnreadableKeys, without_unreadable};
use crate::listing_page::{self, ListingProtocol};
use crate::listing_xml::without_sections;
use crate::partial_content::is_partial;
use crate::response_head::{self, KnownLength};
use crate::{retry_after, webdav_listing};

/// Creates clients that filter responses.
#[derive(Debug)]
pub(crate) struct FilteringConnector<C>(pub(crate) C);

/// A client that filters responses.
#[derive(Debug)]
struct FilteringService(HttpClient);

impl<C: HttpConnector> HttpConnector for FilteringConnector<C> {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(FilteringService(self.0.connect(options)?)))
    }
}

#[async_trait]
impl HttpService for FilteringService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let listing = ListingRequest::of(request.uri().query().unwrap_or_default());
        let wants_range = request.headers().contains_key("range");
        let is_get = request.method().as_str() == "GET";
        let is_propfind = request.method().as_str() == "PROPFIND";
        let directory = is_propfind.then(|| request.uri().to_string());
        let known = request.extensions().get::<KnownLength>().copied();
        let noted = request.extensions().get::<LastFailure>().cloned();
        let broken = request.extensions().get::<BrokenBody>().cloned();
        let answered = self.0.execute(request).await;
        let failed = |error| match &noted {
            Some(failure) => {
                failure.had_no_response(&error);
                once(SentOnce(error))
            }
            None => error,
        };
        let response = answered.map_err(failed)?;
        let is_ok = response.status().as_u16() == 200;
        if let Some(listing) = listing
            && response.status().is_success()
        {
            let (mut parts, body) = response.into_parts();
            let page = listed(body).await.map_err(failed)?;
            let is_lossy = std::str::from_utf8(&page).is_err();
            let page = String::from_utf8_lossy(&page);
            let page = without_sections(page.trim_start_matches('\u{feff}'));
            let checked = listing_page::check(&page, listing.protocol, listing.token.as_deref());
            checked.map_err(not_understood)?;
            let (readable, unreadable) = without_unreadable(&page, is_lossy);
            parts.extensions.insert(UnreadableKeys(unreadable));
            return Ok(HttpResponse::from_parts(parts, readable.into_bytes().into()));
        }
        if let Some(directory) = directory {
            return listed_directory(response, &directory).await;
        }
        let (mut parts, body) = response.into_parts();
        // S3 reports the region of a bucket this way.
        let is_bare_redirect = parts.status.is_redirection()
            && parts.status.as_u16() != 304
            && !parts.headers.contains_key("location");
        if parts.status.is_client_error() || parts.status.is_server_error() || is_bare_redirect {
            let text = start_of(body).await;
            if let Some(failure) = noted {
                let header = |name: &str| parts.headers.get(name)?.to_str().ok();
                let (status, asked) = (parts.status, retry_after::asked(header));
                let may_pass =
                    failure.was_refused((status.as_u16(), &status.to_string()), &text, asked);
                if may_pass || is_bare_redirect {
                    let why = format!("Server returned non-2xx status code: {status}: {text}");
                    return Err(once(std::io::Error::other(why)));
                }
            }
            return Ok(HttpResponse::from_parts(parts, text.into_bytes().into()));
        }
        let header = |name: &str| parts.headers.get(name)?.to_str().ok();
        let is_part = is_partial(header("content-range"), header("content-length"));
        if wants_range
            && is_ok
            && is_part
            && let Ok(status) = 206_u16.try_into()
        {
            parts.status = status;
        }
        let body = match broken {
            Some(broken) => broken.ending(body),
            None => body,
        };
        readable(HttpResponse::from_parts(parts, body), is_get, known)
    }
}

/// Checks the answer to PROPFIND.
async fn listed_directory(
    response: HttpResponse,
    directory: &str,
) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    if parts.status.as_u16() == 404 {
        // `object_store` takes a directory that is not there for an empty one.
        return Err(once(std::io::Error::other("the server has no such directory")));
    }
    if !parts.status.is_success() {
        let text = start_of(body).await;
        return Ok(HttpResponse::from_parts(parts, text.into_bytes().into()));
    }
    let page = listed(body).await?;
    let page = String::from_utf8_lossy(&page);
    let page = without_sections(page.trim_start_matches('\u{feff}'));
    let readable = webdav_listing::readable(&page, directory).map_err(not_understood)?;
    Ok(HttpResponse::from_parts(parts, readable.into_bytes().into()))
}

/// Rewrites the head of a response for `object_store`. Fails if the head shows that the body is not
/// the bytes of the object.
fn readable(
    mut response: HttpResponse,
    is_get: bool,
    known: Option<KnownLength>,
) -> Result<HttpResponse, HttpError> {
    if response_head::is_absurd(&response) {
        let why = "the server reports a range past the largest size of an object";
        return Err(once(std::io::Error::other(why)));
    }
    if !response.status().is_success() {
        return Ok(response);
    }
    response_head::with_standard_range(response.headers_mut());
    if is_get && let Some(why) = response_head::contradiction(&response) {
        return Err(once(std::io::Error::other(why)));
    }
    // A response to HEAD or to an upload has no encoded body.
    if is_get && let Some(encoding) = response_head::foreign_encoding(&response, known) {
        let why = format!(
            "the server sends the object encoded ({encoding}), although the stored bytes were \
             requested; turn off its compression"
        );
        return Err(once(std::io::Error::other(why)));
    }
    response_head::make_readable(&mut response, known);
    Ok(response)
}

/// Creates an error that stops `object_store` from retrying the request.
fn once(error: impl Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

/// Wraps an error as another kind, with the same text.
#[derive(Debug)]
struct SentOnce(HttpError);

impl fmt::Display for SentOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.source() {
            Some(source) => fmt::Display::fmt(source, f),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl Error for SentOnce {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()?.source()
    }
}

/// A request for a page of a listing.
#[derive(Debug)]
struct ListingRequest {
    protocol: ListingProtocol,
    /// Token of the requested page; None for the first one.
    token: Option<String>,
}

impl ListingRequest {
    fn of(query: &str) -> Option<Self> {
        let parts = || query.split('&');
        let protocol = if parts().any(|part| part == "list-type=2") {
            ListingProtocol::S3
        } else if parts().any(|part| part == "comp=list") {
            ListingProtocol::Azure
        } else {
            return None;
        };
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        let token = pairs.find(|(name, _)| name == protocol.token());
        Some(Self { protocol, token: token.map(|(_, token)| token.into_owned()) })
    }
}

fn not_understood(why: String) -> HttpError {
    HttpError::new(HttpErrorKind::Decode, std::io::Error::other(why))
}

/// Reads a page of a listing up to a size limit; `object_store` itself would buffer any amount.
async fn listed(body: HttpResponseBody) -> Result<Vec<u8>, HttpError> {
    let (mut page, mut chunks) = (Vec::new(), body.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        page.extend_from_slice(&chunk?);
        if page.len() > PAGE_MAX {
            let why = format!("a page of a listing exceeds {} MiB", PAGE_MAX >> 20);
            return Err(not_understood(why));
        }
    }
    Ok(page)
}

/// Reads the start of an error document, more than is shown.
async fn start_of(body: HttpResponseBody) -> String {
    let (mut start, mut chunks) = (Vec::new(), body.bytes_stream());
    let read = async {
        while start.len() < ERROR_MAX
            && let Some(Ok(chunk)) = chunks.next().await
        {
            start.extend_from_slice(&chunk[..chunk.len().min(ERROR_MAX)]);
        }
    };
    let _ = timeout(ERROR_TIME, read).await;
    start.truncate(ERROR_MAX);
    String::from_utf8_lossy(&start).into_owned()
}

/// Maximum size of a page. A thousand keys of 1 KiB, escaped, take at most 10 MB.
const PAGE_MAX: usize = 64 << 20;

/// Maximum size of an error document; stores send some KiB.
const ERROR_MAX: usize = 64 << 10;

/// Time limit for an error document, which normally arrives with the head. If a server stalls in
/// it, the request is retried all the same.
const ERROR_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use object_store::client::HttpRequestBody;

    use super::*;

    /// Answers all requests with this status and so many letters.
    #[derive(Debug)]
    struct Talker(u16, usize);

    #[async_trait]
    impl HttpService for Talker {
        async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
            let mut response = HttpResponse::new("\u{e4}".repeat(self.1).into_bytes().into());
            *response.status_mut() = self.0.try_into().unwrap();
            Ok(response)
        }
    }

    async fn answer(talker: Talker, path: &str) -> Result<HttpResponse, HttpError> {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = format!("http://host/{path}").parse().unwrap();
        FilteringService(HttpClient::new(talker)).call(request).await
    }

    /// Both were taken into memory whole, as fast as a server sends and until the deadline.
    #[tokio::test]
    async fn a_listing_and_an_error_without_end_take_little_memory() {
        let listing = "bucket?list-type=2&prefix=a";
        let error = answer(Talker(200, 1000), listing).await.unwrap_err();
        let source = Error::source(&error).unwrap().to_string();
        assert!(source.contains("no listing"), "{source}");
        let error = answer(Talker(200, PAGE_MAX / 2 + 1), listing).await.unwrap_err();
        let source = error.source().unwrap().to_string();
        assert!(source.contains("exceeds 64 MiB"), "{source}");
        for status in [404, 503] {
            let response = answer(Talker(status, ERROR_MAX), "object").await.unwrap();
            assert_eq!(response.status().as_u16(), status);
            let text = response.into_body().bytes().await.unwrap();
            assert!(std::str::from_utf8(&text).is_ok() && text.len() == ERROR_MAX);
        }
        let object = answer(Talker(200, PAGE_MAX / 2 + 1), "object").await.unwrap();
        assert_eq!(object.into_body().bytes().await.unwrap().len(), PAGE_MAX + 2);
    }
}
