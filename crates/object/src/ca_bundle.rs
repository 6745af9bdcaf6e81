//! File of CA certificates that replaces the system's: the setting `ca_bundle` (any store), else
//! the variable `AWS_CA_BUNDLE` (S3).
//!
//! If a file is named, the client never falls back to the system's certificates.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use object_store::ObjectStoreScheme;
use reqwest::tls::Certificate;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::settings::{CA_BUNDLE, StoreSettings};

const VARIABLE: &str = "AWS_CA_BUNDLE";

/// Returns the certificates that a client of this kind of store must trust; None for the system's.
///
/// # Errors
///
/// If the file cannot be read, or contains no usable certificate. The error names the option and
/// the file.
pub(crate) fn read(
    scheme: &ObjectStoreScheme,
    settings: &StoreSettings,
) -> Result<Option<Vec<Certificate>>, String> {
    let is_s3 = matches!(scheme, ObjectStoreScheme::AmazonS3);
    let variable = is_s3.then(|| std::env::var_os(VARIABLE)).flatten();
    let Some((option, path)) = find(settings, variable) else { return Ok(None) };
    let read = read_file(&path);
    read.map(Some)
        .map_err(|why| format!("{option} is set to the CA bundle {}: {why}", path.display()))
}

/// Returns the name of the option and the file that it names. The last setting wins. An empty
/// variable is ignored, and so is one that a setting overrides by trusting every certificate.
fn find(settings: &StoreSettings, variable: Option<OsString>) -> Option<(String, PathBuf)> {
    let set = settings.iter().filter(|(name, _)| CA_BUNDLE.contains(name)).last();
    if let Some((name, path)) = set {
        return Some((format!("the setting {name}"), path.into()));
    }
    let trusts_all =
        settings.has(&["allow_invalid_certificates", "aws_allow_invalid_certificates"]);
    let path = variable.filter(|path| !path.is_empty() && !trusts_all)?;
    Some((format!("the environment variable {VARIABLE}"), path.into()))
}

fn read_file(path: &Path) -> Result<Vec<Certificate>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for der in CertificateDer::pem_slice_iter(&bytes) {
        let der = der.map_err(|error| format!("it is not a PEM file: {error}"))?;
        // System bundles contain certificates that rustls rejects; rustls skips them, too.
        if roots.add(der.clone()).is_ok()
            && let Ok(certificate) = Certificate::from_der(&der)
        {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err("it has no usable CA certificate in PEM format".to_owned());
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::process::Command;
    use std::sync::Arc;

    use object_store::ClientOptions;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection, Stream};

    use super::*;
    use crate::http_client::{Redirects, client};
    use crate::{StoreOptions, Stores};

    fn settings(pairs: &[(&str, &str)]) -> StoreSettings {
        StoreSettings::new(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())))
    }

    #[test]
    fn a_setting_goes_before_the_variable() {
        let of = |pairs: &[(&str, &str)], variable: Option<&str>| {
            let found = find(&settings(pairs), variable.map(OsString::from));
            found.map(|(option, path)| format!("{option}: {}", path.display()))
        };
        let variable = "the environment variable AWS_CA_BUNDLE: v";
        assert_eq!(of(&[], None), None);
        assert_eq!(of(&[], Some("")), None);
        assert_eq!(of(&[], Some("v")).as_deref(), Some(variable));
        assert_eq!(of(&[("aws_region", "x")], Some("v")).as_deref(), Some(variable));
        let both = [("AWS_CA_BUNDLE", "a"), ("ca_bundle", "b")];
        assert_eq!(of(&both, Some("v")).as_deref(), Some("the setting ca_bundle: b"));
        assert_eq!(of(&[("allow_invalid_certificates", "true")], Some("v")), None);
    }

    /// `client_kwargs.verify` with a path was refused, and `AWS_CA_BUNDLE` was not read.
    #[test]
    fn a_file_that_is_missing_or_has_no_certificate_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (path, why) in [
            (dir.path().join("missing.pem"), "No such file"),
            (dir.path().to_owned(), "directory"),
            (file("empty", ""), "no usable CA certificate"),
            (file("odd", odd), "no usable CA certificate"),
            (file("cut", &odd[..40]), "not a PEM file"),
        ] {
            let path = path.to_str().unwrap();
            for url in ["s3://bucket/key", "gs://bucket/key", "https://host/key"] {
                let stores = Stores::new(StoreOptions::default());
                let stores = stores.with_settings([("ca_bundle".to_owned(), path.to_owned())]);
                let error = stores.open(url).unwrap_err().to_string();
                let names = format!("the setting ca_bundle is set to the CA bundle {path}: ");
                assert!(error.contains(&names) && error.contains(why), "{error}");
            }
        }
    }

    /// A CA of this name, and a server's certificate by it; false: there is no openssl.
    fn make_certificates(dir: &Path) -> bool {
        std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        let lines = [
            format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=one -days 30"),
            format!("req -x509 {key} -keyout other.key -out other.pem -subj /CN=two -days 30"),
            format!("req {key} -keyout key.pem -out request -subj /CN=127.0.0.1"),
            "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 30 \
             -extfile names"
                .to_owned(),
        ];
        lines.iter().all(|line| {
            let mut openssl = Command::new("openssl");
            let ran = openssl.args(line.split_whitespace()).current_dir(dir).output();
            ran.is_ok_and(|ran| ran.status.success())
        })
    }

    /// Serves some connections, of which some fail in their handshake.
    fn serve(dir: &Path, connections: usize) -> u16 {
        let pem = |name: &str| dir.join(name);
        let certificate = CertificateDer::from_pem_file(pem("cert.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(pem("key.pem")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for socket in listener.incoming().take(connections) {
                let mut socket = socket.unwrap();
                let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = Stream::new(&mut connection, &mut socket);
                if stream.read(&mut [0; 4096]).is_ok() {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    connection.send_close_notify();
                    let _ = connection.complete_io(&mut socket);
                }
            }
        });
        port
    }

    #[tokio::test]
    async fn a_server_is_trusted_by_the_bundle_and_by_nothing_else() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        if !make_certificates(dir.path()) {
            eprintln!("skipped: no openssl");
            return;
        }
        let url = format!("https://127.0.0.1:{}/x", serve(dir.path(), 3));
        let get = async |roots: Option<Vec<Certificate>>| {
            let client = client(&ClientOptions::new(), Redirects::SameHost, roots).unwrap();
            client.get(&url).send().await
        };
        let bundle = |name: &str| Some(read_file(&dir.path().join(name)).unwrap());
        assert!(get(None).await.is_err(), "the system does not know this CA");
        assert!(get(bundle("other.pem")).await.is_err(), "this one did not sign it");
        assert_eq!(get(bundle("ca.pem")).await.unwrap().status(), 200);
    }
}
