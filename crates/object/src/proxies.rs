//! Proxies from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case. A request
//! that would need an unsupported kind of proxy fails at once; its error omits the password.

use reqwest::{ClientBuilder, NoProxy, Proxy, Url};

/// Configures a client with the proxies. reqwest's own parser of `NO_PROXY` ignores ports.
pub(crate) fn with_proxies(client: ClientBuilder) -> ClientBuilder {
    let Some(excluded) = variable("no_proxy") else { return client };
    let entries = || excluded.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    if entries().any(|entry| entry == "*") {
        return client.no_proxy();
    }
    let with_ports: Vec<(String, u16)> = entries().filter_map(host_and_port).collect();
    if with_ports.is_empty() {
        return client;
    }
    let others: Vec<&str> = entries().filter(|entry| host_and_port(entry).is_none()).collect();
    let proxy = Proxy::custom(move |url| {
        let is_excluded = with_ports.iter().any(|entry| is_host(url, entry));
        if is_excluded { None } else { proxy_of(url.scheme()) }
    });
    client.proxy(proxy.no_proxy(NoProxy::from_string(&others.join(","))))
}

/// Returns an error if the proxy for a request is not an HTTP proxy.
pub(crate) fn refusal(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let is_off = variable("no_proxy").is_some_and(|excluded| may_be_excluded(&url, &excluded));
    let (name, text) = named_proxy(url.scheme()).filter(|_| !is_off)?;
    let (kind, _) = text.split_once("://")?;
    kind.to_ascii_lowercase().starts_with("socks").then(|| {
        format!(
            "{name} names a proxy of the kind {kind}, and foreread uses proxies of HTTP only: set \
             one of those, or unset the variable"
        )
    })
}

/// Returns true if a URL may need no proxy. Entries that are networks count as a match.
fn may_be_excluded(url: &Url, excluded: &str) -> bool {
    excluded.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let port = url.port_or_known_default().unwrap_or_default();
        let of_name = || (entry.trim_matches(['[', ']', '.']).to_ascii_lowercase(), port);
        let entry_of = host_and_port(entry).unwrap_or_else(of_name);
        entry == "*" || entry.contains('/') || is_host(url, &entry_of)
    })
}

fn proxy_of(scheme: &str) -> Option<Url> {
    let (_, text) = named_proxy(scheme)?;
    let text = if text.contains("://") { text } else { format!("http://{text}") };
    Url::parse(&text).ok()
}

/// Returns the variable that names the proxy for a scheme, and its value.
fn named_proxy(scheme: &str) -> Option<(String, String)> {
    let of_scheme = format!("{scheme}_proxy");
    [of_scheme, "all_proxy".to_owned()]
        .into_iter()
        .find_map(|name| variable(&name).map(|text| (name.to_ascii_uppercase(), text)))
}

fn variable(name: &str) -> Option<String> {
    let value = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    value(&name.to_ascii_uppercase()).or_else(|| value(name))
}

/// Splits `host:443`, `10.0.0.1:9000` or `[::1]:80` into host and port.
fn host_and_port(entry: &str) -> Option<(String, u16)> {
    let (host, port) = entry.rsplit_once(':')?;
    let is_name = !host.is_empty() && (!host.contains(':') || host.starts_with('['));
    let port = port.parse().ok().filter(|_| is_name)?;
    Some((host.trim_matches(['[', ']', '.']).to_ascii_lowercase(), port))
}

/// Returns true if a URL is at this host or a subdomain of it, and at this port.
fn is_host(url: &Url, (name, port): &(String, u16)) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    let is_below = host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'));
    url.port_or_known_default() == Some(*port) && (host == *name || is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_of_another_kind_is_refused_only_where_it_is_used() {
        let url = Url::parse("http://10.1.2.3:9000/b").unwrap();
        for excluded in ["*", "a, 10.1.2.3", "10.1.2.3:9000", "10.0.0.0/8"] {
            assert!(may_be_excluded(&url, excluded), "{excluded}");
        }
        for excluded in ["", "a", "10.1.2.3:80", "10.1.2.30"] {
            assert!(!may_be_excluded(&url, excluded), "{excluded}");
        }
    }

    /// An address with a port in `NO_PROXY` excluded nothing.
    #[test]
    fn an_entry_with_a_port_excludes_that_port_of_the_host() {
        for (entry, url, expected) in [
            ("127.0.0.1:9000", "http://127.0.0.1:9000/b", true),
            ("127.0.0.1:9000", "http://127.0.0.1:9001/b", false),
            ("example.com:443", "https://s3.example.com/b", true),
            (".example.com:443", "https://example.com/b", true),
            ("example.com:443", "https://notexample.com/b", false),
            ("[::1]:80", "http://[::1]/b", true),
        ] {
            let entry = host_and_port(entry).unwrap();
            assert_eq!(is_host(&Url::parse(url).unwrap(), &entry), expected, "{entry:?} {url}");
        }
        for plain in ["example.com", "::1", "10.0.0.0/8", "*", ":80", "host:port"] {
            assert_eq!(host_and_port(plain), None, "{plain}");
        }
    }
}
