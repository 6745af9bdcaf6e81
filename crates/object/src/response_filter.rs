//! Responses as `object_store` understands them.
//!
//! In:    requests and responses of any store.
//! Out:   responses whose meaning is the same, and which it neither refuses nor misreads.
//! Never: a body of bytes that is touched, or a range that is assumed.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};

use crate::listing_filter::{UnreadableKeys, without_unreadable};
use crate::partial_content::is_partial;

/// Makes clients whose responses are filtered.
#[derive(Debug)]
pub(crate) struct FilteringConnector<C>(pub(crate) C);

/// A client whose responses are filtered.
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
        let query = request.uri().query().unwrap_or_default();
        let is_listing = query.split('&').any(|part| part == "list-type=2");
        let wants_range = request.headers().contains_key("range");
        let response = self.0.execute(request).await?;
        let is_ok = response.status().as_u16() == 200;
        if is_listing && is_ok {
            let (mut parts, body) = response.into_parts();
            let page = body.bytes().await?;
            let (readable, unreadable) = without_unreadable(&String::from_utf8_lossy(&page));
            parts.extensions.insert(UnreadableKeys(unreadable));
            return Ok(HttpResponse::from_parts(parts, readable.into_bytes().into()));
        }
        let (mut parts, body) = response.into_parts();
        let header = |name: &str| parts.headers.get(name)?.to_str().ok();
        let is_part = is_partial(header("content-range"), header("content-length"));
        if wants_range
            && is_ok
            && is_part
            && let Ok(status) = 206_u16.try_into()
        {
            parts.status = status;
        }
        Ok(HttpResponse::from_parts(parts, body))
    }
}
