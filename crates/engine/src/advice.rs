//! Advice: what a program knows about its reads and the policy cannot.
//!
//! In:    advice of a handle or a stream, ranges that will be needed or will not.
//! Out:   what the core is told; pages asked for, or forgotten.
//! Never: a wait for a device.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use foreread_core::readahead::Advice as Pattern;
use foreread_core::units::{PAGE_SIZE, PageIndex, Pages};

use crate::error::ReadError;
use crate::file::{FileShared, Handle};

/// What is known about the reads to come, as `posix_fadvise(2)` has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Advice {
    /// Nothing: the policy finds out. The default; it also ends [`Self::NoReuse`].
    Normal,
    /// They go forward: windows are twice as large.
    Sequential,
    /// They follow no order: what is asked for is read, and nothing ahead of it.
    Random,
    /// Pages are used once: a use by this reader does not make them stay longer.
    NoReuse,
    /// These bytes are not needed any more. Whole pages in the range are forgotten.
    DontNeed(Range<u64>),
}

/// Advice of a handle, or of a stream: a pattern, and whether pages are used once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Advised {
    pub(crate) pattern: Pattern,
    pub(crate) is_used_once: bool,
}

/// The same for all threads that read by one handle.
#[derive(Debug, Default)]
pub(crate) struct HandleAdvice(AtomicU8);

/// Whether pages that a range covers in part belong to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Edges {
    Included,
    Excluded,
}

impl Advised {
    pub(crate) fn with(self, advice: &Advice) -> Self {
        match advice {
            Advice::Normal => Self::default(),
            Advice::Sequential => Self { pattern: Pattern::Sequential, ..self },
            Advice::Random => Self { pattern: Pattern::Random, ..self },
            Advice::NoReuse => Self { is_used_once: true, ..self },
            Advice::DontNeed(_) => self,
        }
    }
}

impl HandleAdvice {
    /// Any thread may have just changed it; a read takes whatever it finds.
    #[inline]
    pub(crate) fn get(&self) -> Advised {
        Advised::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// What one thread adds, none that adds something else at the same time takes away.
    pub(crate) fn add(&self, advice: &Advice) {
        let with = |bits| Some(Advised::from_bits(bits).with(advice).bits());
        // It always has a next value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
    }
}

impl Advised {
    fn from_bits(bits: u8) -> Self {
        let pattern = match bits & PATTERN {
            SEQUENTIAL => Pattern::Sequential,
            RANDOM => Pattern::Random,
            _ => Pattern::Normal,
        };
        Self { pattern, is_used_once: bits & USED_ONCE != 0 }
    }

    fn bits(self) -> u8 {
        let pattern = match self.pattern {
            Pattern::Normal => 0,
            Pattern::Sequential => SEQUENTIAL,
            Pattern::Random => RANDOM,
        };
        pattern | if self.is_used_once { USED_ONCE } else { 0 }
    }
}

impl Handle {
    pub(crate) fn advise(&self, advice: Advice) {
        self.advice.add(&advice);
        if let Advice::DontNeed(range) = advice {
            self.file.forget(range, Edges::Excluded);
        }
    }

    pub(crate) fn will_need(
        &self,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<u64, ReadError> {
        let file = &self.file;
        if file.engine.is_forked() {
            return Err(ReadError::Forked { path: self.path.clone() });
        }
        // Before the mutex is taken: what gives the ranges may read by this engine to find them.
        let ranges: Vec<_> = ranges.into_iter().collect();
        let mut driver = file.engine.drive();
        if let Some(errno) = driver.broken() {
            let source = io::Error::from_raw_os_error(errno);
            return Err(ReadError::Io { path: self.path.clone(), offset: 0, source });
        }
        driver.take_posts(&file.engine.inbox);
        let mut asked = 0;
        for range in ranges {
            // All of it first, then one submission.
            asked += driver.will_need(file.id, pages_of(&range, Edges::Included));
        }
        driver.start_all();
        Ok(asked)
    }
}

impl FileShared {
    /// Forgets the pages of these bytes.
    pub(crate) fn forget(&self, range: Range<u64>, edges: Edges) {
        if self.engine.is_forked() {
            return;
        }
        let mut pages = pages_of(&range, edges);
        let mut driver = self.engine.drive();
        if edges == Edges::Excluded && range.end >= self.len().0 {
            // A last page that ends with the file is whole.
            pages.end = PageIndex(self.len().pages_up().0);
        }
        driver.invalidate(self.id, pages);
    }
}

/// The pages of a range of bytes: those that it touches, or those that it covers.
fn pages_of(range: &Range<u64>, edges: Edges) -> Range<PageIndex> {
    let (start, end) = match edges {
        // Inside of a page, too, there is nothing.
        Edges::Included if range.is_empty() => (0, 0),
        Edges::Included => (range.start / PAGE_SIZE, range.end.div_ceil(PAGE_SIZE)),
        Edges::Excluded => (range.start.div_ceil(PAGE_SIZE), range.end / PAGE_SIZE),
    };
    PageIndex(start)..PageIndex(end).max(PageIndex(start) + Pages::ZERO)
}

const PATTERN: u8 = 3;
const SEQUENTIAL: u8 = 1;
const RANDOM: u8 = 2;
const USED_ONCE: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_of_a_handle_is_read_as_it_was_given() {
        for pattern in [Pattern::Normal, Pattern::Sequential, Pattern::Random] {
            for is_used_once in [false, true] {
                let advised = Advised { pattern, is_used_once };
                assert_eq!(Advised::from_bits(advised.bits()), advised);
            }
        }
        let once = Advised::default().with(&Advice::NoReuse).with(&Advice::Random);
        assert!(once.is_used_once && once.pattern == Pattern::Random);
        assert_eq!(once.with(&Advice::Normal), Advised::default());
    }

    #[test]
    fn advice_of_two_threads_at_a_time_is_kept() {
        let handle = HandleAdvice::default();
        let both = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let (handle, both) = (&handle, &both);
            scope.spawn(move || {
                for _ in 0..20_000 {
                    both.wait();
                    handle.add(&Advice::NoReuse);
                    both.wait();
                }
            });
            let mut lost = 0;
            for _ in 0..20_000 {
                handle.add(&Advice::Normal);
                both.wait();
                handle.add(&Advice::Random);
                both.wait();
                let advised = handle.get();
                lost += u32::from(!advised.is_used_once || advised.pattern != Pattern::Random);
            }
            assert_eq!(lost, 0);
        });
    }

    #[test]
    fn a_range_covers_fewer_pages_than_it_touches() {
        let pages = |range, edges| {
            let pages = pages_of(&range, edges);
            pages.start.0..pages.end.0
        };
        assert_eq!(pages(1..8193, Edges::Included), 0..3);
        assert_eq!(pages(5..5, Edges::Included), 0..0, "no byte touches no page");
        assert_eq!(pages(1..8193, Edges::Excluded), 1..2);
        assert_eq!(pages(1..4095, Edges::Excluded), 1..1, "none");
        assert_eq!(pages(4096..8192, Edges::Included), 1..2);
        assert_eq!(pages(4096..8192, Edges::Excluded), 1..2);
    }
}
