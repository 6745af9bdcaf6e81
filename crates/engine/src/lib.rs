//! The I/O path that programs lose when they leave the page cache: read-ahead, a cache that knows
//! its readers, write-back, and I/O that is queued and merged, over `O_DIRECT` and io_uring.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = foreread::Engine::builder().memory(512 << 20).build()?;
//! let file = engine.open("/var/lib/db/table")?; // a file or a block device
//!
//! let mut page = vec![0; 8192];
//! let n = file.read_at(&mut page, 0)?; // each thread that reads is a stream of its own
//!
//! let scan = file.stream(); // or have one for each scan
//! scan.advise(foreread::Advice::Sequential);
//! scan.read_at(&mut page, 1 << 20)?; // offsets and lengths are in bytes, and need no alignment
//!
//! file.will_need([0..65536])?; // asked for at once
//! let header = scan.pin(0)?; // the page itself, without a copy
//! assert_eq!(header.len(), 4096);
//!
//! let options = foreread::OpenOptions::new().write(true);
//! let disk = engine.open_with("/var/lib/images/disk.img", &options)?;
//! disk.write_all_at(&page, 12345)?; // in memory, where reads find it
//! disk.sync_data()?; // durable on the device
//! # Ok(()) }
//! ```
//!
//! In:    paths, and reads and writes of any offset and length.
//! Out:   the file's bytes; hits at the cost of a look-up and a copy, misses ahead of their reader.
//!        What a flush has acknowledged survives a kill and a power cut.
//! Never: more memory for pages than its bound. A file that others write at the same time.
//!
//! Every decision is made by [`foreread_core`], which knows no clock and no file; this crate owns
//! the ring, the memory and all of the `unsafe`.

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod advice;
mod backend;
mod background;
mod builder;
mod cachestat;
mod counters;
mod delay;
mod driver;
mod driver_queue;
mod engine;
mod engine_state;
mod error;
mod extents;
#[cfg_attr(
    not(any(test, feature = "testing")),
    expect(dead_code, unreachable_pub, reason = "for tests")
)]
mod faults;
mod file;
mod file_state;
mod handle;
mod hits;
mod leader;
mod open_files;
mod open_options;
mod owned_read;
mod page_ref;
mod pins;
mod pool;
mod read_async;
mod reader;
mod ring;
mod settings;
mod source;
mod stream;
#[cfg_attr(
    not(any(test, feature = "testing")),
    expect(dead_code, unreachable_pub, reason = "for tests")
)]
mod volatile;
mod waiters;
mod write;

pub use advice::Advice;
pub use builder::{DEFAULT_MEMORY, EngineBuilder};
pub use cachestat::cached_pages;
pub use counters::Counters;
pub use delay::{Delay, DelayModel, ParseDelayError};
pub use engine::Engine;
pub use error::{
    EngineError, ForkedError, OpenError, ReadError, ReplayError, SettingError, WriteError,
};
pub use extents::FileExtent;
pub use file::File;
pub use foreread_core as core;
pub use foreread_core::path::{BadExtents, DeviceState, TooManyWeights, WriteMode};
pub use foreread_core::prefetch::{Policy, Rules};
pub use foreread_core::sched::{BadSetting, Choice};
pub use open_options::OpenOptions;
pub use owned_read::OwnedRead;
pub use page_ref::PageRef;
pub use read_async::ReadAt;
pub use ring::IoBackend;
pub use settings::EngineSetting;
pub use source::{Blocking, ReadRange, Reply, Source, SourceIdentity};
pub use stream::ReadStream;

/// Devices that fail, or lose power, on purpose: for the tests of this crate and of its users.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::faults::{Faults, Mishap};
    pub use crate::volatile::VolatileDisk;
}
