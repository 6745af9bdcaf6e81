//! The HTTP client of all stores: reqwest over rustls and ring, with counters.
//!
//! In:    the options of a store's client.
//! Out:   a client that counts each request, and tells the store's traffic of each answer.
//! Never: a request of a store that passes the counters by; a range asked for without a permit.

use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use tokio::time::Instant;

use crate::connections::MOVES_MAX;
use crate::counters::{Attempts, StoreCounters};
use crate::http_client::{self, Redirects};
use crate::last_failure::LastFailure;
use crate::redirects::FollowingService;
use crate::response_watch::ResponseWatch;
use crate::retry_after;
use crate::traffic::{ConnectionUse, Gated, StoreTraffic};

/// Makes clients that count.
#[derive(Debug)]
pub(crate) struct CountingConnector {
    pub(crate) counters: Arc<StoreCounters>,
    pub(crate) traffic: Arc<StoreTraffic>,
    pub(crate) redirects: Redirects,
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
        let client = HttpClient::new(http_client::client(options, self.redirects)?);
        let client = match self.redirects {
            Redirects::Followed => HttpClient::new(FollowingService(client)),
            Redirects::SameHost => client,
        };
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
        // Those for credentials go elsewhere, and have their own rules.
        let is_of_store = request.extensions().get::<LastFailure>().is_some();
        if is_of_store && gated.is_none() {
            self.traffic.pause_over().await;
        }
        self.counters.sent(request.extensions().get::<Attempts>());
        let watch = request.extensions().get::<ResponseWatch>().cloned();
        let sent = Instant::now();
        let (mut response, connection) = if is_of_store {
            self.execute(request).await
        } else {
            (self.client.execute(request).await, None)
        };
        if let (Some(watch), Ok(response)) = (watch, &response) {
            watch.note(response, sent.elapsed());
        }
        let status = response.as_ref().ok().map(|it| it.status().as_u16());
        self.counters.answered(status);
        if is_of_store {
            let asked = response.as_ref().ok().and_then(|response| {
                retry_after::asked(|name| response.headers().get(name)?.to_str().ok())
            });
            self.traffic.answered(sent, status, asked);
        }
        let is_good = response.as_ref().is_ok_and(|response| response.status().is_success());
        match (&mut response, gated, connection) {
            (Ok(response), Some(gated), Some(connection)) if is_good => {
                response.extensions_mut().insert(Arc::new(connection));
                // What was refused is not in flight while it pauses.
                if let Some(permit) = permit {
                    gated.grant();
                    response.extensions_mut().insert(Arc::new(permit));
                }
            }
            // Such bodies are small, and come with the head.
            (Ok(_), _, Some(connection)) => connection.completed(),
            _ => {}
        }
        response
    }
}

type Executed = (Result<HttpResponse, HttpError>, Option<ConnectionUse>);

impl CountingService {
    /// Sends a request; and again, if the server does not serve its connection while another one is
    /// idle.
    async fn execute(&self, request: HttpRequest) -> Executed {
        let mut moves = 0;
        loop {
            let connection = self.traffic.use_connection();
            let answered = {
                let executed = pin!(self.client.execute(request.clone()));
                match select(executed, pin!(connection.is_not_served())).await {
                    Either::Left((response, _)) => Some(response),
                    Either::Right(((), executed)) if moves == MOVES_MAX => Some(executed.await),
                    Either::Right(_) => None,
                }
            };
            if let Some(response) = answered {
                if let Ok(response) = &response {
                    connection.answered(is_shared(response));
                }
                return (response, Some(connection));
            }
            connection.give_up();
            moves += 1;
            self.counters.sent(request.extensions().get::<Attempts>());
        }
    }
}

/// Whether one connection carries several requests at a time.
fn is_shared(response: &HttpResponse) -> bool {
    !matches!(
        response.version(),
        reqwest::Version::HTTP_09 | reqwest::Version::HTTP_10 | reqwest::Version::HTTP_11
    )
}
