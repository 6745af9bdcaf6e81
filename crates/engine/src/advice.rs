//! Access-pattern hints of handles and streams. They are read without a lock: each read uses the
//! advice set at that moment.

use std::sync::atomic::{AtomicU8, Ordering};

use foreread_core::prefetch::Advice as Pattern;

/// Expected pattern of future reads, like the advice of `posix_fadvise(2)`.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let index = engine.open("/var/lib/db/index")?;
/// index.advise(foreread::Advice::Random); // for every thread that reads by this handle
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Advice {
    /// The policy detects the pattern. This is the default; it also cancels [`Self::NoReuse`].
    Normal,
    /// Reads move forward: read-ahead windows are twice as large.
    Sequential,
    /// Reads follow no order: no read-ahead.
    Random,
    /// Pages are used once: a read by this reader does not keep them in the cache longer.
    NoReuse,
}

/// Combined advice of a handle or a stream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Advised {
    pub(crate) pattern: Pattern,
    pub(crate) is_used_once: bool,
}

/// Advice shared by all threads that read through one handle.
#[derive(Debug, Default)]
pub(crate) struct HandleAdvice(AtomicU8);

impl Advised {
    pub(crate) fn with(self, advice: Advice) -> Self {
        match advice {
            Advice::Normal => Self::default(),
            Advice::Sequential => Self { pattern: Pattern::Sequential, ..self },
            Advice::Random => Self { pattern: Pattern::Random, ..self },
            Advice::NoReuse => Self { is_used_once: true, ..self },
        }
    }
}

impl HandleAdvice {
    /// Returns the current advice, which any thread may change at any time.
    #[inline]
    pub(crate) fn get(&self) -> Advised {
        Advised::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Adds `advice` atomically: advice that several threads add at once is all kept.
    pub(crate) fn add(&self, advice: Advice) {
        let with = |bits| Some(Advised::from_bits(bits).with(advice).bits());
        // `with` always returns a value, so the update cannot fail.
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
        let once = Advised::default().with(Advice::NoReuse).with(Advice::Random);
        assert!(once.is_used_once && once.pattern == Pattern::Random);
        assert_eq!(once.with(Advice::Normal), Advised::default());
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
                    handle.add(Advice::NoReuse);
                    both.wait();
                }
            });
            let mut lost = 0;
            for _ in 0..20_000 {
                handle.add(Advice::Normal);
                both.wait();
                handle.add(Advice::Random);
                both.wait();
                let advised = handle.get();
                lost += u32::from(!advised.is_used_once || advised.pattern != Pattern::Random);
            }
            assert_eq!(lost, 0);
        });
    }
}
