//! Objects as sources of the engine: S3-compatible stores, Google Cloud Storage, Azure, HTTP.
//!
//! In:    URLs; credentials and endpoints in the environment variables of `object_store`.
//! Out:   a [`Source`](foreread::Source) for each object, listings, counters of requests and bytes.
//! Never: a read-ahead policy, which is the engine's. Writes to a store, except by [`CachedStore`]
//!        on behalf of its caller. Bytes of two versions of an object in one file.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = foreread::Engine::builder().build()?;
//! let stores = foreread_object::Stores::new(foreread_object::StoreOptions::default());
//! let table = engine.open_source(stores.open("s3://bucket/table.parquet")?)?;
//! let mut footer = [0; 8];
//! table.read_at(&mut footer, table.len() - 8)?;
//! println!("{} requests", stores.counters().requests);
//! # Ok(()) }
//! ```
//!
//! ```text
//!   reader --> engine --> fetch(range, reply) --> a task on the runtime: GET, If-Match
//!     ^                                                |
//!     '---- a page is complete <--- reply.write(chunk) <'
//! ```
//!
//! Uses, guarantees and costs: docs/guide/objects.md.

mod attributes;
mod broken_body;
mod ca_bundle;
mod cached_store;
mod connection_use;
mod connections;
mod connector;
mod counters;
mod environment;
mod error;
mod error_document;
mod error_text;
mod examination;
mod hedged;
mod http_client;
mod http_date;
mod last_failure;
mod listing;
mod listing_date;
mod listing_filter;
mod listing_page;
mod listing_xml;
mod measured_object;
mod object;
mod object_state;
mod object_url;
mod opening;
mod options;
mod partial_content;
mod pinned_version;
mod prefix;
mod proxies;
mod redirects;
mod response_filter;
mod response_head;
mod response_watch;
mod retries;
mod retry_after;
mod runtime;
mod settings;
mod stores;
mod traffic;
mod transfer;
mod webdav_listing;

pub use cached_store::CachedStore;
pub use counters::{StoreCounts, StorePrices};
pub use error::ObjectError;
pub use examination::{RangeSupport, StoreExamination};
pub use listing::Listing;
pub use measured_object::{ConnectionTime, MeasuredObject};
pub use object::Object;
/// The crate that implements the stores.
pub use object_store;
pub use object_url::ObjectUrl;
pub use opening::OpeningObject;
pub use options::StoreOptions;
pub use prefix::{ListedName, ListedVersion, Prefix, PrefixPage};
pub use stores::Stores;
pub use transfer::RangeTime;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/objects.md")]
struct ObjectsDocument;
