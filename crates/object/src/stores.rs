//! The stores of a process: one client for each bucket, with credentials from the environment.
//!
//! In:    URLs; the environment variables that `object_store` reads, and settings above them.
//! Out:   clients, objects, listings, counters.
//! Never: two clients, and so two pools of connections, for one bucket.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme};
use reqwest::tls::Certificate;

use crate::attributes::FirstAsk;
use crate::ca_bundle;
use crate::connector::CountingConnector;
use crate::counters::{StoreCounters, StoreCounts};
use crate::environment;
use crate::error::{ObjectError, silence};
use crate::http_client::Redirects;
use crate::listing::{self, Listing};
use crate::object::Object;
use crate::object_url::{ObjectUrl, without_secrets};
use crate::opening::OpeningObject;
use crate::options::StoreOptions;
use crate::prefix::{Prefix, PrefixStore};
use crate::response_filter::FilteringConnector;
use crate::runtime::OwnerProcess;
use crate::settings::StoreSettings;
use crate::traffic::StoreTraffic;

/// The stores that a process reads from: a client, with its connections, for each bucket.
///
/// Clones share clients and counters.
#[derive(Clone)]
pub struct Stores {
    options: StoreOptions,
    settings: StoreSettings,
    owner: OwnerProcess,
    counters: Arc<StoreCounters>,
    clients: Arc<Mutex<HashMap<String, BucketClient>>>,
}

/// The client of one bucket.
#[derive(Clone)]
pub(crate) struct BucketClient {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The same, if it lists names in pages.
    pages: Option<Arc<dyn PaginatedListStore>>,
    /// The bucket and its endpoint: what objects have in common that share a speed.
    pub(crate) device: String,
    pub(crate) traffic: Arc<StoreTraffic>,
}

impl Stores {
    /// Returns stores that no request was sent to yet.
    #[must_use]
    pub fn new(options: StoreOptions) -> Self {
        Self {
            options,
            settings: StoreSettings::default(),
            owner: OwnerProcess::here(),
            counters: Arc::default(),
            clients: Arc::default(),
        }
    }

    /// Returns stores with settings that take precedence over the environment, and clients of their
    /// own; they are counted with these. Names are those of the environment variables of
    /// `object_store` in lower case, such as `aws_endpoint_url` and `google_skip_signature`, and
    /// `ca_bundle`: a file of the CA certificates to trust. An endpoint or a key replaces all that
    /// the environment says of endpoints or credentials. `connections` is the field of
    /// [`StoreOptions`] of that name. A name that a store does not have is an error when something
    /// of that store is opened.
    ///
    /// ```
    /// use foreread_object::{StoreOptions, Stores};
    ///
    /// let stores = Stores::new(StoreOptions::default());
    /// let settings = [("aws_access_kee_id".to_owned(), "key".to_owned())];
    /// let error = stores.with_settings(settings).open("s3://bucket/key").unwrap_err();
    /// assert!(error.to_string().contains("aws_access_kee_id"), "{error}");
    /// ```
    #[must_use]
    pub fn with_settings(&self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        let (settings, connections) = StoreSettings::new(settings).without_connections();
        let connections = connections.unwrap_or(self.options.connections);
        let options = StoreOptions { connections, ..self.options };
        Self { options, settings, clients: Arc::default(), ..self.clone() }
    }

    /// Opens an object by its URL. It asks the store for its length and version by one request,
    /// and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// If it is no URL of an object, the environment has settings that make no sense, the store
    /// cannot be reached or refuses, or there is no such object.
    pub fn open(&self, url: &str) -> Result<Object, ObjectError> {
        let opened = self.owner.wait(self.opening(url)?);
        opened.map_err(|error| ObjectError::of_process(&without_secrets(url), &error))?
    }

    /// Opens an object by its URL as [`Self::open`] does, without a wait for the store: the future
    /// may be polled by any executor, and dropping it cancels the request.
    ///
    /// # Errors
    ///
    /// Those that are known before the store was asked; the others are the future's.
    pub fn open_async(&self, url: &str) -> Result<OpeningObject, ObjectError> {
        let opening = self.opening(url)?;
        match self.owner.runtime() {
            Ok(runtime) => Ok(OpeningObject::new(without_secrets(url), runtime.spawn(opening))),
            Err(error) => Err(ObjectError::of_process(&without_secrets(url), &error)),
        }
    }

    /// Returns what opens an object, for a task of the runtime.
    fn opening(
        &self,
        url: &str,
    ) -> Result<impl Future<Output = Result<Object, ObjectError>> + Send + use<>, ObjectError> {
        let url = ObjectUrl::parse(url)?;
        if url.is_prefix() {
            let why = "the URL of an object does not end with / and has a key";
            return Err(ObjectError::Url { url: url.to_string(), why: why.to_owned() });
        }
        let BucketClient { store, device, traffic, .. } = self.client_of(&url)?;
        let name = (url.to_string(), device);
        let counted = (Arc::clone(&self.counters), traffic);
        let how = (self.options, FirstAsk::FirstByte);
        let asked = Object::ask(store, url.location.clone(), name, how, counted);
        let has_credentials = self.have_credentials();
        Ok(async move { asked.await.map_err(|error| with_hint(error, &url, has_credentials)) })
    }

