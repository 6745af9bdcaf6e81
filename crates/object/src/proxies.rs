//! Proxies from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case. A request
//! that would need an unsupported kind of proxy fails at once; its error omits the password.

use std::net::IpAddr;

use reqwest::{ClientBuilder, Proxy, Url};

/// Configures a client with the proxies. reqwest's own parser of `NO_PROXY` ignores ports, and its
/// custom proxies ignore all of `NO_PROXY`.
pub(crate) fn with_proxies(client: ClientBuilder) -> ClientBuilder {
    let Some(excluded) = variable("no_proxy") else { return client };
    if entries(&excluded).any(|entry| entry == "*") {
        return client.no_proxy();
    }
    let is_standard = |entry: &str| host_and_port(entry).is_none() && standard(entry) == entry;
    if entries(&excluded).all(is_standard) {
        return client;
    }
    client.proxy(Proxy::custom(move |url| {
        if is_excluded(url, &excluded) { None } else { proxy_of(url.scheme()) }
    }))
}

/// Returns an error if the proxy for a request is not an HTTP proxy.
pub(crate) fn refusal(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let is_off = variable("no_proxy").is_some_and(|excluded| is_excluded(&url, &excluded));
    let (name, text) = named_proxy(url.scheme()).filter(|_| !is_off)?;
    let (kind, _) = text.split_once("://")?;
    kind.to_ascii_lowercase().starts_with("socks").then(|| {
        format!(
            "{name} is set to a {kind} proxy, but foreread supports only HTTP proxies: set one, \
             or unset the variable"
        )
    })
}

fn entries(excluded: &str) -> impl Iterator<Item = &str> {
    excluded.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Returns true if a URL needs no proxy.
fn is_excluded(url: &Url, excluded: &str) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or_default();
    entries(excluded).any(|entry| {
        let of_name = || (standard(entry).trim_matches('.').to_ascii_lowercase(), port);
        let of_entry = || host_and_port(entry).unwrap_or_else(of_name);
        entry == "*" || is_in_network(host, entry) || is_host(url, &of_entry())
    })
}

/// Returns true if an address is in a network such as `10.0.0.0/8` or `fd00::/8`.
fn is_in_network(host: &str, network: &str) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let parsed = || {
        let (start, len) = network.split_once('/')?;
        let (host, start): (IpAddr, IpAddr) = (host.parse().ok()?, start.parse().ok()?);
        let ((host, width), (start, of_network)) = (bits(host), bits(start));
        let len: u32 = len.parse().ok().filter(|len| *len <= width)?;
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
        Some(width == of_network && (host ^ start) & mask == 0)
    };
    parsed().unwrap_or(false)
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

/// Returns an entry without port in the form that reqwest reads: `[::1]`, `*.example.com` and
/// `example.com.` are `::1`, `.example.com` and `example.com`.
fn standard(entry: &str) -> &str {
    let entry = entry.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(entry);
    let entry = entry.strip_prefix('*').filter(|it| it.starts_with('.')).unwrap_or(entry);
    entry.strip_suffix('.').unwrap_or(entry)
}

/// Splits `host:443`, `10.0.0.1:9000` or `[::1]:80` into host and port.
fn host_and_port(entry: &str) -> Option<(String, u16)> {
    let (host, port) = entry.rsplit_once(':')?;
    let is_name = !host.is_empty() && (!host.contains(':') || host.starts_with('['));
    let port = port.parse().ok().filter(|_| is_name)?;
    Some((standard(host).trim_matches('.').to_ascii_lowercase(), port))
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
            assert!(is_excluded(&url, excluded), "{excluded}");
        }
        for excluded in ["", "a", "10.1.2.3:80", "10.1.2.30", "10.1.3.0/24", "10.0.0.0/33"] {
            assert!(!is_excluded(&url, excluded), "{excluded}");
        }
    }

    /// One entry with a port switched off all entries without.
    #[test]
    fn entries_with_and_without_ports_exclude_together() {
        let excluded = "a:80, localhost,[::1], *.example.com ,fd00::/8,0.0.0.0/0,b.";
        for (url, expected) in [
            ("http://localhost:9000/x", true),
            ("http://LOCALHOST/x", true),
            ("http://[::1]/x", true),
            ("http://s3.example.com/x", true),
            ("http://[fd12::1]/x", true),
            ("http://[fe80::1]/x", false),
            ("http://192.0.2.1/x", true),
            ("http://b/x", true),
            ("http://a/x", true),
            ("http://a:81/x", false),
            ("http://other/x", false),
        ] {
            assert_eq!(is_excluded(&Url::parse(url).unwrap(), excluded), expected, "{url}");
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
            ("*.example.com:443", "https://s3.example.com/b", true),
        ] {
            let entry = host_and_port(entry).unwrap();
            assert_eq!(is_host(&Url::parse(url).unwrap(), &entry), expected, "{entry:?} {url}");
        }
        for (entry, expected) in [
            ("[::1]", "::1"),
            ("*.example.com", ".example.com"),
            ("example.com.", "example.com"),
            (".example.com", ".example.com"),
            ("10.0.0.0/8", "10.0.0.0/8"),
        ] {
            assert_eq!(standard(entry), expected);
        }
        for plain in ["example.com", "::1", "10.0.0.0/8", "*", ":80", "host:port"] {
            assert_eq!(host_and_port(plain), None, "{plain}");
        }
    }
}
