//! The HTTP client of all stores: reqwest over rustls and ring, with counters.
//!
//! In:    the options of a store's client.
//! Out:   a client that counts each request, and tells the store's traffic of each answer.
//! Never: a request of a store that passes the counters by; a range asked for without a permit.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use reqwest::tls::Certificate;
use tokio::time::Instant;

use crate::counters::{Attempts, StoreCounters};
use crate::http_client::{self, Redirects};
use crate::response_watch::ResponseWatch;
use crate::traffic::{Gated, StoreTraffic};

/// Makes clients that count.
#[derive(Debug)]
pub(crate) struct CountingConnector {
    pub(crate) counters: Arc<StoreCounters>,
    pub(crate) traffic: Arc<StoreTraffic>,
    pub(crate) redirects: Redirects,
    /// The certificates to trust; None: the system's.
    pub(crate) roots: Option<Vec<Certificate>>,
}

/// A client that counts.
#[derive(Debug)]
struct CountingService {
    client: HttpClient,
    counters: Arc<StoreCounters>,
    traffic: Arc<StoreTraffic>,
}

impl HttpConnector for CountingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // For the whole process; one that another part of the program has installed is kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            HttpClient::new(http_client::client(options, self.redirects, self.roots.clone())?);
        let (counters, traffic) = (Arc::clone(&self.counters), Arc::clone(&self.traffic));
        Ok(HttpClient::new(CountingService { client, counters, traffic }))
    }
}

#[async_trait]
impl HttpService for CountingService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let gated = request.extensions().get::<Gated>().cloned();
        let permit = match &gated {
            Some(gated) => gated.permit(&self.traffic).await,
            None => None,
        };
        self.counters.sent(request.extensions().get::<Attempts>());
        let watch = request.extensions().get::<ResponseWatch>().cloned();
        let sent = Instant::now();
        let mut response = self.client.execute(request).await;
        if let (Some(watch), Ok(response)) = (watch, &response) {
            watch.note(response, sent.elapsed());
        }
        let status = response.as_ref().ok().map(|it| it.status().as_u16());
        self.counters.answered(status);
        self.traffic.answered(sent, status);
        // What was refused is not in flight while it pauses.
        if let (Ok(response), Some(gated), Some(permit)) = (&mut response, gated, permit)
            && response.status().is_success()
        {
            gated.grant();
            response.extensions_mut().insert(Arc::new(permit));
        }
        response
    }
}
