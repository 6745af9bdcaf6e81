//! The stores of a process: one client for each bucket, and so one connection pool, with
//! credentials from settings and from the environment variables of `object_store`.

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

/// The stores that a process reads from: one client, with its connections, for each bucket.
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
    /// The store as a pager, if it supports paged listings.
    pages: Option<Arc<dyn PaginatedListStore>>,
    /// The bucket and its endpoint: the device whose speed its objects share.
    pub(crate) device: String,
    pub(crate) traffic: Arc<StoreTraffic>,
}

impl Stores {
    /// Creates a set of stores without clients; sends no request.
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

    /// Returns stores with settings that take precedence over the environment, and with clients of
    /// their own; the counters are shared. Names are the environment variables of `object_store` in
    /// lower case, such as `aws_endpoint_url` and `google_skip_signature`, and `ca_bundle`: a file
    /// of the CA certificates to trust. An endpoint or a key replaces all endpoints or credentials
    /// in the environment. `connections` sets the field of [`StoreOptions`] of that name. A name
    /// unknown to a store is an error when something of that store is opened.
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

    /// Opens an object by its URL. Fetches its length and version by one request, and blocks until
    /// they arrive.
    ///
    /// # Errors
    ///
    /// If the text is not the URL of an object, the environment has invalid settings, the store
    /// cannot be reached or refuses, or the object does not exist.
    pub fn open(&self, url: &str) -> Result<Object, ObjectError> {
        let opened = self.owner.wait(self.opening(url)?);
        opened.map_err(|error| ObjectError::of_process(&without_secrets(url), &error))?
    }

    /// Opens an object by its URL as [`Self::open`] does, without blocking. Any executor may poll
    /// the future, and dropping it cancels the request.
    ///
    /// # Errors
    ///
    /// Errors found before the store is contacted; the future returns all others.
    pub fn open_async(&self, url: &str) -> Result<OpeningObject, ObjectError> {
        let opening = self.opening(url)?;
        match self.owner.runtime() {
            Ok(runtime) => Ok(OpeningObject::new(without_secrets(url), runtime.spawn(opening))),
            Err(error) => Err(ObjectError::of_process(&without_secrets(url), &error)),
        }
    }

    /// Returns the future that opens an object, for a task of the runtime.
    fn opening(
        &self,
        url: &str,
    ) -> Result<impl Future<Output = Result<Object, ObjectError>> + Send + use<>, ObjectError> {
        let url = ObjectUrl::parse(url)?;
        if url.is_prefix() {
            let why = "the URL of an object must have a key and must not end with /";
            return Err(ObjectError::Url { url: url.to_string(), why: why.to_owned() });
        }
        let BucketClient { store, device, traffic, .. } = self.client_of(&url)?;
        let name = (url.to_string(), device);
        let counted = (Arc::clone(&self.counters), traffic);
        let asked = Object::ask(store, url.location.clone(), name, self.options, counted);
        let has_credentials = self.have_credentials();
        Ok(async move { asked.await.map_err(|error| with_hint(error, &url, has_credentials)) })
    }

    /// Lists the names directly below a prefix, or all keys that begin with it. Appending a name to
    /// the URL of the prefix yields the URL of the name.
    ///
    /// # Errors
    ///
    /// As for [`Self::open`], and if the store's answer is not a listing, or names may be missing.
    pub fn list(&self, url: &str, is_deep: bool) -> Result<Listing, ObjectError> {
        let prefix = self.prefix(url)?;
        let listed = listing::list(&prefix, is_deep);
        let has_credentials = self.have_credentials();
        listed.map_err(|error| match ObjectUrl::parse(url) {
            Ok(url) => with_hint(error, &url, has_credentials),
            Err(_) => error,
        })
    }

    /// Returns the keys that begin with a prefix. Sends no request.
    ///
    /// # Errors
    ///
    /// If the text is not the URL of a store, or the environment has invalid settings.
    pub fn prefix(&self, url: &str) -> Result<Prefix, ObjectError> {
        let url = ObjectUrl::parse(url)?;
        let BucketClient { store, pages, device, traffic } = self.client_of(&url)?;
        let counted = (Arc::clone(&self.counters), traffic);
        let store = PrefixStore { store, pages, device, counted };
        let prefix = Prefix::of(store, &url.location, &url.to_string(), self.options);
        Ok(prefix.with_encoded_names(url.is_encoded()))
    }

    /// Returns the client for a URL, for requests of the caller.
    ///
    /// # Errors
    ///
    /// If the environment has invalid settings.
    pub fn client(&self, url: &ObjectUrl) -> Result<Arc<dyn ObjectStore>, ObjectError> {
        Ok(self.client_of(url)?.store)
    }

    /// Returns stores with new clients and connections, which share the counters.
    pub(crate) fn with_new_clients(&self) -> Self {
        Self { clients: Arc::default(), ..self.clone() }
    }

    pub(crate) fn options(&self) -> StoreOptions {
        self.options
    }

    /// Returns true if the settings select credentials for S3.
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

    /// Returns the counters of all clients.
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
        // Only requests to web servers carry no secrets.
        let is_web = matches!(url.scheme, ObjectStoreScheme::Http);
        let redirects = if is_web { Redirects::Followed } else { Redirects::SameHost };
        let its_traffic = Arc::clone(&traffic);
        let connector = CountingConnector { counters, traffic: its_traffic, redirects, roots };
        let connector = FilteringConnector(connector);
        // The deadline of a read ends it with a clear error; the longer time-out of the client,
        // which applies to each attempt, never fires first.
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
                    // The user has allowed an endpoint without TLS explicitly.
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
            // URLs of the other two kinds were rejected above.
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

/// Returns the options of a web server's client. A URL with TLS is never redirected to one without.
fn of_web_server(url: &ObjectUrl) -> ClientOptions {
    ClientOptions::new().with_allow_http(url.url.scheme() == "http")
}

/// Adds a hint about credentials. Without any, an S3 client requests some from the cloud's metadata
/// service, and on other machines that error explains nothing.
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
    if has_credentials || knows_who.into_iter().any(has) {
        return error;
    }
    let hint = "; there are no credentials in the environment: set AWS_ACCESS_KEY_ID and \
                AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket; if this \
                machine has a role, check that its metadata service (169.254.169.254) answers";
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

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings contain credentials.
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
