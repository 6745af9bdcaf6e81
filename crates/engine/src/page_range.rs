//! Several adjacent pages, pinned and read in place: part by part, as one slice if their frames are
//! adjacent, or copied on request.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use crate::engine_state::EngineState;
use crate::page_ref::PageRef;
use crate::pins::PinnedFrame;
use crate::pool::PAGE;

/// A range of a file in the cache's own memory. Returned by
/// [`File::pin_range`](crate::File::pin_range) and
/// [`ReadStream::pin_range`](crate::ReadStream::pin_range).
///
/// Each page is pinned as by a [`PageRef`], and counts against the same limit.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let block = engine.open("/var/lib/db/table")?.pin_range(16384..32768)?;
/// let mut copy = Vec::new();
/// let bytes = match block.contiguous() {
///     Some(bytes) => bytes,
///     None => {
///         copy.resize(block.len(), 0);
///         block.copy_to(&mut copy);
///         &copy
///     }
/// };
/// assert_eq!(bytes.len(), block.parts().map(<[u8]>::len).sum::<usize>());
/// # Ok(()) }
/// ```
#[must_use = "the pages are pinned until this is dropped"]
pub struct PageRange {
    engine: Arc<EngineState>,
    pages: Vec<PinnedFrame>,
    /// Permits held from the engine's pin budget.
    permits: u64,
    /// Offset of the first byte in the first page. All pages but the last are used to their end.
    from: usize,
    len: usize,
}

/// The parts of a [`PageRange`], one per page, in file order.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let block = engine.open("/var/lib/db/table")?.pin_range(16384..32768)?;
/// for part in &block {
///     println!("{} bytes", part.len());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PageParts<'r> {
    range: &'r PageRange,
    next: usize,
}

impl PageRange {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes: the range was empty, or began at the end of the file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns an iterator over the bytes, page by page.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// let range = file.pin_range(1000..20_000)?;
    /// let sum: u64 = range.parts().flatten().map(|byte| u64::from(*byte)).sum();
    /// println!("{sum}");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn parts(&self) -> PageParts<'_> {
        PageParts { range: self, next: 0 }
    }

    /// Returns all bytes as one slice, if the pages are adjacent in memory and in this order. They
    /// always are for a range within one page, and often for pages that one request read into an
    /// empty cache.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// let range = file.pin_range(0..8192)?;
    /// let bytes = match range.contiguous() {
    ///     Some(bytes) => bytes.to_vec(), // parsed in place in a real program
    ///     None => {
    ///         let mut bytes = vec![0; range.len()];
    ///         range.copy_to(&mut bytes);
    ///         bytes
    ///     }
    /// };
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn contiguous(&self) -> Option<&[u8]> {
        let Some(first) = self.pages.first() else { return Some(&[]) };
        let in_a_row =
            (first.frame.0..).zip(&self.pages).all(|(frame, page)| page.frame.0 == frame);
        let pages = in_a_row.then(|| self.engine.pool.pinned_pages(first.frame, self.pages.len()));
        pages.map(|bytes| &bytes[self.from..self.from + self.len])
    }

    /// Copies all bytes to the start of `to`.
    ///
    /// # Panics
    ///
    /// If `to` is shorter than [`Self::len`].
    pub fn copy_to(&self, to: &mut [u8]) {
        assert!(to.len() >= self.len, "a range of {} bytes fits its copy", self.len);
        let mut rest = to;
        for part in self.parts() {
            let (now, later) = rest.split_at_mut(part.len());
            now.copy_from_slice(part);
            rest = later;
        }
    }

    /// Splits the range into pages, each with a separate pin.
    #[must_use]
    pub fn into_pages(mut self) -> Vec<PageRef> {
        let ends: Vec<_> = (0..self.pages.len()).map(|index| self.bytes_in(index)).collect();
        let pages = mem::take(&mut self.pages);
        self.permits -= pages.len() as u64;
        let owned = |(page, bytes)| PageRef::new(Arc::clone(&self.engine), page, bytes);
        pages.into_iter().zip(ends).map(owned).collect()
    }

    /// Creates a range without pages or permits.
    pub(crate) fn empty(engine: &Arc<EngineState>) -> Self {
        Self { engine: Arc::clone(engine), pages: Vec::new(), permits: 0, from: 0, len: 0 }
    }

    /// Takes permits up to a total of `count`. Returns false if the budget has too few.
    pub(crate) fn take_permits(&mut self, count: u64) -> bool {
        let lacking = count.saturating_sub(self.permits);
        let budget = self.engine.table.pin_budget();
        let taken = budget.try_take(lacking);
        if taken < lacking {
            budget.give_back(taken);
            return false;
        }
        self.permits += taken;
        true
    }

    /// Takes over a permit that the caller has acquired.
    pub(crate) fn take_over_permit(&mut self) {
        self.permits += 1;
    }

    /// Adds at most `most` bytes of a page, from byte `from` on, and returns the number added.
    pub(crate) fn push(&mut self, page: PinnedFrame, from: usize, most: usize) -> usize {
        let len = (PAGE - from).min(most);
        assert!((self.pages.len() as u64) < self.permits, "a pin has a permit");
        assert!(self.pages.is_empty() || from == 0, "only the first page begins inside");
        if self.pages.is_empty() {
            self.from = from;
        }
        debug_assert_eq!(self.from + self.len, self.pages.len() * PAGE + from, "pages in a row");
        self.pages.push(page);
        self.len += len;
        len
    }

    /// Cuts the range to `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        let pages = if self.len == 0 { 0 } else { (self.from + self.len).div_ceil(PAGE) };
        for page in self.pages.drain(pages..) {
            page.unpin(&self.engine);
        }
    }

    /// Unpins all pages, and keeps the permits.
    pub(crate) fn unpin_all(&mut self) {
        self.truncate(0);
    }

    /// Returns the only page without an owner, and leaves its permit to the caller. None if there
    /// is no page.
    pub(crate) fn into_one_frame(mut self) -> Option<(PinnedFrame, Range<usize>)> {
        debug_assert!(self.pages.len() <= 1, "a range within a page lies in one page");
        let page = self.pages.pop()?;
        self.permits -= 1;
        Some((page, self.from..self.from + self.len))
    }

    /// Returns the range of bytes used in the page at `index`.
    fn bytes_in(&self, index: usize) -> Range<usize> {
        let from = if index == 0 { self.from } else { 0 };
        from..(self.from + self.len - index * PAGE).min(PAGE)
    }
}

