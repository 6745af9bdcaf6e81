//! One range request of an object, from the GET to the last byte. Chunks are passed on as they
//! arrive, after the head has proven that the response is the right range of the right version.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foreread::Reply;
use futures_util::StreamExt as _;
use object_store::{Error, Extensions, GetOptions, GetRange, GetResult};
use tokio::time::Instant;

use crate::broken_body::BrokenBody;
use crate::connection_use::ConnectionUse;
use crate::counters::Attempts;
use crate::error::ObjectError;
use crate::error_text::one_line;
use crate::hedged::{self, Urgency, not_joined};
use crate::last_failure::{LastFailure, PassingFailure};
use crate::object_state::ObjectState;
use crate::response_head::KnownLength;
use crate::retries::{Deadline, Retries, until_answered};
use crate::traffic::{Gated, Permit};

/// A range request, with the state that its attempts and copies share.
#[derive(Clone, Debug)]
struct RangeRequest {
    range: Range<u64>,
    failure: LastFailure,
    deadline: Deadline,
    attempts: Attempts,
    retries: Retries,
}

impl RangeRequest {
    fn new(object: &ObjectState, range: Range<u64>) -> Self {
        let (failure, attempts) = (LastFailure::default(), Attempts::default());
        let (deadline, retries) = (Deadline::of(&object.options), Retries::new(&object.options));
        Self { range, failure, deadline, attempts, retries }
    }

    /// Records the error of a broken body, for the error at the deadline.
    fn note(&self, error: ObjectError) -> ObjectError {
        if let ObjectError::Failed { why, .. } = &error {
            self.failure.body_broke(why);
        }
        error
    }
}

/// Sends the request and streams the response into the reply, within the deadline. If a reader
/// joins a read-ahead request, the deadline restarts.
pub(crate) async fn run(object: Arc<ObjectState>, range: Range<u64>, mut reply: Reply) {
    let request = RangeRequest::new(&object, range.clone());
    let (is_read_ahead, joined) = (reply.is_read_ahead(), reply.joined());
    let deadline = request.deadline.clone();
    let joined = async move {
        joined.await;
        if is_read_ahead {
            deadline.restart();
        }
    };
    let urgency = Urgency { is_demand: !is_read_ahead, joined };
    let copied = copy(&object, &request, urgency, &mut reply);
    let ended = request.deadline.bound(copied).await;
    let is_silent = reply.remaining() == range.end - range.start;
    let (error, is_of_all) = match ended {
        Some(Ok(())) => return reply.finish(),
        // Single pages would get the same answer, except from a server that limits ranges.
        Some(Err(error)) => {
            let is_of_all = error.is_of_all() || (is_silent && !error.is_short_range(&range));
            (error, is_of_all)
        }
        // If the server has sent nothing, single pages would not arrive sooner; and a server that
        // refuses gets no further requests.
        None => {
            let is_of_all = is_silent || request.failure.had_no_good_head();
            (timed_out(&object, &request), is_of_all)
        }
    };
    if is_of_all { reply.fail_all(error.of_read()) } else { reply.fail(error.of_read()) }
}

/// Reads a range into memory by one request, whatever its size, within the deadline.
pub(crate) async fn read(object: &ObjectState, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
    let mut bytes = Vec::with_capacity(usize::try_from(range.end - range.start).unwrap_or(0));
    let request = RangeRequest::new(object, range);
    let copied = copy(object, &request, not_joined(false), &mut bytes);
    let copied = request.deadline.bound(copied).await;
    copied.unwrap_or_else(|| Err(timed_out(object, &request)))?;
    Ok(bytes)
}

/// Returns the error of a range that was incomplete at the deadline.
fn timed_out(object: &ObjectState, request: &RangeRequest) -> ObjectError {
    let (url, deadline) = (object.url.clone(), object.options.deadline);
    let (range, last_failure) = (Some(request.range.clone()), request.failure.text());
    ObjectError::TimedOut { url, range, deadline, last_failure }
}

/// Consumer of a range's bytes, in order.
trait ByteSink {
    /// Takes the bytes. Returns true if it accepts more.
    fn take(&mut self, bytes: &[u8]) -> bool;
}

impl ByteSink for Reply {
    /// Returns false if the reply has timed out, or its engine is gone.
    fn take(&mut self, bytes: &[u8]) -> bool {
        self.write(bytes).is_ok()
    }
}

