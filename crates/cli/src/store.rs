//! Targets that are objects of a store, such as `s3://bucket/key`.
//!
//! A target with a scheme and `://` is a URL, anything else a path: `./s3:/x` names a file,
//! `s3://x` never does.
//!
//! Without the cargo feature `objects`, URLs are refused with an explanation.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use foreread::{Engine, OpenOptions};
#[cfg(feature = "objects")]
use foreread_object::StoreOptions;

use crate::output::Failure;

mod args;
mod asked;
#[cfg(feature = "objects")]
mod opened;
#[cfg(feature = "objects")]
mod prices;

pub use args::{StoreArgs, StoreLimitArgs};
pub(crate) use asked::say_cost;
pub use asked::{StoreAsked, asked_so_far, money, set_said};
#[cfg(feature = "objects")]
pub use prices::{cost, prices_of_environment};

#[cfg(feature = "objects")]
pub use opened::{
    StoreClient, device_name, device_name_of, is_prefix, modified, modified_text, refuses,
};

/// Access to object stores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoreAccess {
    /// Time limit of a request, with all retries.
    deadline: Duration,
    /// True if a late request is sent a second time.
    hedge: bool,
    /// Largest number of requests in flight to one server.
    connections: u32,
}

/// Returns the parser of TARGET: a path or a URL. `file:///path` is a path.
pub fn target() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|text| path_of(&text))
}

fn path_of(text: &OsStr) -> PathBuf {
    let path = text.to_str().and_then(|text| text.strip_prefix("file://"));
    path.filter(|path| path.starts_with('/')).map_or_else(|| PathBuf::from(text), PathBuf::from)
}

/// Returns the URL, if a target is one.
pub fn url_of(target: &Path) -> Option<&str> {
    let text = target.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_scheme.then_some(text)
}

/// Opens a file, or an object for a URL.
pub fn open(
    engine: &Engine,
    target: &Path,
    options: &OpenOptions,
    store: StoreAccess,
) -> Result<foreread::File, Failure> {
    match url_of(target) {
        Some(url) => store.client()?.open_file(engine, url, options).map_err(Failure::WrongUse),
        None => {
            let opened = engine.open_with(target, options);
            opened.map_err(|error| Failure::WrongUse(error.to_string()))
        }
    }
}

impl Default for StoreAccess {
    fn default() -> Self {
        Self { deadline: DEADLINE, hedge: true, connections: CONNECTIONS_MAX }
    }
}

impl StoreAccess {
    /// Creates a client for all stores.
    #[cfg(feature = "objects")]
    pub fn client(self) -> Result<StoreClient, Failure> {
        let Self { deadline, hedge, connections } = self;
        let options = StoreOptions { deadline, hedge, connections, ..StoreOptions::default() };
        Ok(StoreClient::new(options, prices_of_environment()?))
    }

    /// Fails: this program was built without stores.
    #[cfg(not(feature = "objects"))]
    pub fn client(self) -> Result<StoreClient, Failure> {
        let line = "this foreread was built without stores; build it with the cargo feature \
                    'objects'";
        Err(Failure::WrongUse(line.to_owned()))
    }
}

/// Returns the name under which the store of a URL is remembered.
#[cfg(not(feature = "objects"))]
pub fn device_name_of(_: &str) -> Result<String, Failure> {
    match StoreAccess::default().client()? {}
}

/// Uninhabited: this build has no stores.
#[cfg(not(feature = "objects"))]
#[derive(Clone, Debug)]
pub enum StoreClient {}

#[cfg(not(feature = "objects"))]
impl StoreClient {
    pub(crate) fn open_file(
        &self,
        _: &Engine,
        _: &str,
        _: &OpenOptions,
    ) -> Result<foreread::File, String> {
        match *self {}
    }

    pub fn open_identified(
        &self,
        _: &Engine,
        _: &str,
        _: &OpenOptions,
    ) -> Result<(foreread::File, foreread::SourceIdentity), String> {
        match *self {}
    }
}

/// Largest number of connections: the engine's in-flight limit for one device.
const CONNECTIONS_MAX: u32 = 64;

/// Default time limit of a request to a store.
const DEADLINE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_scheme_and_files_are_paths() {
        let url = |text: &str| url_of(&path_of(text.as_ref())).map(str::to_owned);
        assert_eq!(url("s3://lab/big.bin").as_deref(), Some("s3://lab/big.bin"));
        for path in ["disk.img", "./s3://lab", "/a://b", "://b", "s3:/lab"] {
            assert_eq!(url(path), None, "{path}");
        }
        assert_eq!(path_of("file:///srv/disk.img".as_ref()), Path::new("/srv/disk.img"));
        assert_eq!(path_of("file://host/disk.img".as_ref()), Path::new("file://host/disk.img"));
    }
}
