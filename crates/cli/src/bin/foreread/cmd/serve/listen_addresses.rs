//! Where a server is found: sockets, and the addresses that clients are given.
//!
//! Reserved characters are escaped.
//!
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Addresses on which a server listens.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ListenAddresses {
    pub(super) unix: Option<PathBuf>,
    pub(super) tcp: Option<SocketAddr>,
}

impl ListenAddresses {
    /// Returns one URI for each listener, the Unix socket first.
    pub(super) fn uris(&self, export: &str) -> Vec<String> {
        let unix = self.unix.iter().map(|path| unix_uri(path, export));
        let tcp = self.tcp.iter().map(|addr| tcp_uri(*addr, export));
        unix.chain(tcp).collect()
    }
}

fn unix_uri(path: &Path, export: &str) -> String {
    format!(
        "nbd+unix:///{}?socket={}",
        escaped(export.as_bytes()),
        escaped(path.as_os_str().as_bytes())
    )
}

fn tcp_uri(addr: SocketAddr, export: &str) -> String {
    // A server that listens on all addresses is reached here by loopback.
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    let name = if export.is_empty() { String::new() } else { escaped(export.as_bytes()) };
    format!("nbd://{}/{name}", SocketAddr::new(ip, addr.port()))
}

/// Escapes all but unreserved characters (RFC 3986) and slashes, which are safe in both places.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_clients_take() {
        let place = ListenAddresses {
            unix: Some("/run/a b&c.sock".into()),
            tcp: Some(SocketAddr::from(([0, 0, 0, 0], 10809))),
        };
        assert_eq!(
            place.uris("disk 1"),
            ["nbd+unix:///disk%201?socket=/run/a%20b%26c.sock", "nbd://127.0.0.1:10809/disk%201"]
        );
        let place = ListenAddresses { unix: None, tcp: Some("[::]:99".parse().unwrap()) };
        assert_eq!(place.uris(""), ["nbd://[::1]:99/"]);
    }
}