impl ByteSink for Vec<u8> {
    fn take(&mut self, bytes: &[u8]) -> bool {
        self.extend_from_slice(bytes);
        true
    }
}

/// Copies the range into the sink; returns early once that accepts no more. If a body breaks, a
/// retry requests the rest.
async fn copy(
    object: &ObjectState,
    request: &RangeRequest,
    urgency: Urgency<impl Future<Output = ()>>,
    sink: &mut impl ByteSink,
) -> Result<(), ObjectError> {
    let (error, mut from) = match transfer(object, request, urgency, sink).await {
        Err(BodyError::Broken { error, from }) => (request.note(error), from),
        ended => return ended.map_err(BodyError::into_error),
    };
    while request.retries.pause(PassingFailure::default(), &request.deadline).await {
        let rest = RangeRequest { range: from..request.range.end, ..request.clone() };
        match transfer(object, &rest, not_joined(true), sink).await {
            Err(BodyError::Broken { error, from: next }) => {
                request.note(error);
                from = next;
            }
            ended => return ended.map_err(BodyError::into_error),
        }
    }
    Err(error)
}

/// Copies the range by one request, and a hedged copy of it if it is late.
async fn transfer(
    object: &ObjectState,
    request: &RangeRequest,
    urgency: Urgency<impl Future<Output = ()>>,
    sink: &mut impl ByteSink,
) -> Result<(), BodyError> {
    let is_first = AtomicBool::new(true);
    let send = |gate| {
        let is_first = is_first.swap(false, Ordering::Relaxed);
        // A hedged copy does not count as a retry.
        let attempts = if is_first { request.attempts.clone() } else { Attempts::default() };
        answer(object, RangeRequest { attempts, ..request.clone() }, gate)
    };
    let answered = hedged::first_answer(&object.traffic, urgency, send).await;
    pass_on(object, &request.range, answered.map_err(BodyError::Other)?, sink).await
}

/// Reason why a body is incomplete.
enum BodyError {
    /// The connection broke: the bytes from this offset on are missing.
    Broken {
        error: ObjectError,
        from: u64,
    },
    Other(ObjectError),
}

impl BodyError {
    fn into_error(self) -> ObjectError {
        match self {
            Self::Broken { error, .. } | Self::Other(error) => error,
        }
    }
}

/// Timing of a range request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeTime {
    /// From the request to the head of its response.
    pub first_byte: Duration,
    /// From the request to the last byte.
    pub whole: Duration,
}

/// Reads a range by one request, reports the size of each chunk, and discards the bytes.
pub(crate) async fn measure(
    object: &ObjectState,
    range: Range<u64>,
    arrived: &impl Fn(u64),
) -> Result<RangeTime, ObjectError> {
    let (sent, request) = (Instant::now(), RangeRequest::new(object, range.clone()));
    let deadline = request.deadline.clone();
    let measured = async {
        let (mut from, mut first_byte, mut sink) = (range.start, None, CountedBytes(arrived));
        loop {
            let rest = RangeRequest { range: from..range.end, ..request.clone() };
            let answer = answer(object, rest.clone(), Gated::new(false)).await?;
            let first_byte = *first_byte.get_or_insert_with(|| sent.elapsed());
            match pass_on(object, &rest.range, answer, &mut sink).await {
                Ok(()) => return Ok(RangeTime { first_byte, whole: sent.elapsed() }),
                Err(BodyError::Broken { error, from: next }) => {
                    let error = rest.note(error);
                    let is_last = !rest.retries.pause(PassingFailure::default(), &deadline).await;
                    if is_last {
                        return Err(error);
                    }
                    from = next;
                }
                Err(error) => return Err(error.into_error()),
            }
        }
    };
    let measured = request.deadline.bound(measured).await;
    measured.unwrap_or_else(|| Err(timed_out(object, &request)))
}

/// A sink that only counts bytes.
struct CountedBytes<'f, F>(&'f F);

impl<F: Fn(u64)> ByteSink for CountedBytes<'_, F> {
    fn take(&mut self, bytes: &[u8]) -> bool {
        (self.0)(bytes.len() as u64);
        true
    }
}

