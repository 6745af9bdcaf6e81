//! Objects and prefixes of stores, for the commands.
//!
//! Opening never sends a request that the command does not need.

use std::time::Duration;

use foreread::{Engine, OpenOptions, Source as _, SourceIdentity};
use foreread_ext4::Timestamp;
use foreread_object::{
    Listing, MeasuredObject, Object, ObjectError, ObjectUrl, Prefix, StoreExamination,
    StoreOptions, StorePrices, Stores,
};

use crate::image::node;
use crate::output::Failure;
use crate::store::asked;

/// A client of all stores.
#[derive(Clone, Debug)]
pub struct StoreClient(Stores);

impl StoreClient {
    pub(super) fn new(options: StoreOptions, prices: Option<StorePrices>) -> Self {
        let stores = Stores::new(options);
        asked::add_client(stores.clone(), prices);
        Self(stores)
    }

    pub fn object(&self, url: &str) -> Result<Object, Failure> {
        self.0.open(url).map_err(failed)
    }

    /// Opens an object as a file of an engine, which remembers the store if it remembers devices.
    pub(crate) fn open_file(
        &self,
        engine: &Engine,
        url: &str,
        options: &OpenOptions,
    ) -> Result<foreread::File, String> {
        Ok(self.open_identified(engine, url, options)?.0)
    }

    /// Like [`Self::open_file`], and returns the object's identity and version.
    pub fn open_identified(
        &self,
        engine: &Engine,
        url: &str,
        options: &OpenOptions,
    ) -> Result<(foreread::File, SourceIdentity), String> {
        let object = self.0.open(url).map_err(|error| error.to_string())?;
        let identity = object.identity();
        let options = options.clone().device_name(device_name(object.device_name()));
        let opened = engine.open_source_with(object, &options);
        Ok((opened.map_err(|error| error.to_string())?, identity))
    }

    /// Returns the keys that begin with a prefix.
    pub fn prefix(&self, url: &str) -> Result<Prefix, Failure> {
        self.0.prefix(url).map_err(failed)
    }

    /// Examines a store by a few small requests, each of them sent once.
    pub fn examine(
        url: &str,
        deadline: Duration,
        prices: Option<StorePrices>,
    ) -> Result<StoreExamination, Failure> {
        let options = StoreOptions { deadline, retries: 0, ..StoreOptions::default() };
        Self::new(options, prices).0.examine(url).map_err(failed)
    }

    /// Opens an object for measurements: each request is sent once, and only retried if refused or
    /// broken. The client's counters include these requests.
    pub fn measured(
        url: &str,
        options: StoreOptions,
        prices: Option<StorePrices>,
    ) -> Result<(MeasuredObject, Stores), Failure> {
        let Self(stores) = Self::new(options, prices);
        match stores.measured(url) {
            Ok(measured) => Ok((measured, stores)),
            Err(_) if stores.counters().throttled > 0 => Err(refuses(url)),
            Err(error) => Err(failed(error)),
        }
    }

    pub fn list(&self, url: &str, is_deep: bool) -> Result<Listing, Failure> {
        self.0.list(url, is_deep).map_err(failed)
    }
}

/// Returns the failure of a measurement that a store refuses.
pub fn refuses(url: &str) -> Failure {
    Failure::Check(format!(
        "{url}: the store refuses requests (503 or 429) again and again; try later, or ask for a \
         higher limit"
    ))
}

/// Returns the name under which a store is remembered.
pub fn device_name(bucket: &str) -> String {
    format!("store-{bucket}")
}

/// Returns the device name of a URL's store, without sending a request.
pub fn device_name_of(url: &str) -> Result<String, Failure> {
    let prefix = Stores::new(StoreOptions::default()).prefix(url).map_err(failed)?;
    Ok(device_name(prefix.device_name()))
}

/// Returns true if a URL names a prefix of keys.
pub fn is_prefix(url: &str) -> bool {
    ObjectUrl::parse(url).is_ok_and(|url| url.is_prefix())
}

/// Returns the modification time that a store reports.
pub fn modified(meta: &foreread_object::object_store::ObjectMeta) -> Timestamp {
    Timestamp { seconds: meta.last_modified.timestamp(), nanos: 0 }
}

/// Formats the modification time to the second.
pub fn modified_text(meta: &foreread_object::object_store::ObjectMeta) -> String {
    node::short_time(modified(meta)).replace(' ', "T") + "Z"
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: ObjectError) -> Failure {
    Failure::WrongUse(error.to_string())
}
