//! Measures the throughput of a store: parallel requests for parts of 8 MiB, discarding the bytes.
//!
//! In:    an object, a number of connections.
//! Out:   bytes of complete parts and their time.
//! Never: a partial part: when the time is over, the last parts still complete and count.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foreread_object::object_store::{GetOptions, GetRange};
use futures_util::StreamExt as _;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::reader::{BareObject, bare, runtime};

/// Parallel requests that have not started.
pub(crate) struct Gets {
    runtime: Runtime,
    object: BareObject,
    connections: u64,
    len: u64,
}

impl Gets {
    pub(crate) fn new(target: &str, connections: u64) -> Result<Self, Box<dyn Error>> {
        let url = target.strip_prefix("get:").ok_or("the limit is one of get:URL")?;
        let (runtime, object) = (runtime()?, bare(url)?);
        let head = GetOptions { head: true, ..GetOptions::default() };
        let len = runtime.block_on(object.0.get_opts(&object.1, head))?.meta.size;
        if len < PART * connections {
            return Err(format!("{url} is shorter than {connections} parts of 8 MiB").into());
        }
        Ok(Self { runtime, object, connections, len })
    }

    /// Requests parts one after the other on each connection, until [`TIME`] has passed.
    pub(crate) fn run(self) -> Result<(u64, f64), Box<dyn Error>> {
        let Self { runtime, object: (store, key), connections, len } = self;
        let next = Arc::new(AtomicU64::new(0));
        let started = runtime.block_on(async { Instant::now() });
        let tasks: Vec<_> = (0..connections)
            .map(|_| {
                let (store, key, next) = (Arc::clone(&store), key.clone(), Arc::clone(&next));
                runtime.spawn(async move {
                    let mut bytes = 0;
                    while started.elapsed() < TIME {
                        let part = next.fetch_add(1, Ordering::Relaxed) % (len / PART);
                        let range = Some(GetRange::Bounded(part * PART..(part + 1) * PART));
                        let options = GetOptions { range, ..GetOptions::default() };
                        let mut chunks = store.get_opts(&key, options).await?.into_stream();
                        while let Some(chunk) = chunks.next().await {
                            bytes += chunk?.len() as u64;
                        }
                    }
                    Ok::<_, foreread_object::object_store::Error>(bytes)
                })
            })
            .collect();
        let mut bytes = 0;
        for task in tasks {
            bytes += runtime.block_on(task)??;
        }
        Ok((bytes, started.elapsed().as_secs_f64()))
    }
}

const PART: u64 = 8 << 20;

/// Time after which no part begins.
const TIME: Duration = Duration::from_millis(800);
