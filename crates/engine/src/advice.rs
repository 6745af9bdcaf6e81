//! Advice: what a program knows about its reads and the policy cannot.
//!
//! In:    advice of a handle or a stream, ranges that will be needed or will not.
//! Out:   what the core is told; pages asked for, or forgotten.
//! Never: a wait for a device.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use foreread_core::prefetch::Advice as Pattern;
use foreread_core::units::{ByteCount, PAGE_SIZE, PageIndex};

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
            self.file.dont_need(&range);
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
            asked += driver.will_need(file.id, pages_of(&range));
        }
        driver.start_all();
        Ok(asked)
    }
}

impl FileShared {
    /// Forgets the pages that these bytes touch.
    pub(crate) fn invalidate(&self, range: &Range<u64>) {
        if !self.engine.is_forked() {
            self.engine.drive().invalidate(self.id, pages_of(range));
        }
    }

    /// Forgets the pages that these bytes cover.
    pub(crate) fn dont_need(&self, range: &Range<u64>) {
        if self.engine.is_forked() {
            return;
        }
        let mut driver = self.engine.drive();
        let len = ByteCount(range.end.saturating_sub(range.start));
        let pages = driver.path.whole_pages(self.id, ByteCount(range.start), len);
        driver.invalidate(self.id, pages);
    }
}

/// The pages that a range of bytes touches.
fn pages_of(range: &Range<u64>) -> Range<PageIndex> {
    if range.is_empty() {
        // Inside of a page, too, there is nothing.
        return PageIndex(0)..PageIndex(0);
    }
    PageIndex(range.start / PAGE_SIZE)..PageIndex(range.end.div_ceil(PAGE_SIZE))
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
    fn a_range_touches_the_pages_of_its_bytes() {
        let pages = |range| {
            let pages = pages_of(&range);
            pages.start.0..pages.end.0
        };
        assert_eq!(pages(1..8193), 0..3);
        assert_eq!(pages(5..5), 0..0, "no byte touches no page");
        assert_eq!(pages(4096..8192), 1..2);
    }
}
