//! The HTTP client of all stores: reqwest over rustls and ring. It counts every request, and starts
//! range requests only with a permit of the store's traffic.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::future::{Either, select};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::header::{ACCEPT_ENCODING, HeaderValue};
use reqwest::tls::Certificate;
use tokio::time::Instant;

use crate::connection_use::{ConnectionUse, Moves};
use crate::connections::Host;
use crate::counters::{Attempts, StoreCounters};
use crate::http_client::{self, Redirects};
use crate::last_failure::LastFailure;
use crate::proxies;
use crate::redirects::{FollowingService, FoundAt};
use crate::response_watch::ResponseWatch;
use crate::retry_after;
use crate::traffic::{Gated, StoreTraffic};

/// Creates clients that count requests.
#[derive(Debug)]
pub(crate) struct CountingConnector {
    pub(crate) counters: Arc<StoreCounters>,
    pub(crate) traffic: Arc<StoreTraffic>,
    pub(crate) redirects: Redirects,
    /// Certificates to trust; None for the system's.
    pub(crate) roots: Option<Vec<Certificate>>,
}

/// A client that counts requests.
#[derive(Debug)]
struct CountingService {
    /// Current client, which opens new connections, and its number.
    client: Mutex<(u32, HttpClient)>,
    options: ClientOptions,
    redirects: Redirects,
    /// Certificates to trust in place of the system's.
    roots: Option<Vec<Certificate>>,
    counters: Arc<StoreCounters>,
    traffic: Arc<StoreTraffic>,
}

impl HttpConnector for CountingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // Applies to the whole process; a provider installed by another part of the program is
        // kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = client(options, self.redirects, self.roots.clone())?;
        let (counters, traffic) = (Arc::clone(&self.counters), Arc::clone(&self.traffic));
        let (options, redirects, roots) = (options.clone(), self.redirects, self.roots.clone());
        let client = Mutex::new((0, client));
        let service = CountingService { client, options, redirects, roots, counters, traffic };
        Ok(HttpClient::new(service))
    }
}

fn client(
    options: &ClientOptions,
    redirects: Redirects,
    roots: Option<Vec<Certificate>>,
) -> object_store::Result<HttpClient> {
    let client = HttpClient::new(http_client::client(options, redirects, roots)?);
    Ok(match redirects {
        Redirects::Followed => HttpClient::new(FollowingService(client)),
        Redirects::SameHost => client,
    })
}

#[async_trait]
impl HttpService for CountingService {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Requests for credentials go to other servers, and have rules of their own.
        let is_of_store = request.extensions().get::<LastFailure>().is_some();
        if !is_of_store {
            self.counters.sent(None);
            let response = self.client(0).execute(request).await;
            self.counters.answered(status(&response));
            return response;
        }
        if let Some(why) = self.proxy_refusal(&request) {
            return Err(HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(why)));
        }
        // Without this header a server may compress the body.
        request
            .headers_mut()
            .entry(ACCEPT_ENCODING)
            .or_insert(HeaderValue::from_static("identity"));
        let mut moves = Moves::none();
        loop {
            match self.execute(&request, moves).await {
                Ok(response) => return response,
                Err(moved) => moves = moved,
            }
        }
    }
}

impl CountingService {
    /// Sends a request once, after some moves. Returns the moves with another one if it is
    /// abandoned, because the server does not serve its connection while another one is idle.
    async fn execute(
        &self,
        request: &HttpRequest,
        moves: Moves,
    ) -> Result<Result<HttpResponse, HttpError>, Moves> {
        let gated = request.extensions().get::<Gated>().cloned();
        let permit = match &gated {
            Some(gated) => Some(gated.permit(&self.traffic).await),
            None => None,
        };
        if gated.is_none() {
            self.traffic.pause_over().await;
        }
        self.counters.sent(request.extensions().get::<Attempts>());
        let watch = request.extensions().get::<ResponseWatch>().cloned();
        let (sent, connections) = (Instant::now(), &self.traffic.connections);
        let mut connection = connections.sent(host_of(request), moves);
        let client = self.client(connection.client());
        let mut response = {
            let executed = pin!(self.answered(client.execute(request.clone()), &connection));
            match select(executed, pin!(connection.is_abandoned(moves))).await {
                Either::Left((response, _)) => response,
                Either::Right((moved, _)) => {
                    connection.give_up();
                    return Err(moved);
                }
            }
        };
        if let Ok(response) = &response {
            connection.answered(host_of(request), is_shared(response));
            if let Some(watch) = watch {
                watch.note(response, sent.elapsed());
            }
        }
        self.counters.answered(status(&response));
        let asked = response.as_ref().ok().and_then(|response| {
            retry_after::asked(|name| response.headers().get(name)?.to_str().ok())
        });
        self.traffic.answered(sent, status(&response), asked);
        let is_good = response.as_ref().is_ok_and(|response| response.status().is_success());
        match (&mut response, permit) {
            // A refused request is not in flight while it pauses.
            (Ok(response), Some(permit)) if is_good => {
                response.extensions_mut().insert(Arc::new(connection));
                response.extensions_mut().insert(Arc::new(permit));
            }
            // These bodies are small, and arrive with the head.
            (Ok(_), _) => connection.completed(),
            (Err(_), _) => {}
        }
        Ok(response)
    }

    /// Waits for a response. Once the request is known to hang, sends the requests that wait for a
    /// permit because of it.
    async fn answered<T>(&self, response: impl Future<Output = T>, on: &ConnectionUse) -> T {
        match select(pin!(response), pin!(on.hangs())).await {
            Either::Left((response, _)) => response,
            Either::Right(((), response)) => {
                self.traffic.grant();
                response.await
            }
        }
    }

    /// Returns the error of the proxy that the environment names, if the request would use it.
    fn proxy_refusal(&self, request: &HttpRequest) -> Option<String> {
        let has_own = self.options.get_config_value(&ClientConfigKey::ProxyUrl).is_some();
        (!has_own).then(|| proxies::refusal(&request.uri().to_string())).flatten()
    }

    /// Returns the client of this number, or its replacement. The replaced client and its
    /// connections are dropped with the last of its requests.
    fn client(&self, number: u32) -> HttpClient {
        // Nothing panics while it holds this lock.
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if client.0 < number
            && let Ok(next) = self::client(&self.options, self.redirects, self.roots.clone())
        {
            *client = (number, next);
        }
        client.1.clone()
    }
}

/// Returns the host that a request reaches, behind redirects if it was found there.
fn host_of(request: &HttpRequest) -> Host {
    let found = request.extensions().get::<FoundAt>().and_then(FoundAt::get);
    Host::of(&found.unwrap_or_else(|| request.uri().to_string()))
}

fn status(response: &Result<HttpResponse, HttpError>) -> Option<u16> {
    response.as_ref().ok().map(|it| it.status().as_u16())
}

/// Returns true if one connection carries several requests at a time.
fn is_shared(response: &HttpResponse) -> bool {
    !matches!(
        response.version(),
        reqwest::Version::HTTP_09 | reqwest::Version::HTTP_10 | reqwest::Version::HTTP_11
    )
}
