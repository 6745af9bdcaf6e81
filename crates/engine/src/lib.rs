//! User-space page cache, read-ahead and I/O scheduler for direct I/O (`O_DIRECT`, io_uring), with
//! write-back and merging of adjacent requests.
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
//! Out:   the file's bytes. A cache hit costs a lookup and a copy; read-ahead fetches pages before
//!        their reader needs them. Data acknowledged by a flush survives a kill and a power cut.
//! Never: more memory for pages than the bound. A file that other programs write at the same time.
//!
//! [`foreread_core`] makes every decision, without clock or files; this crate owns the ring, the
//! memory and all of the `unsafe`.

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples in the library guide compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/library.md")]
struct LibraryPage;

mod advice;
#[cfg(any(feature = "futures-io", feature = "tokio"))]
mod async_cursor;
mod backend;
mod background;
mod blocking_pool;
mod borrowed_write;
mod builder;
mod cachestat;
mod completions;
mod copy_racing;
mod counters;
mod deferred_wake;
#[cfg_attr(
    not(feature = "lab"),
    expect(unreachable_pub, reason = "only the feature lab exports it")
)]
mod delay;
mod driver;
mod driver_mailbox;
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
mod file_cursor;
mod file_device;
mod file_ext;
mod file_state;
mod first_touch;
mod handle;
mod hits;
mod id_hasher;
#[cfg(feature = "lab")]
pub mod lab;
mod leader;
mod len_async;
mod open_file;
mod open_files;
mod open_options;
mod owned_bytes;
mod owned_read;
mod owned_write;
mod page_guard;
mod page_range;
mod page_ref;
mod pin_methods;
mod pins;
mod pool;
mod range_reads;
mod read_async;
mod read_exact;
mod read_into;
mod read_observer;
mod reader;
#[cfg(feature = "remember")]
mod remember;
#[cfg(feature = "remember")]
mod remember_methods;
mod ring;
mod settings;
mod source;
mod spans;
mod stream;
mod task_step;
mod thread_safety;
#[cfg_attr(
    not(any(test, feature = "testing")),
    expect(dead_code, unreachable_pub, reason = "for tests")
)]
mod volatile;
mod wait_table;
mod waiters;
mod write;
mod write_async;

pub use advice::Advice;
#[cfg(any(feature = "futures-io", feature = "tokio"))]
pub use async_cursor::AsyncCursor;
pub use builder::{DEFAULT_MEMORY, EngineBuilder};
pub use cachestat::cached_pages;
pub use completions::CompletionQueue;
pub use counters::Counters;
pub use engine::Engine;
pub use error::{
    EngineError, OpenError, OpenErrorKind, ReadError, ReadErrorKind, SettingError, WriteError,
    WriteErrorKind,
};
pub use extents::FileExtent;
pub use file::File;
pub use file_cursor::FileCursor;
pub use file_device::FileDevice;
pub use foreread_core::cache::CacheStats;
pub use foreread_core::device_model::DeviceModel;
pub use foreread_core::path::{DeviceState, InvalidExtents, TooManyWeights, WriteMode};
pub use foreread_core::prefetch::{LearntCost, LearntDevice, Policy};
pub use foreread_core::sched::{InvalidSetting, SchedulerKind, Submitter};
pub use foreread_core::stats::Stats as PathStats;
pub use foreread_core::units::{Nanos, PAGE_SIZE, Pages};
pub use foreread_core::windows::Windows;
pub use len_async::{Append, AppendFrom, SetLen};
pub use open_options::OpenOptions;
pub use owned_read::OwnedRead;
pub use page_guard::PageGuard;
pub use page_range::{PageParts, PageRange};
pub use page_ref::PageRef;
pub use range_reads::{RangeItem, RangeIter, RangeStream, ReadRanges};
pub use read_async::ReadAt;
pub use read_into::ReadInto;
pub use read_observer::ReadEvent;
#[cfg(feature = "remember")]
pub use remember::{
    DeviceRecord, KeptRecord, device_records, forget_device_record, write_device_record,
};
pub use ring::{IoBackend, RingKind};
pub use settings::EngineSetting;
pub use source::{Blocking, Joined, ReadRange, Reply, Source, SourceIdentity};
pub use stream::ReadStream;
pub use write_async::{SyncData, WriteAllAt, WriteAt, WriteFrom};

/// Devices that inject errors and power cuts, for the tests of this crate and of its users.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::faults::{Faults, Mishap};
    pub use crate::volatile::VolatileDisk;
}
