//! Examines a store from this machine by at most ten small requests for one object, without
//! retries: some tens of KiB, no writes. Reports facts; the caller judges them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object_store::{Error, GetOptions, GetRange, GetResult, ObjectMeta};

use crate::attributes::finish;
use crate::error::ObjectError;
use crate::http_date;
use crate::last_failure::LastFailure;
use crate::object_url::ObjectUrl;
use crate::response_watch::{ResponseHead, ResponseWatch};
use crate::stores::{BucketClient, Stores, with_hint};

/// Properties of a store, as measured from this machine.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct StoreExamination {
    /// The bucket and its endpoint.
    pub device: String,
    /// Error of reading the object, if any; most of the other fields are unknown then.
    pub error: Option<ObjectError>,
    /// Attributes of the object, if the store returned them.
    pub meta: Option<ObjectMeta>,
    /// Status of the last response to the first request, if any.
    pub status: Option<u16>,
    /// Value of the `Server` header.
    pub server: Option<String>,
    /// Region of the bucket, if the store reports it.
    pub region: Option<String>,
    /// Bounds of the offset by which the store's clock is ahead of this machine's, in seconds; None
    /// if the store sends no date.
    pub clock_ahead_s: Option<(f64, f64)>,
    /// Treatment of range requests; None if unknown.
    pub ranges: Option<RangeSupport>,
    /// True if the store refuses a request for another version (`If-Match`); None if unknown.
    pub refuses_other_version: Option<bool>,
    /// Times to first byte of small ranges read one after the other, shortest first.
    pub first_bytes: Vec<Duration>,
    /// Cost of opening a connection, on top of the request.
    pub connection: Option<Duration>,
    /// True if the server closes each connection after one response.
    pub closes_connections: bool,
}

/// A server's answer to a range request.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RangeSupport {
    /// The range.
    Honoured,
    /// The whole object, with this status.
    Ignored(u16),
    /// Another answer, described by the text.
    Wrong(String),
}

impl Stores {
    /// Examines a store by a few requests for one object, and blocks until they end. Clients used
    /// before already hold connections; the cost of a connection stays unknown then.
    ///
    /// # Errors
    ///
    /// If the text is not the URL of an object, the environment has invalid settings, or this
    /// process is a fork. An unreachable store is a result, not an error.
    pub fn examine(&self, url: &str) -> Result<StoreExamination, ObjectError> {
        let url = ObjectUrl::parse(url)?;
        if url.is_prefix() {
            let why = "give the URL of an object: it has a key and does not end with /";
            return Err(ObjectError::Url { url: url.to_string(), why: why.to_owned() });
        }
        let client = self.client_of(&url)?;
        let text = url.to_string();
        let (deadline, has_credentials) = (self.options().deadline, self.have_credentials());
        let owner = client.traffic.owner;
        let examining = owner.wait(async move {
            let device = client.device.clone();
            let mut of = Examiner { client, url, deadline, has_credentials };
            StoreExamination { device, ..of.examine().await }
        });
        examining.map_err(|error| ObjectError::of_process(&text, &error))
    }
}

struct Examiner {
    client: BucketClient,
    url: ObjectUrl,
    deadline: Duration,
    has_credentials: bool,
}

/// A response, if any, and its head.
struct Answered {
    result: Result<GetResult, ObjectError>,
    /// True if the store refused because the version differs.
    is_refused: bool,
    head: Option<ResponseHead>,
}

impl Examiner {
    async fn examine(&mut self) -> StoreExamination {
        let mut facts = StoreExamination::default();
        let range = Some(GetRange::Bounded(0..1));
        let mut asked = GetOptions { range, ..GetOptions::default() };
        let mut sent = wall_clock_s();
        let mut first = self.ask(asked.clone()).await;
        let status = first.head.as_ref().map(|head| head.status);
        if first.result.is_err() && matches!(status, Some(200 | 206 | 416)) {
            // The object is empty, or the server ignores ranges.
            asked.range = None;
            sent = wall_clock_s();
            first = self.ask(asked.clone()).await;
        }
        facts.see(first.head.as_ref(), sent);
        let meta = match first.result {
            Ok(response) => {
                let meta = response.meta.clone();
                if asked.range.is_some() {
                    // Reading the body frees the connection for the next request.
                    let _ = tokio::time::timeout(self.deadline, finish(response)).await;
                }
                meta
            }
            Err(error) => {
                facts.error = Some(with_hint(error, &self.url, self.has_credentials));
                return facts;
            }
        };
        // Repeats the request on the connection that is open now.
        let is_whole = asked.range.is_none();
        let again = self.ask(asked).await;
        let took = |head: &Option<ResponseHead>| head.as_ref().map(|head| head.took);
        if !facts.closes_connections && !is_whole {
            let both = took(&first.head).zip(took(&again.head));
            facts.connection = both.map(|(first, again)| first.saturating_sub(again));
        }
        if meta.size > 0 {
            self.examine_ranges(&mut facts, &meta).await;
            self.examine_conditions(&mut facts).await;
        }
        facts.meta = Some(meta);
        facts
    }

