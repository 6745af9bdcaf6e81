//! Retries of one request, until it succeeds, fails for good, or reaches its deadline. An attempt
//! is never sent earlier than the store allows.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foreread::Nanos;
use foreread_core::store_requests::RetryPauses;
use object_store::Error;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error_text::with_sources;
use crate::last_failure::{LastFailure, PassingFailure};
use crate::options::{LONGEST_PAUSE, StoreOptions};

/// Deadline of a request.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    span: Duration,
    at: Arc<Mutex<Instant>>,
}

impl Deadline {
    /// Returns the deadline of a request that begins now.
    pub(crate) fn of(options: &StoreOptions) -> Self {
        let span = options.deadline;
        Self { span, at: Arc::new(Mutex::new(after(span))) }
    }

    /// Restarts the deadline when a reader joins the request: the reader waits as long as for a
    /// request of its own.
    pub(crate) fn restart(&self) {
        *self.lock() = after(self.span);
    }

    fn left(&self) -> Duration {
        self.lock().saturating_duration_since(Instant::now())
    }

    /// Returns the result of the future; None if it is not ready by the deadline.
    pub(crate) async fn bound<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        loop {
            let at = *self.lock();
            match timeout_at(at, future.as_mut()).await {
                Ok(value) => return Some(value),
                // A reader has joined in between and restarted the deadline.
                Err(_) if *self.lock() > at => {}
                Err(_) => return None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        // Nothing panics while it holds this lock.
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn after(span: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(span).unwrap_or_else(|| now + FAR)
}

/// Retry state of one request, shared by its copies and by the requests for the rest of a body.
#[derive(Clone, Debug)]
pub(crate) struct Retries(Arc<Mutex<RetryState>>);

/// Retries left, and the pause before the next one.
#[derive(Debug)]
struct RetryState {
    left: usize,
    done: usize,
    /// Retries left after failures to connect, as long as no attempt reached the server.
    left_unreached: usize,
    pauses: RetryPauses,
}

impl Retries {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        let (first, longest) = (nanos(options.first_pause), nanos(LONGEST_PAUSE));
        let pauses = RetryPauses::new(first, longest);
        let left_unreached = usize::MAX;
        let state = RetryState { left: options.retries, done: 0, left_unreached, pauses };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Creates the retries of an opening: a wrong name or port is reported after only a few of
    /// them.
    fn of_opening(options: &StoreOptions) -> Self {
        let retries = Self::new(options);
        retries.lock().left_unreached = UNREACHED_MAX;
        retries
    }

    /// Pauses before the next attempt. Returns false if no retry is left.
    pub(crate) async fn pause(&self, why: PassingFailure, deadline: &Deadline) -> bool {
        let time_left = deadline.left();
        let Some(pause) = self.lock().next(why, time_left) else { return false };
        match pause {
            Some(pause) => sleep(Duration::from_nanos(pause.0)).await,
            // The deadline ends the request, and its error names the last failure.
            None => {
                sleep(time_left).await;
                if deadline.left().is_zero() {
                    std::future::pending::<()>().await;
                }
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, RetryState> {
        // Nothing panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RetryState {
    /// Takes a retry; None if none is left. Returns the pause before it, or `Some(None)` if the
    /// pause would outlast the deadline.
    fn next(&mut self, why: PassingFailure, time_left: Duration) -> Option<Option<Nanos>> {
        let left = self.left.checked_sub(1)?;
        if why.is_unreached {
            self.left_unreached = self.left_unreached.checked_sub(1)?;
        } else {
            // The server is reachable, so a later failure to connect is an outage.
            self.left_unreached = usize::MAX;
        }
        self.left = left;
        self.done += 1;
        Some(self.pauses.next(why.asked.map(nanos), nanos(time_left), random()))
    }
}

/// Retries a request that opens or lists, until it succeeds, fails for good, or runs out of retries
/// or time. If the store cannot be reached at all, it fails after a few retries.
pub(crate) async fn until_opened<T, F: Future<Output = object_store::Result<T>>>(
    options: &StoreOptions,
    deadline: &Deadline,
    failure: &LastFailure,
    attempt: impl Fn() -> F,
) -> object_store::Result<T> {
    until_answered(&Retries::of_opening(options), deadline, failure, attempt).await
}

/// Retries a request until it succeeds, fails for good, or runs out of retries or time.
pub(crate) async fn until_answered<T, F: Future<Output = object_store::Result<T>>>(
    retries: &Retries,
    deadline: &Deadline,
    failure: &LastFailure,
    attempt: impl Fn() -> F,
) -> object_store::Result<T> {
    loop {
        failure.begin();
        let error = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(why) = failure.passing().or_else(|| of_another_client(&error)) else {
            return Err(error);
        };
        if !retries.pause(why, deadline).await {
            return Err(given_up(&error, retries.lock().done));
        }
    }
}

/// Returns the failure of a client that does not record it: one supplied by the caller, or the
/// client for credentials.
fn of_another_client(error: &Error) -> Option<PassingFailure> {
    let text = with_sources(error);
    let (_, status) = text.split_once("non-2xx status code: ")?;
    let status: u16 = status.get(..3)?.parse().ok()?;
    let may_pass = matches!(status, 429 | 500 | 502 | 503 | 504);
    may_pass.then(PassingFailure::default)
}

/// Adds the number of retries in front, because the store's message may be long.
fn given_up(error: &Error, retries: usize) -> Error {
    let after = match retries {
        0 => String::new(),
        1 => "given up after 1 retry: ".to_owned(),
        retries => format!("given up after {retries} retries: "),
    };
    let text = after + &with_sources(error);
    Error::Generic { store: "store", source: Box::new(StoreUnavailable(text)) }
}

/// Error of a store that has refused every attempt, or has not answered.
#[derive(Debug)]
pub(crate) struct StoreUnavailable(String);

impl fmt::Display for StoreUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for StoreUnavailable {}

/// Returns a random number for jitter, so that requests that failed together are not resent
/// together.
pub(crate) fn random() -> u32 {
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Maximum number of retries for an opening without a connection: a second or two by default.
const UNREACHED_MAX: usize = 4;

/// Stands in for a deadline beyond the range of the clock.
const FAR: Duration = Duration::from_secs(1 << 30);