/// Streams the bytes of a response into the sink; returns early once that accepts no more.
async fn pass_on(
    object: &ObjectState,
    range: &Range<u64>,
    Answer { mut response, broken }: Answer,
    sink: &mut impl ByteSink,
) -> Result<(), BodyError> {
    // The request stays in flight until the last byte has arrived.
    let permit = response.extensions.remove::<Arc<Permit>>();
    let connection = response.extensions.remove::<Arc<ConnectionUse>>();
    let mut left = range.end - range.start;
    let mut chunks = response.into_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => return Err(broken_at(object, range, left, &error)),
        };
        object.counters.arrived(chunk.len());
        if chunk.len() as u64 > left {
            let why = "the server sent more bytes than announced".to_owned();
            return Err(BodyError::Other(wrong(object, range, why)));
        }
        if !sink.take(&chunk) {
            return Ok(());
        }
        left -= chunk.len() as u64;
    }
    if left > 0 {
        if let Some(error) = broken.take() {
            let error = Error::Generic { store: "HTTP", source: Box::new(error) };
            return Err(broken_at(object, range, left, &error));
        }
        let why = format!("the server ended its response {left} bytes early");
        return Err(BodyError::Other(wrong(object, range, why)));
    }
    if let Some(connection) = connection {
        connection.completed();
    }
    if let Some(permit) = permit {
        Permit::end(permit).await;
    }
    Ok(())
}

/// Returns the error of a body that broke with this many bytes of the range missing.
fn broken_at(object: &ObjectState, range: &Range<u64>, left: u64, error: &Error) -> BodyError {
    let error = ObjectError::of(&object.url, Some(range.clone()), error);
    BodyError::Broken { error, from: range.end - left }
}

/// A response with a verified head and an unread body.
struct Answer {
    response: GetResult,
    broken: BrokenBody,
}

/// Sends the request, with all retries.
async fn answer(
    object: &ObjectState,
    request: RangeRequest,
    gate: Gated,
) -> Result<Answer, ObjectError> {
    let broken = BrokenBody::default();
    let (range, failure) = (&request.range, request.failure.of_copy());
    let ask = async |is_conditional: bool| {
        let mut options = options_of(object, &request, is_conditional);
        options.extensions.insert(gate.clone());
        options.extensions.insert(failure.clone());
        options.extensions.insert(broken.clone());
        object.store.get_opts(&object.meta.location, options).await
    };
    let is_conditional = !object.refuses_conditions.load(Ordering::Relaxed);
    let ask_until = async |is_conditional: bool| {
        let (retries, deadline) = (&request.retries, &request.deadline);
        until_answered(retries, deadline, &failure, || ask(is_conditional)).await
    };
    let mut response = ask_until(is_conditional).await;
    let is_refused = is_conditional && matches!(response, Err(Error::Precondition { .. }));
    if is_refused {
        // A gateway may refuse all conditions; the version of its response is compared in any case.
        response = ask_until(false).await;
    }
    let failed = |error| ObjectError::of(&object.url, Some(range.clone()), &error);
    let response = response.map_err(failed)?;
    if let Err(why) = object.pinned.check_response(&response) {
        // Tags are as long as a server likes.
        let (url, why) = (object.url.clone(), one_line(&why));
        return Err(ObjectError::Changed { url, why });
    }
    if response.range != *range {
        let Range { start, end } = response.range;
        return Err(wrong(object, range, format!("the server sent bytes {start} to {end}")));
    }
    if is_refused {
        object.refuses_conditions.store(true, Ordering::Relaxed);
    }
    Ok(Answer { response, broken })
}

/// Returns the options of a request. A range that covers the whole object is requested without a
/// range, so that small objects can be read from servers without range support.
fn options_of(object: &ObjectState, request: &RangeRequest, is_conditional: bool) -> GetOptions {
    let RangeRequest { range, attempts, .. } = request;
    let is_whole = *range == (0..object.pinned.size);
    let part = (!is_whole).then(|| GetRange::Bounded(range.clone()));
    let mut extensions = Extensions::new();
    extensions.insert(attempts.clone());
    extensions.insert(object.found_at.clone());
    extensions.insert(KnownLength(object.pinned.size));
    let conditions = match is_conditional {
        true => object.pinned.conditions(&object.meta),
        false => GetOptions::default(),
    };
    GetOptions { range: part, extensions, ..conditions }
}

fn wrong(object: &ObjectState, range: &Range<u64>, why: String) -> ObjectError {
    ObjectError::Failed { url: object.url.clone(), range: Some(range.clone()), why }
}

#[cfg(test)]
mod virtual_time;