    /// Measures small ranges at the start, then one in the middle.
    async fn examine_ranges(&self, facts: &mut StoreExamination, meta: &ObjectMeta) {
        let len = meta.size.min(RANGE_LEN);
        for n in 0..FIRST_BYTES {
            let is_last = n + 1 == FIRST_BYTES;
            let start = if is_last { (meta.size - len) / 2 } else { 0 };
            let options = GetOptions {
                range: Some(GetRange::Bounded(start..start + len)),
                ..GetOptions::default()
            };
            let Answered { result, head, .. } = self.ask(options).await;
            let Some(head) = head else {
                facts.error = result.err();
                return;
            };
            let is_whole = meta.size == len;
            let wanted = format!("bytes {start}-{}/{}", start + len - 1, meta.size);
            let support = match (head.status, head.content_range) {
                (200 | 206, Some(range)) if range != wanted => {
                    RangeSupport::Wrong(format!("Content-Range is {range:?}, not {wanted:?}"))
                }
                (206, None) => RangeSupport::Wrong("206 without Content-Range".to_owned()),
                (200 | 206, Some(_)) if meta.e_tag.is_some() && head.e_tag != meta.e_tag => {
                    RangeSupport::Wrong(format!(
                        "the ETag of a range is {:?}, that of the object {:?}",
                        head.e_tag.unwrap_or_default(),
                        meta.e_tag.clone().unwrap_or_default()
                    ))
                }
                (200 | 206, Some(_)) => RangeSupport::Honoured,
                (200, _) if is_whole => RangeSupport::Honoured,
                (200, _) => RangeSupport::Ignored(200),
                (status, _) => {
                    facts.error = result.err();
                    RangeSupport::Wrong(format!("status {status}"))
                }
            };
            facts.first_bytes.push(head.took);
            let is_right = support == RangeSupport::Honoured;
            facts.ranges = Some(support);
            if !is_right {
                break;
            }
        }
        facts.first_bytes.sort_unstable();
    }

    /// Requests a version that the object never had.
    async fn examine_conditions(&self, facts: &mut StoreExamination) {
        let options = GetOptions {
            if_match: Some(NO_TAG.to_owned()),
            range: Some(GetRange::Bounded(0..1)),
            ..GetOptions::default()
        };
        let answered = self.ask(options).await;
        let is_answered = answered.head.is_some_and(|head| matches!(head.status, 200 | 206));
        facts.refuses_other_version =
            if answered.is_refused { Some(true) } else { is_answered.then_some(false) };
    }

    async fn ask(&self, mut options: GetOptions) -> Answered {
        let (watch, failure) = (ResponseWatch::default(), LastFailure::default());
        options.extensions.insert(watch.clone());
        options.extensions.insert(failure.clone());
        let (url, deadline) = (self.url.to_string(), self.deadline);
        let asked = self.client.store.get_opts(&self.url.location, options);
        let asked = tokio::time::timeout(deadline, asked).await;
        let is_refused = matches!(asked, Ok(Err(Error::Precondition { .. })));
        let result = match asked {
            Ok(answer) => answer.map_err(|error| ObjectError::of(&url, None, &error)),
            Err(_) => {
                let last_failure = failure.text();
                Err(ObjectError::TimedOut { url, range: None, deadline, last_failure })
            }
        };
        Answered { result, is_refused, head: watch.last() }
    }
}

impl StoreExamination {
    /// Extracts facts from the head of the first response.
    fn see(&mut self, head: Option<&ResponseHead>, sent_s: f64) {
        let Some(head) = head else { return };
        let received_s = wall_clock_s();
        self.status = Some(head.status);
        self.server.clone_from(&head.server);
        self.region.clone_from(&head.region);
        self.closes_connections = head.closes;
        let date = head.date.as_deref().and_then(http_date::seconds);
        self.clock_ahead_s = date.map(|date| ahead_s(date, sent_s, received_s));
    }
}

/// Returns the bounds of a clock's lead, given a `date` that it showed, truncated to the second,
/// between the two times.
#[expect(clippy::cast_precision_loss, reason = "seconds of this century")]
fn ahead_s(date: i64, sent_s: f64, received_s: f64) -> (f64, f64) {
    (date as f64 - received_s, date as f64 + 1.0 - sent_s)
}

#[expect(clippy::disallowed_methods, reason = "it is this clock that is examined")]
fn wall_clock_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Requests that measure the time to first byte. Two or three more fetch the attributes, and one
/// tests a condition.
const FIRST_BYTES: u32 = 6;

const RANGE_LEN: u64 = 4096;

/// A tag of no object.
const NO_TAG: &str = "\"foreread-doctor-asks-for-no-version\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_known_to_a_second_and_the_time_of_a_request() {
        assert_eq!(ahead_s(1000, 1000.2, 1000.3), (1000.0 - 1000.3, 1001.0 - 1000.2));
        let (least, most) = ahead_s(1000, 900.0, 900.5);
        assert_eq!((least, most), (99.5, 101.0));
    }
}