    /// Lists what is directly below a prefix, or all keys that begin with it. The URL of a name is
    /// that of the prefix with the name behind it.
    ///
    /// # Errors
    ///
    /// As for [`Self::open`], and if the store's answer is no listing or may lack names.
    pub fn list(&self, url: &str, is_deep: bool) -> Result<Listing, ObjectError> {
        let prefix = self.prefix(url)?;
        let listed = listing::list(&prefix, is_deep);
        let has_credentials = self.have_credentials();
        listed.map_err(|error| match ObjectUrl::parse(url) {
            Ok(url) => with_hint(error, &url, has_credentials),
            Err(_) => error,
        })
    }

    /// Returns the keys that begin with a prefix. It sends no request.
    ///
    /// # Errors
    ///
    /// If it is no URL of a store, or the environment has settings that make no sense.
    pub fn prefix(&self, url: &str) -> Result<Prefix, ObjectError> {
        let url = ObjectUrl::parse(url)?;
        let BucketClient { store, pages, device, traffic } = self.client_of(&url)?;
        let counted = (Arc::clone(&self.counters), traffic);
        let store = PrefixStore { store, pages, device, counted };
        let prefix = Prefix::of(store, &url.location, &url.to_string(), self.options);
        Ok(prefix.with_encoded_names(url.is_encoded()))
    }

    /// Returns the client of the store that has this URL, for a caller's own requests.
    ///
    /// # Errors
    ///
    /// If the environment has settings that make no sense.
    pub fn client(&self, url: &ObjectUrl) -> Result<Arc<dyn ObjectStore>, ObjectError> {
        Ok(self.client_of(url)?.store)
    }

    /// Returns other clients, with connections of their own, that count here.
    pub(crate) fn with_new_clients(&self) -> Self {
        Self { clients: Arc::default(), ..self.clone() }
    }

    pub(crate) fn options(&self) -> StoreOptions {
        self.options
    }

    /// Whether the settings say which credentials S3 gets.
    pub(crate) fn have_credentials(&self) -> bool {
        self.settings.have_credentials()
    }

    pub(crate) fn client_of(&self, url: &ObjectUrl) -> Result<BucketClient, ObjectError> {
        let here = self.owner.check();
        here.map_err(|error| ObjectError::of_process(&url.to_string(), &error))?;
        // Nothing panics while it holds this lock.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(url.bucket()) {
            return Ok(client.clone());
        }
        environment::check(&url.scheme, &self.settings).map_err(|why| ObjectError::Failed {
            url: url.to_string(),
            range: None,
            why,
        })?;
        let roots = ca_bundle::read(&url.scheme, &self.settings)
            .map_err(|why| ObjectError::Failed { url: url.to_string(), range: None, why })?;
        let built = self.build(url, roots);
        let client = built.map_err(|error| ObjectError::of(&url.to_string(), None, &error))?;
        clients.insert(url.bucket().to_owned(), client.clone());
        Ok(client)
    }

    /// Returns what all of them were asked so far.
    #[must_use]
    pub fn counters(&self) -> StoreCounts {
        self.counters.counts()
    }

    fn build(
        &self,
        url: &ObjectUrl,
        roots: Option<Vec<Certificate>>,
    ) -> object_store::Result<BucketClient> {
        let (bucket, retry, settings) = (url.bucket(), self.options.retry(), &self.settings);
        let mut device = bucket.to_owned();
        let counters = Arc::clone(&self.counters);
        let traffic = StoreTraffic::new(&self.options, Arc::clone(&counters));
        // Only requests of web servers have no secrets.
        let is_web = matches!(url.scheme, ObjectStoreScheme::Http);
        let redirects = if is_web { Redirects::Followed } else { Redirects::SameHost };
        let its_traffic = Arc::clone(&traffic);
        let connector = CountingConnector { counters, traffic: its_traffic, redirects, roots };
        let connector = FilteringConnector(connector);
        // One read has one deadline, and its error says so; that of the client, for each try, is
        // longer and never seen.
        let timeout = self.options.deadline.saturating_mul(2);
        let timeout_text = format!("{} ms", timeout.as_millis());
        let mut pages: Option<Arc<dyn PaginatedListStore>> = None;
        let store: Arc<dyn ObjectStore> = match url.scheme {
            ObjectStoreScheme::AmazonS3 => {
                let mut builder = environment::s3(settings)?.with_url(bucket);
                let timeout_key = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
                builder = builder.with_config(timeout_key, timeout_text);
                let keys = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
                if let Some(endpoint) = keys.iter().find_map(|key| builder.get_config_value(key)) {
                    // An endpoint without TLS was named in so many words.
                    let is_said = std::env::var_os("AWS_ALLOW_HTTP").is_some()
                        || settings.has(&["aws_allow_http", "allow_http"]);
                    if endpoint.starts_with("http://") && !is_said {
                        builder = builder.with_allow_http(true);
                    }
                    device = format!("{bucket} {}", without_secrets(&endpoint));
                }
                let built = builder.with_retry(retry).with_http_connector(connector).build()?;
                let store = Arc::new(built);
                pages = Some(Arc::clone(&store) as _);
                store
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let timeout_key = GoogleConfigKey::Client(ClientConfigKey::Timeout);
                let builder = environment::google(settings)?.with_url(bucket);
                let builder = builder.with_config(timeout_key, timeout_text);
                let built = builder.with_retry(retry).with_http_connector(connector).build()?;
                let store = Arc::new(built);
                pages = Some(Arc::clone(&store) as _);
                store
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let timeout_key = AzureConfigKey::Client(ClientConfigKey::Timeout);
                let builder = environment::azure(settings)?.with_url(bucket);
                let builder = builder.with_config(timeout_key, timeout_text);
                let built = builder.with_retry(retry).with_http_connector(connector).build()?;
                let store = Arc::new(built);
                pages = Some(Arc::clone(&store) as _);
                store
            }
            // A URL of the two others was refused.
            ObjectStoreScheme::Http | ObjectStoreScheme::Local | ObjectStoreScheme::Memory | _ => {
                let options = of_web_server(url);
                let options = settings.apply(options, |it, key, value| it.with_config(key, value));
                let builder = HttpBuilder::new().with_url(bucket).with_retry(retry);
                let builder = builder.with_client_options(options?.with_timeout(timeout));
                Arc::new(builder.with_http_connector(connector).build()?)
            }
        };
        Ok(BucketClient { store, pages, device, traffic })
    }
}

