//! An owned pin: a page that is read in place and borrows nothing. The page is neither changed,
//! evicted nor freed while it is pinned; dropping the pin returns its permit.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::engine_state::EngineState;
use crate::pins::PinnedFrame;
use crate::pool::PAGE;

/// Bytes of a file in the cache's own memory: a page, or its part from an offset to the end of the
/// page or of the file. Returned by [`File::pin`](crate::File::pin) and
/// [`PageGuard::into_owned`](crate::PageGuard::into_owned).
///
/// The page stays pinned until this is dropped. It is not evicted, and its bytes do not change: a
/// write to the file gives the page another frame, and this keeps the old bytes. It borrows
/// nothing: it can move to another thread, and outlive its stream and its file, which is closed
/// when its last handle is dropped. Like an open file it keeps the engine's memory alive: an engine
/// ends when its last handle, file and page are gone.
///
/// Pinned pages are part of the engine's memory bound: all threads together pin at most a quarter
/// of it at a time. Beyond that a pin fails with
/// [`ReadErrorKind::PinLimit`](crate::ReadErrorKind::PinLimit). To share one page, put it into an `Arc`, or
/// into a `bytes::Bytes` (feature `bytes`).
///
/// In a forked child the bytes are those at the time of the fork. Dropping the page there does not
/// affect the parent.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let file = engine.open("/var/lib/db/table")?;
/// let page = file.pin(8192)?; // no copy: the bytes lie in the cache until `page` is dropped
/// drop((file, engine));
/// let sum = std::thread::spawn(move || page.iter().map(|byte| u64::from(*byte)).sum::<u64>());
/// # let _ = sum;
/// # Ok(()) }
/// ```
#[must_use = "the page is pinned until this is dropped"]
pub struct PageRef {
    /// None at the end of a file, where there are no bytes.
    page: Option<(Arc<EngineState>, PinnedFrame)>,
    from: u16,
    to: u16,
}

const _: () = assert!(PAGE <= u16::MAX as usize);

impl PageRef {
    /// Takes over the pin and its permit of the budget.
    #[expect(clippy::cast_possible_truncation, reason = "both lie in a page of 4096 bytes")]
    pub(crate) fn new(
        engine: Arc<EngineState>,
        page: PinnedFrame,
        Range { start, end }: Range<usize>,
    ) -> Self {
        assert!(start <= end && end <= PAGE, "bytes {start}..{end} lie in one page");
        Self { page: Some((engine, page)), from: start as u16, to: end as u16 }
    }

    /// Creates a page without bytes, for the end of a file.
    pub(crate) fn empty() -> Self {
        Self { page: None, from: 0, to: 0 }
    }
}

impl Deref for PageRef {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.page {
            Some((engine, page)) => {
                let bytes = engine.pool.pinned_page(page.frame);
                &bytes[usize::from(self.from)..usize::from(self.to)]
            }
            None => &[],
        }
    }
}

impl AsRef<[u8]> for PageRef {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PageRef {
    #[inline]
    fn drop(&mut self) {
        if let Some((engine, page)) = &self.page {
            page.unpin(engine);
            engine.table.pin_budget().give_back(1);
        }
    }
}

impl fmt::Debug for PageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageRef").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Shares the page's memory without a copy; the last handle unpins the page.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let page = bytes::Bytes::from(engine.open("/var/lib/db/table")?.pin(8192)?);
/// let header = page.slice(..16); // keeps the page pinned, too
/// # let _ = header;
/// # Ok(()) }
/// ```
#[cfg(feature = "bytes")]
impl From<PageRef> for bytes::Bytes {
    fn from(page: PageRef) -> Self {
        if page.is_empty() { Self::new() } else { Self::from_owner(page) }
    }
}