impl Drop for PageRange {
    fn drop(&mut self) {
        self.unpin_all();
        if self.permits > 0 {
            self.engine.table.pin_budget().give_back(self.permits);
        }
    }
}

impl fmt::Debug for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageRange").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'r> Iterator for PageParts<'r> {
    type Item = &'r [u8];

    fn next(&mut self) -> Option<&'r [u8]> {
        let page = self.range.pages.get(self.next)?;
        let bytes = self.range.bytes_in(self.next);
        self.next += 1;
        Some(&self.range.engine.pool.pinned_page(page.frame)[bytes])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.range.pages.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for PageParts<'_> {}

impl<'r> IntoIterator for &'r PageRange {
    type Item = &'r [u8];
    type IntoIter = PageParts<'r>;

    fn into_iter(self) -> PageParts<'r> {
        self.parts()
    }
}

/// Shares the memory without a copy, if the pages are adjacent. Otherwise returns the range as the
/// error; its pages ([`PageRange::into_pages`]) can become one `Bytes` each.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let block = engine.open("/var/lib/db/table")?.pin_range(16384..32768)?;
/// let parts: Vec<bytes::Bytes> = match bytes::Bytes::try_from(block) {
///     Ok(bytes) => vec![bytes],
///     Err(block) => block.into_pages().into_iter().map(bytes::Bytes::from).collect(),
/// };
/// # let _ = parts;
/// # Ok(()) }
/// ```
#[cfg(feature = "bytes")]
impl TryFrom<PageRange> for bytes::Bytes {
    type Error = PageRange;

    fn try_from(range: PageRange) -> Result<Self, PageRange> {
        struct Contiguous(PageRange);

        impl AsRef<[u8]> for Contiguous {
            fn as_ref(&self) -> &[u8] {
                self.0.contiguous().expect("frames stay where they are")
            }
        }

        match range.contiguous() {
            Some([]) => Ok(Self::new()),
            Some(_) => Ok(Self::from_owner(Contiguous(range))),
            None => Err(range),
        }
    }
}
