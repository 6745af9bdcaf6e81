//! One request for a range of an object: from the GET to the last byte.
//!
//! In:    a range, and the reply that takes its bytes.
//! Out:   the bytes of the pinned version, as chunks arrive; or one error.
//! Never: a byte passed on before the response is known to be the right range of the right version.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use foreread::Reply;
use futures_util::StreamExt as _;
use object_store::{GetOptions, GetRange, GetResult};
use tokio::time::Instant;

use crate::counters::Attempts;
use crate::error::ObjectError;
use crate::hedged::{self, Urgency, not_joined};
use crate::last_failure::LastFailure;
use crate::object_state::ObjectState;
use crate::traffic::{Gated, Permit};

/// Sends the request and passes on what comes, within the deadline.
pub(crate) async fn run(object: Arc<ObjectState>, range: Range<u64>, mut reply: Reply) {
    let deadline = object.options.deadline;
    let urgency = Urgency { is_demand: !reply.is_read_ahead(), joined: reply.joined() };
    let failure = LastFailure::default();
    let copied = copy(&object, (&range, &failure), urgency, &mut reply);
    let transferred = tokio::time::timeout(deadline, copied).await;
    match transferred {
        Ok(Ok(())) => reply.finish(),
        Ok(Err(error)) if error.is_of_all() => reply.fail_all(error.of_read()),
        Ok(Err(error)) => reply.fail(error.of_read()),
        Err(_) => {
            let is_silent = reply.remaining() == range.end - range.start;
            let error = timed_out(&object, range, &failure).of_read();
            // Of a server that has sent nothing no page comes sooner alone.
            if is_silent { reply.fail_all(error) } else { reply.fail(error) }
        }
    }
}

/// Reads a range into memory by one request, whatever it takes, within the deadline.
pub(crate) async fn read(object: &ObjectState, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
    let (deadline, failure) = (object.options.deadline, LastFailure::default());
    let mut bytes = Vec::with_capacity(usize::try_from(range.end - range.start).unwrap_or(0));
    let copied = copy(object, (&range, &failure), not_joined(false), &mut bytes);
    let copied = tokio::time::timeout(deadline, copied).await;
    copied.unwrap_or_else(|_| Err(timed_out(object, range, &failure)))?;
    Ok(bytes)
}

/// The error of a range that was not there within the deadline.
fn timed_out(object: &ObjectState, range: Range<u64>, failure: &LastFailure) -> ObjectError {
    let (url, deadline) = (object.url.clone(), object.options.deadline);
    ObjectError::TimedOut { url, range: Some(range), deadline, last_failure: failure.text() }
}

/// What takes the bytes of a range, in order.
trait ByteSink {
    /// Returns whether more is wanted.
    fn take(&mut self, bytes: &[u8]) -> bool;
}

impl ByteSink for Reply {
    /// A reply that has timed out, or whose engine is gone, wants no more.
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

/// Copies the range into the sink. If that wants no more it returns early.
async fn copy(
    object: &ObjectState,
    (range, failure): (&Range<u64>, &LastFailure),
    urgency: Urgency<impl Future<Output = ()>>,
    sink: &mut impl ByteSink,
) -> Result<(), ObjectError> {
    let send = |gate| answer(object, (range, failure), gate);
    let response = hedged::first_answer(&object.traffic, urgency, send).await?;
    pass_on(object, range, response, sink).await
}

/// How long the request for a range took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RangeTime {
    /// From the request to the head of its response.
    pub first_byte: Duration,
    /// From the request to the last byte.
    pub whole: Duration,
}

/// Reads a range by one request, tells how many bytes come as they come, and throws them away.
pub(crate) async fn measure(
    object: &ObjectState,
    range: Range<u64>,
    arrived: &impl Fn(u64),
) -> Result<RangeTime, ObjectError> {
    let (deadline, sent) = (object.options.deadline, Instant::now());
    let failure = LastFailure::default();
    let measured = async {
        let response = answer(object, (&range, &failure), Gated::new(false)).await?;
        let first_byte = sent.elapsed();
        pass_on(object, &range, response, &mut CountedBytes(arrived)).await?;
        Ok(RangeTime { first_byte, whole: sent.elapsed() })
    };
    let measured = tokio::time::timeout(deadline, measured).await;
    measured.unwrap_or_else(|_| Err(timed_out(object, range.clone(), &failure)))
}

/// A sink that keeps nothing.
struct CountedBytes<'f, F>(&'f F);

impl<F: Fn(u64)> ByteSink for CountedBytes<'_, F> {
    fn take(&mut self, bytes: &[u8]) -> bool {
        (self.0)(bytes.len() as u64);
        true
    }
}

/// Passes the bytes of a response on to the sink. If that wants no more it returns early.
async fn pass_on(
    object: &ObjectState,
    range: &Range<u64>,
    mut response: GetResult,
    sink: &mut impl ByteSink,
) -> Result<(), ObjectError> {
    // In flight until the last byte has come.
    let _permit = response.extensions.remove::<Arc<Permit>>();
    let failed = |error| ObjectError::of(&object.url, Some(range.clone()), &error);
    let mut left = range.end - range.start;
    let mut chunks = response.into_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(failed)?;
        object.counters.arrived(chunk.len());
        if chunk.len() as u64 > left {
            return Err(wrong(object, range, "the server sent more bytes than it said".to_owned()));
        }
        if !sink.take(&chunk) {
            return Ok(());
        }
        left -= chunk.len() as u64;
    }
    if left > 0 {
        let why = format!("the server ended its answer {left} bytes early");
        return Err(wrong(object, range, why));
    }
    Ok(())
}

/// Sends the request. Returns a response whose head is right: its bytes are still to come.
async fn answer(
    object: &ObjectState,
    (range, failure): (&Range<u64>, &LastFailure),
    gate: Gated,
) -> Result<GetResult, ObjectError> {
    let mut options = request(object, range);
    options.extensions.insert(gate);
    options.extensions.insert(failure.clone());
    let response = object.store.get_opts(&object.meta.location, options).await;
    let failed = |error| ObjectError::of(&object.url, Some(range.clone()), &error);
    let response = response.map_err(failed)?;
    if let Err(why) = object.pinned.check(&response.meta) {
        return Err(ObjectError::Changed { url: object.url.clone(), why });
    }
    if response.range != *range {
        let Range { start, end } = response.range;
        return Err(wrong(object, range, format!("the server sent bytes {start} to {end}")));
    }
    Ok(response)
}

/// A range that is the whole object is asked for without a range: so small objects can be read
/// from servers that know no ranges.
fn request(object: &ObjectState, range: &Range<u64>) -> GetOptions {
    let is_whole = *range == (0..object.pinned.size);
    let part = (!is_whole).then(|| GetRange::Bounded(range.clone()));
    let extensions = Attempts::extensions();
    GetOptions { range: part, extensions, ..object.pinned.conditions(&object.meta) }
}

fn wrong(object: &ObjectState, range: &Range<u64>, why: String) -> ObjectError {
    ObjectError::Failed { url: object.url.clone(), range: Some(range.clone()), why }
}

#[cfg(test)]
mod virtual_time;
