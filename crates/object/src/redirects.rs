//! Redirects of web servers: followed once for each object; its range requests then go straight to
//! the target.
//!
//! Requests carry no secrets, and `https://` is never redirected to `http://`. The target is kept
//! until it fails. The reader checks that a new target has the same version.
//!
//! ```text
//!   open     redirector --302--> mirror 2: the object      "mirror 2" is kept
//!   ranges                       mirror 2, mirror 2, ..
//!   mirror 2 is gone, or the signed URL has expired:
//!            redirector --302--> mirror 1: the same version, or an error
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use url::Url;

use crate::object_url::without_secrets;

/// Location of an object behind redirects; attached to each of its requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundAt(Arc<Mutex<Option<String>>>);

impl FoundAt {
    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        // Nothing panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that follows redirects.
#[derive(Debug)]
pub(crate) struct FollowingService(pub(crate) HttpClient);

#[async_trait]
impl HttpService for FollowingService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let found_at = request.extensions().get::<FoundAt>().cloned().unwrap_or_default();
        let known = found_at.lock().clone();
        if let Some(known) = known {
            let response = self.0.execute(to(&request, &known)?).await;
            let is_lost = match &response {
                Ok(response) => {
                    let status = response.status();
                    status.is_redirection() || LOST.contains(&status.as_u16())
                }
                Err(_) => true,
            };
            if !is_lost {
                return response;
            }
            let mut now = found_at.lock();
            // Another request may have found a new location already.
            if now.as_ref() == Some(&known) {
                *now = None;
            }
        }
        self.follow(request, &found_at).await
    }
}

impl FollowingService {
    async fn follow(
        &self,
        request: HttpRequest,
        found_at: &FoundAt,
    ) -> Result<HttpResponse, HttpError> {
        let mut at = request.uri().to_string();
        for hop in 0..=REDIRECTS_MAX {
            let response = self.0.execute(to(&request, &at)?).await?;
            let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            let location = response.headers().get("location").filter(|_| is_redirect);
            let Some(location) = location else {
                if hop > 0 && response.status().is_success() {
                    *found_at.lock() = Some(at);
                }
                return Ok(response);
            };
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            at = next(&at, &location)?;
        }
        Err(refused("too many redirects".to_owned()))
    }
}

/// Returns a copy of the request for another URL.
fn to(request: &HttpRequest, at: &str) -> Result<HttpRequest, HttpError> {
    let mut request = request.clone();
    *request.uri_mut() = at.parse().map_err(|_| {
        refused(format!("the server redirects to {:?}, which is not a URL", safe(at)))
    })?;
    Ok(request)
}

/// Resolves the target of a redirect.
fn next(at: &str, location: &str) -> Result<String, HttpError> {
    let shown = safe(location);
    let wrong = || refused(format!("the server redirects to {shown:?}, which is not a URL"));
    let from = Url::parse(at).map_err(|_| wrong())?;
    let mut url = from.join(location).map_err(|_| wrong())?;
    url.set_fragment(None);
    match (from.scheme(), url.scheme()) {
        ("https", "https") | ("http", "https" | "http") => Ok(url.into()),
        ("https", "http") => {
            let host = url.origin().ascii_serialization();
            Err(refused(format!("the server redirects from https:// to {host}, without TLS")))
        }
        _ => Err(refused(format!(
            "the server redirects to {shown:?}, but only http:// and https:// are followed"
        ))),
    }
}

/// Returns a target without user and query, which may be secret. The end of the user is ambiguous.
fn safe(target: &str) -> String {
    let Some((before, after)) = target.rsplit_once('@') else { return without_secrets(target) };
    let scheme = before.split_once("//").map_or("", |(scheme, _)| scheme);
    without_secrets(&format!("{scheme}//{after}"))
}

fn refused(why: String) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(why))
}

/// Statuses by which a mirror reports that the object is gone or its signed URL has expired, or
/// that it failed itself; another mirror may have the object.
const LOST: [u16; 9] = [400, 401, 403, 404, 410, 500, 502, 504, 508];