/// A URL with TLS is never redirected to one without.
fn of_web_server(url: &ObjectUrl) -> ClientOptions {
    ClientOptions::new().with_allow_http(url.url.scheme() == "http")
}

/// Without credentials an S3 client asks the machine's cloud for some, which on other machines is
/// an error of its own that explains nothing. Nor does a refusal of S3 without a body.
pub(crate) fn with_hint(error: ObjectError, url: &ObjectUrl, has_credentials: bool) -> ObjectError {
    let has = |name: &str| std::env::var_os(name).is_some();
    let knows_who = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SKIP_SIGNATURE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    if !matches!(url.scheme, ObjectStoreScheme::AmazonS3) {
        return error;
    }
    let hint = if !has_credentials && !knows_who.into_iter().any(has) {
        "; there are no credentials in the environment: set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket; if this machine \
         has a role, see whether its metadata service (169.254.169.254) answers"
    } else if is_without_reason(&error) {
        " S3 gives no reason when it is asked for attributes; most often it is that credentials \
         have expired (AWS_SESSION_TOKEN), or that AWS_REGION is another one"
    } else {
        return error;
    };
    match error {
        ObjectError::Failed { url, range, why } => {
            ObjectError::Failed { url, range, why: why + hint }
        }
        ObjectError::TimedOut { url, range, deadline, last_failure } => {
            let why = silence(deadline, last_failure.as_deref()) + hint;
            ObjectError::Failed { url, range, why }
        }
        ObjectError::Url { .. }
        | ObjectError::NotFound { .. }
        | ObjectError::Denied { .. }
        | ObjectError::NoCredentials { .. }
        | ObjectError::Refused { .. }
        | ObjectError::Unavailable { .. }
        | ObjectError::Changed { .. } => error,
    }
}

/// Whether a request for attributes was refused with 400: the response has no body.
fn is_without_reason(error: &ObjectError) -> bool {
    let ObjectError::Failed { why, .. } = error else { return false };
    why.starts_with("Error performing HEAD") && why.ends_with("400 Bad Request:")
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings have credentials in them.
        let Self { options, counters, settings: _, owner: _, clients: _ } = self;
        let mut debug = f.debug_struct("Stores");
        debug.field("options", options).field("counters", counters).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server could send a reader of `https://` to `http://`, where others read along.
    #[test]
    fn only_a_url_without_tls_allows_requests_without_it() {
        for (url, allows) in [("https://host/x", "false"), ("http://host/x", "true")] {
            let options = of_web_server(&ObjectUrl::parse(url).unwrap());
            let got = options.get_config_value(&ClientConfigKey::AllowHttp);
            assert_eq!(got.as_deref(), Some(allows), "{url}");
        }
    }
}
