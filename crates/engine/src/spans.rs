//! Spans and events for the `tracing` crate, behind the feature of that name: a span for each miss
//! (DEBUG), and an event for each decision and request (TRACE), with the target `foreread`.
//! Subscribers are never called under the engine's mutex. Hits, and builds without the feature, pay
//! nothing.

use crate::handle::Handle;

#[cfg(feature = "tracing")]
pub(crate) use with_feature::{MissSpan, TracedEvents, is_wanted};
#[cfg(not(feature = "tracing"))]
pub(crate) use without_feature::{MissSpan, TracedEvents, is_wanted};

#[cfg(feature = "tracing")]
mod with_feature {
    use foreread_core::path::IoPath;
    use foreread_core::sched::Op;
    use foreread_core::trace::{EventKind, TraceEvent};

    use super::Handle;

    /// The target of each span and event.
    const TARGET: &str = "foreread";

    /// Returns true if a subscriber is interested in events of decisions and requests.
    #[inline]
    pub(crate) fn is_wanted() -> bool {
        tracing::enabled!(target: TARGET, tracing::Level::TRACE)
    }

    /// Spans a read from its first miss to its end.
    #[derive(Debug)]
    pub(crate) struct MissSpan(tracing::Span);

    impl MissSpan {
        pub(crate) fn new(handle: &Handle, offset: u64, bytes: usize) -> Self {
            let path = tracing::field::display(handle.path.display());
            Self(tracing::debug_span!(target: TARGET, "miss", path, offset, bytes))
        }

        /// Runs `work` in the span.
        pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
            self.0.in_scope(work)
        }
    }

    /// Events that subscribers receive as soon as the mutex is free.
    #[derive(Debug)]
    pub(crate) struct TracedEvents(Vec<TraceEvent>);

    impl TracedEvents {
        pub(crate) const NONE: Self = Self(Vec::new());

        pub(crate) fn take(path: &mut IoPath) -> Self {
            Self(std::iter::from_fn(|| path.poll_trace()).collect())
        }

        pub(crate) fn emit(self) {
            for event in self.0 {
                emit(&event);
            }
        }
    }

    fn emit(event: &TraceEvent) {
        let at = event.at.0;
        match event.what {
            EventKind::Decided { stream, decided } => {
                let pattern = decided.decision.pattern.name();
                let window = decided.decision.window;
                let (page, pages) = (window.start.0, window.size.0);
                let submitted = decided.submitted.0;
                tracing::trace!(target: TARGET, at, ?stream, pattern, page, pages, submitted,
                    "decided");
            }
            EventKind::Dispatched { device, op, start, sectors } => {
                let op = match op {
                    Op::Read => "read",
                    Op::Write => "write",
                };
                let (sector, sectors) = (start.0, sectors.0);
                tracing::trace!(target: TARGET, at, ?device, op, sector, sectors, "dispatched");
            }
            EventKind::Arrived { device, start, pages } => {
                let (sector, pages) = (start.0, pages.0);
                tracing::trace!(target: TARGET, at, ?device, sector, pages, "arrived");
            }
            EventKind::Completed { device, start, good, pages } => {
                let (sector, good, pages) = (start.0, good.0, pages.0);
                tracing::trace!(target: TARGET, at, ?device, sector, good, pages, "completed");
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod without_feature {
    use foreread_core::path::IoPath;

    use super::Handle;

    #[inline]
    pub(crate) const fn is_wanted() -> bool {
        false
    }

    #[derive(Debug)]
    pub(crate) struct MissSpan;

    impl MissSpan {
        #[inline]
        pub(crate) const fn new(_: &Handle, _offset: u64, _bytes: usize) -> Self {
            Self
        }

        #[inline]
        pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    #[derive(Debug)]
    pub(crate) struct TracedEvents;

    impl TracedEvents {
        pub(crate) const NONE: Self = Self;

        #[inline]
        pub(crate) const fn take(_: &mut IoPath) -> Self {
            Self
        }

        #[inline]
        pub(crate) const fn emit(self) {}
    }
}
