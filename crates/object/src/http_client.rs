//! reqwest with the options of `object_store`, and a policy for redirects.
//!
//! `object_store` has no option for redirects. reqwest follows them without `Authorization` but
//! with all other headers, and a session token is one of those. Requests with secrets therefore
//! never follow a redirect to another host.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use object_store::{ClientConfigKey, ClientOptions};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};
use reqwest::tls::Certificate;
use reqwest::{ClientBuilder, NoProxy, Proxy};

use crate::proxies;

/// Policy for redirects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Redirects {
    /// This client follows none: requests to web servers carry no secrets, and
    /// [`redirects`](crate::redirects) follows them.
    Followed,
    /// Follows redirects to the same scheme, host and port.
    SameHost,
}

/// Creates a client. Root certificates, if given, replace all others.
pub(crate) fn client(
    options: &ClientOptions,
    redirects: Redirects,
    roots: Option<Vec<Certificate>>,
) -> object_store::Result<reqwest::Client> {
    let client = with_options(ClientBuilder::new(), &Settings(options))?;
    let client = match roots {
        Some(roots) => client.tls_certs_only(roots),
        None => client,
    };
    let client = client.redirect(match redirects {
        Redirects::Followed => Policy::none(),
        Redirects::SameHost => Policy::custom(|attempt| {
            if attempt.previous().len() > REDIRECTS_MAX {
                attempt.error("too many redirects")
            } else if let Some(other) = other_host(&attempt) {
                attempt.error(format!(
                    "the server redirects to {other}, but credentials are not sent to another \
                     host; set that endpoint if you trust it"
                ))
            } else {
                attempt.follow()
            }
        }),
    });
    client.build().map_err(failed)
}

/// Returns the host of a redirect, if it differs from the requested one.
fn other_host(attempt: &Attempt<'_>) -> Option<String> {
    let asked = attempt.previous().first()?.origin();
    let next = attempt.url().origin();
    (asked != next).then(|| next.ascii_serialization())
}

/// Applies the options as `object_store` does, in the same order.
fn with_options(
    client: ClientBuilder,
    options: &Settings<'_>,
) -> object_store::Result<ClientBuilder> {
    use ClientConfigKey as Key;

    let user_agent = options.text(Key::UserAgent);
    let mut client = client.user_agent(user_agent.unwrap_or_else(|| USER_AGENT.to_owned()));
    if let Some(proxy) = options.text(Key::ProxyUrl) {
        let mut proxy = Proxy::all(proxy).map_err(failed)?;
        if let Some(pem) = options.text(Key::ProxyCaCertificate) {
            let certificate = Certificate::from_pem(pem.as_bytes()).map_err(failed)?;
            client = client.tls_certs_merge([certificate]);
        }
        if let Some(excludes) = options.text(Key::ProxyExcludes) {
            proxy = proxy.no_proxy(NoProxy::from_string(&excludes));
        }
        client = client.proxy(proxy);
    } else {
        client = proxies::with_proxies(client);
    }
    if options.is_on(Key::NoSystemCertificates)? {
        client = client.tls_certs_only([]);
    }
    if let Some(time) = options.time(Key::Timeout)? {
        client = client.timeout(time);
    }
    if let Some(time) = options.time(Key::ConnectTimeout)? {
        client = client.connect_timeout(time);
    }
    if let Some(time) = options.time(Key::ReadTimeout)? {
        client = client.read_timeout(time);
    }
    // Idle connections are closed: a server may have few for all of its clients.
    let idle = options.time(Key::PoolIdleTimeout)?.unwrap_or(IDLE_MAX);
    client = client.pool_idle_timeout(idle);
    if let Some(most) = options.number::<usize>(Key::PoolMaxIdlePerHost)? {
        client = client.pool_max_idle_per_host(most);
    }
    client = with_http2(client, options)?;
    if options.is_on(Key::AllowInvalidCertificates)? {
        client = client.danger_accept_invalid_certs(true);
    }
    if options.is_on(Key::RandomizeAddresses)? {
        client = client.dns_resolver(Arc::new(SpreadingResolver::default()));
    }
    // A compressed body has another length than the object.
    let client = client.no_gzip().no_brotli().no_zstd().no_deflate();
    Ok(client.https_only(!options.is_on(Key::AllowHttp)?))
}

/// Sets up HTTP/2, which is off by default: one connection carries all requests then.
fn with_http2(
    mut client: ClientBuilder,
    options: &Settings<'_>,
) -> object_store::Result<ClientBuilder> {
    use ClientConfigKey as Key;

    if let Some(time) = options.time(Key::Http2KeepAliveInterval)? {
        client = client.http2_keep_alive_interval(time);
    }
    if let Some(time) = options.time(Key::Http2KeepAliveTimeout)? {
        client = client.http2_keep_alive_timeout(time);
    }
    if options.is_on(Key::Http2KeepAliveWhileIdle)? {
        client = client.http2_keep_alive_while_idle(true);
    }
    if let Some(size) = options.number::<u32>(Key::Http2MaxFrameSize)? {
        client = client.http2_max_frame_size(size);
    }
    if options.is_on(Key::Http1Only)? {
        client = client.http1_only();
    }
    if options.is_on(Key::Http2Only)? {
        client = client.http2_prior_knowledge();
    }
    Ok(client)
}

/// The options as texts, the only form in which they can be read.
struct Settings<'o>(&'o ClientOptions);

