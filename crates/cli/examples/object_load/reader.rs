//! Targets of the reads: anything that returns bytes at an offset.
//!
//! In:    `path:FILE`, `engine:URL`, `get:URL`, `nbd:SOCKET`.
//! Out:   open readers.
//! Never: a cache, except the target's own.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use foreread::{Engine, OpenOptions};
use foreread_object::object_store::aws::AmazonS3Builder;
use foreread_object::object_store::path::Path;
use foreread_object::object_store::{GetOptions, GetRange, ObjectStore};
use foreread_object::{ObjectUrl, StoreOptions, Stores};
use futures_util::StreamExt as _;
use tokio::runtime::Runtime;

use crate::nbd::NbdReader;

/// Target of the reads.
pub(crate) trait Reader: Send {
    /// Fills `to` from offset `at`.
    fn read_exact_at(&mut self, to: &mut [u8], at: u64) -> io::Result<()>;

    /// Returns a reader of the same file for another thread, if the target allows it.
    fn another(&self) -> Option<Box<dyn Reader>>;
}

/// Opens a target. With several files, `{}` in its name becomes 00, 01, and so on.
pub(crate) fn open(target: &str, files: usize) -> Result<Vec<Box<dyn Reader>>, Box<dyn Error>> {
    let (kind, name) = target.split_once(':').ok_or("a target is KIND:NAME")?;
    let names = (0..files).map(|number| name.replace("{}", &format!("{number:02}")));
    let mut readers: Vec<Box<dyn Reader>> = Vec::new();
    // The defaults of the commands. Memory is allocated before the clock starts, as in a program
    // that has already read.
    let builder = Engine::builder().memory(256 << 20).prefault(true).learn_max_window();
    let engine = match std::env::var_os("REMEMBER") {
        Some(directory) => builder.remember(directory),
        None => builder,
    };
    let (engine, options) = (engine.build()?, OpenOptions::new().device_name("lab"));
    let stores = Stores::new(StoreOptions::default());
    let runtime = Arc::new(runtime()?);
    for name in names {
        readers.push(match kind {
            "path" => Box::new(PathReader(Arc::new(File::open(name)?))),
            "engine" => {
                Box::new(EngineReader(engine.open_source_with(stores.open(&name)?, &options)?))
            }
            "get" => Box::new(GetReader { runtime: Arc::clone(&runtime), object: bare(&name)? }),
            "nbd" => Box::new(NbdReader::connect(&name)?),
            _ => return Err(format!("{kind}: path, engine, get or nbd").into()),
        });
    }
    Ok(readers)
}

/// Creates a runtime with as many workers as foreread-object uses.
pub(crate) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// An object of a store, read without foreread.
pub(crate) type BareObject = (Arc<dyn ObjectStore>, Path);

pub(crate) fn bare(url: &str) -> Result<BareObject, Box<dyn Error>> {
    let key = Path::parse(ObjectUrl::parse(url)?.key())?;
    let builder = AmazonS3Builder::from_env().with_url(url).with_allow_http(true);
    let store: Arc<dyn ObjectStore> = Arc::new(builder.build()?);
    Ok((store, key))
}

struct PathReader(Arc<File>);

impl Reader for PathReader {
    fn read_exact_at(&mut self, to: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(to, at)
    }

    fn another(&self) -> Option<Box<dyn Reader>> {
        Some(Box::new(Self(Arc::clone(&self.0))))
    }
}

struct EngineReader(foreread::File);

impl Reader for EngineReader {
    fn read_exact_at(&mut self, to: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(to, at).map_err(io::Error::other)
    }

    fn another(&self) -> Option<Box<dyn Reader>> {
        Some(Box::new(Self(self.0.clone())))
    }
}

/// Reader that sends one request for each read.
struct GetReader {
    runtime: Arc<Runtime>,
    object: BareObject,
}

impl Reader for GetReader {
    fn read_exact_at(&mut self, to: &mut [u8], at: u64) -> io::Result<()> {
        let (store, key) = &self.object;
        let range = Some(GetRange::Bounded(at..at + to.len() as u64));
        self.runtime.block_on(async {
            let response = store.get_opts(key, GetOptions { range, ..GetOptions::default() });
            let mut chunks = response.await?.into_stream();
            let mut filled = 0;
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk?;
                to[filled..filled + chunk.len()].copy_from_slice(&chunk);
                filled += chunk.len();
            }
            if filled == to.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        })
    }

    fn another(&self) -> Option<Box<dyn Reader>> {
        let Self { runtime, object: (store, key) } = self;
        let object = (Arc::clone(store), key.clone());
        Some(Box::new(Self { runtime: Arc::clone(runtime), object }))
    }
}
