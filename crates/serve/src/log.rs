//! One line for each client that misbehaves, as far as a disk can take that.
//!
//! In:    lines.
//! Out:   the same to stderr, or to the given sink; of a flood, a few, and a count.
//! Never: more than a hundred lines in ten seconds, even in a flood.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callback that receives each line of the log.
pub(crate) type LogSink = Box<dyn Fn(&str) + Send + Sync>;

pub(crate) struct ClientLog {
    sink: LogSink,
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    /// Start of the current period.
    since: Option<Instant>,
    /// Lines in it.
    lines: u32,
    /// Lines that were not written.
    hidden: u64,
}

impl Default for ClientLog {
    fn default() -> Self {
        Self::to(Box::new(|line| {
            let mut stderr = io::stderr().lock();
            // There is no other place to report to.
            let _ = stderr.write_all(format!("foreread: {line}\n").as_bytes());
        }))
    }
}

impl ClientLog {
    pub(crate) fn to(sink: LogSink) -> Self {
        Self { sink, state: Mutex::default() }
    }

    pub(crate) fn line(&self, now: Instant, line: &dyn fmt::Display) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.since.is_none_or(|since| now.saturating_duration_since(since) >= PERIOD) {
            let hidden = std::mem::take(&mut state.hidden);
            (state.since, state.lines) = (Some(now), 0);
            if hidden > 0 {
                (self.sink)(&format!("{hidden} similar lines suppressed"));
            }
        }
        state.lines += 1;
        if state.lines <= MOST_LINES {
            (self.sink)(&line.to_string());
        } else {
            state.hidden += 1;
        }
    }
}

impl fmt::Debug for ClientLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLog").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Last error of an operation that is retried: each error is worth one line until a retry succeeds.
#[derive(Debug, Default)]
pub(crate) struct RetriedError {
    last: Option<String>,
}

impl RetriedError {
    /// Returns true if the attempt before this one did not fail with the same error.
    pub(crate) fn is_new(&mut self, error: &io::Error) -> bool {
        let error = Some(error.to_string());
        std::mem::replace(&mut self.last, error.clone()) != error
    }

    pub(crate) fn succeeded(&mut self) {
        self.last = None;
    }
}

/// A line is a hundred bytes: less than 100 MB a day.
const MOST_LINES: u32 = 100;
const PERIOD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A server without free descriptors tried ten times a second, each with a line: these took the
    /// places of the lines about clients.
    #[test]
    fn a_retried_error_is_new_once_until_a_retry_succeeds() {
        let (files, memory) = (io::Error::from_raw_os_error(24), io::Error::from_raw_os_error(12));
        let mut failures = RetriedError::default();
        let news = [&files, &files, &memory, &memory].map(|error| failures.is_new(error));
        assert_eq!(news, [true, false, true, false]);
        failures.succeeded();
        assert!(failures.is_new(&memory) && !failures.is_new(&memory));
    }

    #[test]
    fn a_flood_of_lines_is_a_few_and_a_count() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&lines);
        let log = ClientLog::to(Box::new(move |line| taken.lock().unwrap().push(line.to_owned())));
        let start = crate::clock::now();
        for number in 0..1000 {
            log.line(start, &number);
        }
        assert_eq!(lines.lock().unwrap().len(), 100);
        log.line(start + PERIOD, &"later");
        let lines = lines.lock().unwrap();
        assert_eq!(lines[100], "900 similar lines suppressed");
        assert_eq!(lines[101..], ["later"]);
    }
}