impl Settings<'_> {
    fn text(&self, key: ClientConfigKey) -> Option<String> {
        self.0.get_config_value(&key)
    }

    fn is_on(&self, key: ClientConfigKey) -> object_store::Result<bool> {
        let Some(text) = self.text(key) else { return Ok(false) };
        match &*text.to_ascii_lowercase() {
            "1" | "true" | "on" | "yes" | "y" => Ok(true),
            "0" | "false" | "off" | "no" | "n" => Ok(false),
            _ => Err(wrong(key, &text, "true or false")),
        }
    }

    fn time(&self, key: ClientConfigKey) -> object_store::Result<Option<Duration>> {
        let read = |text: String| {
            humantime::parse_duration(&text).map_err(|_| wrong(key, &text, "a time such as 30s"))
        };
        self.text(key).map(read).transpose()
    }

    fn number<N: FromStr>(&self, key: ClientConfigKey) -> object_store::Result<Option<N>> {
        let read = |text: String| text.parse().map_err(|_| wrong(key, &text, "a number"));
        self.text(key).map(read).transpose()
    }
}

fn wrong(key: ClientConfigKey, text: &str, wants: &str) -> object_store::Error {
    let why = format!("the client option {} is {text:?}, but must be {wants}", key.as_ref());
    object_store::Error::Generic { store: "HTTP", source: why.into() }
}

fn failed(error: reqwest::Error) -> object_store::Error {
    object_store::Error::Generic { store: "HTTP", source: Box::new(error) }
}

/// Resolver that rotates the addresses of a host, so that connections spread over its servers.
#[derive(Debug, Default)]
struct SpreadingResolver(Arc<AtomicUsize>);

impl Resolve for SpreadingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let turn = Arc::clone(&self.0);
        Box::pin(async move {
            let found = tokio::task::spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs()?;
                std::io::Result::Ok(found.collect::<Vec<SocketAddr>>())
            });
            let mut addresses = found.await??;
            let first = turn.fetch_add(1, Ordering::Relaxed) % addresses.len().max(1);
            addresses.rotate_left(first);
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Idle time after which most servers close a connection.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The limit of browsers.
const REDIRECTS_MAX: usize = 10;

const USER_AGENT: &str = concat!("foreread/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn with(key: ClientConfigKey, value: &str) -> object_store::Result<reqwest::Client> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        client(&ClientOptions::new().with_config(key, value), Redirects::SameHost, None)
    }

    /// A server that answers each request with this head, and counts what it was sent.
    fn serve(head: String) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        // It ends with the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                counted.fetch_add(1, Ordering::SeqCst);
                stream.write_all(head.as_bytes()).unwrap();
            }
        });
        (port, requests)
    }

    /// A session token is a header that reqwest takes along to any host.
    #[tokio::test]
    async fn a_request_with_secrets_is_not_redirected_to_another_host() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        let (other, sent) = serve(format!("HTTP/1.1 200 OK\r\n{end}"));
        let to = format!("Location: http://127.0.0.1:{other}/x\r\n");
        let (asked, _) = serve(format!("HTTP/1.1 307 Moved\r\n{to}{end}"));
        let options = ClientOptions::new().with_allow_http(true);
        let get = async |redirects| {
            let client = client(&options, redirects, None).unwrap();
            let request = client.get(format!("http://127.0.0.1:{asked}/x"));
            request.header("x-amz-security-token", "hush").send().await
        };
        let error = get(Redirects::SameHost).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("not sent to another host"), "{source}");
        assert!(source.contains(&format!("http://127.0.0.1:{other}")), "{source}");
        assert_eq!(sent.load(Ordering::SeqCst), 0);
        assert_eq!(get(Redirects::Followed).await.unwrap().status(), 307);
        assert_eq!(sent.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_redirect_within_the_host_is_followed_but_not_without_end() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        let (port, sent) = serve(format!("HTTP/1.1 302 Found\r\nLocation: /again\r\n{end}"));
        let options = ClientOptions::new().with_allow_http(true);
        let client = client(&options, Redirects::SameHost, None).unwrap();
        let sending = client.get(format!("http://127.0.0.1:{port}/x")).send();
        let error = sending.await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("too many redirects"), "{source}");
        assert_eq!(sent.load(Ordering::SeqCst), REDIRECTS_MAX + 1);
    }

    #[test]
    fn an_option_that_makes_no_sense_is_named() {
        for (key, value) in [
            (ClientConfigKey::Timeout, "soon"),
            (ClientConfigKey::PoolMaxIdlePerHost, "-1"),
            (ClientConfigKey::AllowHttp, "perhaps"),
        ] {
            let error = with(key, value).unwrap_err().to_string();
            assert!(error.contains(key.as_ref()) && error.contains(value), "{error}");
        }
        for (key, value) in [
            (ClientConfigKey::Timeout, "1m 30s"),
            (ClientConfigKey::PoolMaxIdlePerHost, "8"),
            (ClientConfigKey::AllowHttp, "yes"),
            (ClientConfigKey::ProxyUrl, "http://127.0.0.1:1"),
        ] {
            assert!(with(key, value).is_ok(), "{value}");
        }
    }

    #[tokio::test]
    async fn addresses_are_found_and_take_turns() {
        let resolver = SpreadingResolver::default();
        for _ in 0..3 {
            let found = resolver.resolve("localhost".parse().unwrap()).await.unwrap();
            assert!(found.into_iter().all(|address| address.ip().is_loopback()));
        }
        assert_eq!(resolver.0.load(Ordering::Relaxed), 3);
    }
}
