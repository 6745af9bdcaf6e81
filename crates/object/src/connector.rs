//! The HTTP client of all stores: reqwest over rustls and ring, with counters.
//!
//! In:    the options of a store's client.
//! Out:   a client that counts each request.
//! Never: a request of a store that passes the counters by.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

use crate::counters::StoreCounters;

/// Makes clients that count.
#[derive(Debug)]
pub(crate) struct CountingConnector(pub(crate) Arc<StoreCounters>);

/// A client that counts.
#[derive(Debug)]
struct CountingService {
    client: HttpClient,
    counters: Arc<StoreCounters>,
}

impl HttpConnector for CountingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // For the whole process; one that another part of the program has installed is kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(CountingService { client, counters: Arc::clone(&self.0) }))
    }
}

#[async_trait]
impl HttpService for CountingService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.counters.sent();
        let response = self.client.execute(request).await;
        self.counters.answered(response.as_ref().ok().map(|it| it.status().as_u16()));
        response
    }
}