/// The limit of browsers.
const REDIRECTS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use object_store::client::HttpRequestBody;

    use super::*;
    use crate::error_text::with_sources_of;

    /// A redirector `http://pub/a` to one of three mirrors in turn; mirrors may be down.
    #[derive(Clone, Debug, Default)]
    struct Mirrors(Arc<MirrorState>);

    #[derive(Debug, Default)]
    struct MirrorState {
        asked: Mutex<Vec<String>>,
        turn: Mutex<usize>,
        status: Mutex<u16>,
    }

    #[async_trait]
    impl HttpService for Mirrors {
        async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
            let uri = request.uri().to_string();
            self.0.asked.lock().unwrap().push(uri.clone());
            let mut response = HttpResponse::new(Vec::new().into());
            let location = match &*uri {
                "http://pub/a" => {
                    let mut turn = self.0.turn.lock().unwrap();
                    *turn += 1;
                    Some(format!("http://mirror-{turn}/b?signed=1"))
                }
                "http://loop/a" => Some("/a".to_owned()),
                "https://safe/a" => Some("http://plain/a".to_owned()),
                _ => None,
            };
            let status = *self.0.status.lock().unwrap();
            if let Some(location) = location {
                *response.status_mut() = 302.try_into().unwrap();
                response.headers_mut().insert("location", location.parse().unwrap());
            } else if uri.starts_with("http://mirror-1/") && status == 0 {
                return Err(refused("down".to_owned()));
            } else if uri.starts_with("http://mirror-1/") {
                *response.status_mut() = status.try_into().unwrap();
            }
            Ok(response)
        }
    }

    async fn get(mirrors: &Mirrors, at: &str, found_at: &FoundAt) -> Result<u16, HttpError> {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = at.parse().unwrap();
        request.extensions_mut().insert(found_at.clone());
        let service = FollowingService(HttpClient::new(mirrors.clone()));
        service.call(request).await.map(|response| response.status().as_u16())
    }

    /// Each range was asked of another mirror, whose `ETag` differs.
    #[tokio::test]
    async fn ranges_go_where_the_first_request_was_sent_until_that_fails() {
        for (status, then) in [(403, 200), (410, 200), (502, 200), (0, 200), (416, 416), (503, 503)]
        {
            let mirrors = Mirrors::default();
            *mirrors.0.status.lock().unwrap() = 200;
            let found_at = FoundAt::default();
            for _ in 0..3 {
                assert_eq!(get(&mirrors, "http://pub/a", &found_at).await.unwrap(), 200);
            }
            let mirror = "http://mirror-1/b?signed=1";
            assert_eq!(*mirrors.0.asked.lock().unwrap(), ["http://pub/a", mirror, mirror, mirror]);
            *mirrors.0.status.lock().unwrap() = status;
            let got = get(&mirrors, "http://pub/a", &found_at).await.unwrap();
            assert_eq!(
                (got, *mirrors.0.turn.lock().unwrap()),
                (then, if then == 200 { 2 } else { 1 })
            );
        }
    }

    /// The error had the whole target, and a log has the error.
    #[test]
    fn an_error_about_a_redirect_has_no_password_and_no_signature() {
        for target in [
            "ftp://user:hush@host/x?signature=hush",
            "http://user:hush@host:port/x",
            "//hush@host:port/x#hush",
            "http://user:hush/more@host:port/x",
            "http://user:hush?more@host:port/x",
        ] {
            let error = next("http://pub/a", target).unwrap_err();
            let error = with_sources_of(error.to_string(), &error);
            assert!(error.contains("host") && !error.contains("hush"), "{target}: {error}");
        }
    }

    #[tokio::test]
    async fn a_redirect_without_end_or_without_tls_is_refused() {
        let mirrors = Mirrors::default();
        let error = get(&mirrors, "http://loop/a", &FoundAt::default()).await.unwrap_err();
        assert!(format!("{error}").contains("too many redirects"), "{error}");
        assert_eq!(mirrors.0.asked.lock().unwrap().len(), REDIRECTS_MAX + 1);
        let error = get(&mirrors, "https://safe/a", &FoundAt::default()).await.unwrap_err();
        assert!(format!("{error}").contains("http://plain, without TLS"), "{error}");
    }
}
