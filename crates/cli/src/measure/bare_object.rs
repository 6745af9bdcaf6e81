//! Object read by one request per read, like a program without a cache.

use std::io;

use foreread::{Engine, OpenOptions};

use crate::output::Failure;
use crate::store::{StoreAccess, StoreClient};

/// Opened object; each clone sends its own requests.
#[derive(Clone, Debug)]
pub struct BareObject {
    client: StoreClient,
    #[cfg(feature = "objects")]
    object: foreread_object::Object,
}

#[cfg(feature = "objects")]
impl BareObject {
    pub fn open(url: &str, store: StoreAccess) -> Result<Self, Failure> {
        let client = store.client()?;
        let object = client.object(url)?;
        Ok(Self { client, object })
    }

    pub(crate) fn len(&self) -> u64 {
        self.object.meta().size
    }

    /// Reads exactly this range, by one request.
    pub fn read(&self, to: &mut [u8], offset: u64) -> io::Result<()> {
        Ok(self.object.read_exact_at(to, offset)?)
    }

    /// Opens a file of an engine with an empty cache.
    pub(crate) fn open_file(
        &self,
        engine: &Engine,
        options: &OpenOptions,
    ) -> io::Result<foreread::File> {
        self.client.open_file(engine, self.object.url(), options).map_err(io::Error::other)
    }
}

/// Stub for a build without stores.
#[cfg(not(feature = "objects"))]
impl BareObject {
    pub fn open(_: &str, store: StoreAccess) -> Result<Self, Failure> {
        match store.client()? {}
    }

    pub(crate) fn len(&self) -> u64 {
        match self.client {}
    }

    pub fn read(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        match self.client {}
    }

    pub(crate) fn open_file(&self, _: &Engine, _: &OpenOptions) -> io::Result<foreread::File> {
        match self.client {}
    }
}
