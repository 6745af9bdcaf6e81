//! Compile-time checks of which public types are `Send` and `Sync`, as programs rely on.
//!
//! ```text
//!   Send + Sync   Engine, File, EngineBuilder, OpenOptions, settings, counters, errors: shared by
//!                 all threads; futures of writes and owned pages, too
//!   Send          ReadStream, OwnedRead: one reader, which may move from thread to thread
//!   neither       PageGuard: it borrows a stream; CompletionQueue: it belongs to its loop
//! ```

use crate::*;

const fn is_send<T: Send>() {}
const fn is_send_and_sync<T: Send + Sync>() {}
const fn is_static<T: 'static>() {}

const _: () = {
    is_send_and_sync::<Engine>();
    is_send_and_sync::<EngineBuilder>();
    is_send_and_sync::<File>();
    is_send_and_sync::<OpenOptions>();
    is_send_and_sync::<EngineSetting>();
    is_send_and_sync::<Counters>();
    is_send_and_sync::<Advice>();
    is_send_and_sync::<FileExtent>();
    is_send_and_sync::<IoBackend>();
    is_send_and_sync::<SourceIdentity>();
    is_send_and_sync::<Blocking<std::io::Empty>>();

    is_send_and_sync::<PageRef>();
    is_send_and_sync::<PageRange>();
    is_send_and_sync::<PageParts<'_>>();

    // Errors can be put into a `Box<dyn Error + Send + Sync>` and sent through channels.
    is_send_and_sync::<EngineError>();
    is_send_and_sync::<OpenError>();
    is_send_and_sync::<ReadError>();
    is_send_and_sync::<WriteError>();
    is_send_and_sync::<SettingError>();
    #[cfg(feature = "lab")]
    is_send_and_sync::<lab::ReplayError>();

    // One reader each, with unshared state between its reads.
    is_send::<ReadStream>();
    is_send::<FileCursor>();
    is_send::<ReadAt<'_>>();
    is_send::<OwnedRead>();
    is_send::<ReadRanges>();
    is_send::<RangeStream>();
    is_send::<RangeIter>();
    is_send::<ReadInto<Vec<u8>>>();
    #[cfg(any(feature = "futures-io", feature = "tokio"))]
    is_send::<AsyncCursor>();
    is_send::<Reply>();

    // Writes keep no thread-bound state: any thread may poll them.
    is_send_and_sync::<WriteAt<'_>>();
    is_send_and_sync::<WriteAllAt<'_>>();
    is_send_and_sync::<WriteFrom<Vec<u8>>>();
    is_send_and_sync::<SyncData>();
    is_send_and_sync::<SetLen>();
    is_send_and_sync::<Append<'_>>();
    is_send_and_sync::<AppendFrom<Vec<u8>>>();

    is_static::<Engine>();
    is_static::<File>();
    is_static::<FileCursor>();
    is_static::<PageRef>();
    is_static::<PageRange>();
    is_static::<ReadStream>();
    is_static::<OwnedRead>();
    is_static::<ReadRanges>();
    is_static::<RangeStream>();
    is_static::<RangeIter>();
    is_static::<ReadInto<Vec<u8>>>();
    is_static::<WriteFrom<Vec<u8>>>();
    is_static::<SyncData>();
    is_static::<SetLen>();
    is_static::<AppendFrom<Vec<u8>>>();
    is_static::<Reply>();
};
