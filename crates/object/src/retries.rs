//! The attempts of one request: sent again until it succeeds, or its deadline is over.
//!
//! In:    a request that can be sent any number of times; why an attempt has failed.
//! Out:   its answer, or the error of the last attempt.
//! Never: an attempt before the store wants one, unless the deadline would be over by then.

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

/// When a request has to be answered.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    span: Duration,
    at: Arc<Mutex<Instant>>,
}

impl Deadline {
    /// The deadline of a request that begins now.
    pub(crate) fn of(options: &StoreOptions) -> Self {
        let span = options.deadline;
        Self { span, at: Arc::new(Mutex::new(after(span))) }
    }

    /// A reader begins to wait for the request: it waits as long as for one of its own.
    pub(crate) fn restart(&self) {
        *self.lock() = after(self.span);
    }

    fn left(&self) -> Duration {
        self.lock().saturating_duration_since(Instant::now())
    }

    /// Returns what the future returns; None if it is not ready by the deadline.
    pub(crate) async fn bound<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        loop {
            let at = *self.lock();
            match timeout_at(at, future.as_mut()).await {
                Ok(value) => return Some(value),
                // A reader may have come meanwhile.
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

/// The retries of one request, shared by its copies and by the requests for the rest of a body.
#[derive(Clone, Debug)]
pub(crate) struct Retries(Arc<Mutex<RetryState>>);

/// How often a request was sent again, and when it is next.
#[derive(Debug)]
struct RetryState {
    left: usize,
    done: usize,
    /// Of these, how many may follow failures to connect, as long as there was no other one.
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

    /// The retries of a request that nothing is open for yet: a name or a port that is wrong is
    /// reported after a few of them.
    fn of_opening(options: &StoreOptions) -> Self {
        let retries = Self::new(options);
        retries.lock().left_unreached = UNREACHED_MAX;
        retries
    }

    /// Pauses before the next attempt. Returns false if there is none.
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
    /// Takes a retry; None if none is left. Returns the pause before it, or none if the deadline is
    /// over by then.
    fn next(&mut self, why: PassingFailure, time_left: Duration) -> Option<Option<Nanos>> {
        let left = self.left.checked_sub(1)?;
        if why.is_unreached {
            self.left_unreached = self.left_unreached.checked_sub(1)?;
        } else {
            // The store is there: the next failure is an outage.
            self.left_unreached = usize::MAX;
        }
        self.left = left;
        self.done += 1;
        Some(self.pauses.next(why.asked.map(nanos), nanos(time_left), random()))
    }
}

/// Sends a request that opens or lists until it succeeds, fails for good, or no retry or time is
/// left. A store that cannot be reached at all fails after a few retries.
pub(crate) async fn until_opened<T, F: Future<Output = object_store::Result<T>>>(
    options: &StoreOptions,
    deadline: &Deadline,
    failure: &LastFailure,
    attempt: impl Fn() -> F,
) -> object_store::Result<T> {
    until_answered(&Retries::of_opening(options), deadline, failure, attempt).await
}

/// Sends a request until it succeeds, fails for good, or no retry or time is left.
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

/// Why a client has given up that does not note its failures: that of another store's, or the
/// one for credentials.
fn of_another_client(error: &Error) -> Option<PassingFailure> {
    let text = with_sources(error);
    let (_, status) = text.split_once("non-2xx status code: ")?;
    let status: u16 = status.get(..3)?.parse().ok()?;
    let may_pass = matches!(status, 429 | 500 | 502 | 503 | 504);
    may_pass.then(PassingFailure::default)
}

/// The number comes first: a store may say any length of text about its refusal.
fn given_up(error: &Error, retries: usize) -> Error {
    let after = match retries {
        0 => String::new(),
        1 => "given up after 1 retry: ".to_owned(),
        retries => format!("given up after {retries} retries: "),
    };
    let text = after + &with_sources(error);
    Error::Generic { store: "store", source: Box::new(StoreUnavailable(text)) }
}

/// The error of a store that has refused each attempt, or has not answered.
#[derive(Debug)]
pub(crate) struct StoreUnavailable(String);

impl fmt::Display for StoreUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for StoreUnavailable {}

/// Of requests that fail together, not all are sent again together.
pub(crate) fn random() -> u32 {
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Retries of an opening that has had no connection: a second or two by default.
const UNREACHED_MAX: usize = 4;

/// For a deadline that no clock reaches.
const FAR: Duration = Duration::from_secs(1 << 30);
