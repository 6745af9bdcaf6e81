//! Read-ahead requests of one device that are deferred while demand requests are queued.
//! [`super::queue`] decides when they are dispatched.
//!
//! ```text
//!   by place   |==3==|    |=1=|        |====2====|        merged where they touch
//!   by age      1, 2, 3
//! ```

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ops::RangeInclusive;

use super::payload::IoPayload;
use crate::sched::Request;
use crate::table::Frame;
use crate::units::{Sector, Sectors};

/// The deferred requests.
#[derive(Debug)]
pub(super) struct AheadQueue {
    /// None while no request is deferred: there may be ten thousand devices, few of them active.
    waiting: Option<Box<WaitingReads>>,
    /// Length of the device's largest request.
    max: Sectors,
}

/// At least one deferred request.
#[derive(Debug, Default)]
struct WaitingReads {
    by_place: BTreeMap<Place, Request<IoPayload>>,
    /// Start of each request, by its number.
    by_age: BTreeMap<u64, Sector>,
    /// Number of the next request.
    next: u64,
}

/// Start of a request, and its number because two files may share sectors.
type Place = (Sector, u64);

impl AheadQueue {
    /// Creates an empty queue for a device with requests of up to `max` sectors.
    pub(super) fn new(max: Sectors) -> Self {
        Self { waiting: None, max }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.by_age.len())
    }

    /// Adds a request, merged with adjacent ones. The merged request is as old as the oldest of
    /// them.
    pub(super) fn add(&mut self, request: Request<IoPayload>) {
        debug_assert!(request.load.is_ahead, "a caller waits for it");
        self.waiting.get_or_insert_default().add(request, self.max);
    }

    /// Takes the oldest request.
    pub(super) fn take_oldest(&mut self) -> Option<Request<IoPayload>> {
        self.take(WaitingReads::oldest)
    }

    /// Takes the request that starts at a sector.
    pub(super) fn take_at(&mut self, start: Sector) -> Option<Request<IoPayload>> {
        self.take(|waiting| waiting.at(start))
    }

    /// Takes the request that reads a sector into a frame.
    pub(super) fn take_filling(
        &mut self,
        sector: Sector,
        frame: Frame,
    ) -> Option<Request<IoPayload>> {
        let first = Sector(sector.0.saturating_sub(self.max.0));
        self.take(|waiting| waiting.filling(first..=sector, frame))
    }

    fn take(
        &mut self,
        find: impl FnOnce(&WaitingReads) -> Option<Place>,
    ) -> Option<Request<IoPayload>> {
        let waiting = self.waiting.as_mut()?;
        let place = find(waiting)?;
        let request = waiting.take(place);
        if waiting.by_age.is_empty() {
            self.waiting = None;
        }
        Some(request)
    }
}

impl WaitingReads {
    fn add(&mut self, mut request: Request<IoPayload>, max: Sectors) {
        let mut oldest = self.next;
        self.next += 1;
        let before = self.by_place.range(..(request.start, 0)).next_back();
        let before = before.filter(|(_, before)| before.can_take(&request, max));
        if let Some(&place) = before.map(|(place, _)| place) {
            let mut before = self.take(place);
            before.append(request);
            (oldest, request) = (place.1, before);
        }
        let after = self.by_place.range((request.end(), 0)..=(request.end(), u64::MAX)).next();
        let after = after.filter(|(_, after)| request.can_take(after, max));
        if let Some(&place) = after.map(|(place, _)| place) {
            let mut after = self.take(place);
            request.prepend_to(&mut after);
            (oldest, request) = (oldest.min(place.1), after);
        }
        self.put(oldest, request);
    }

    fn oldest(&self) -> Option<Place> {
        let (&number, &start) = self.by_age.first_key_value()?;
        Some((start, number))
    }

    fn at(&self, start: Sector) -> Option<Place> {
        let (&place, _) = self.by_place.range((start, 0)..=(start, u64::MAX)).next()?;
        Some(place)
    }

    fn filling(&self, starts: RangeInclusive<Sector>, frame: Frame) -> Option<Place> {
        let (first, sector) = starts.into_inner();
        let near = self.by_place.range((first, 0)..=(sector, u64::MAX)).rev();
        let reads = |request: &Request<IoPayload>| {
            request.end() > sector && request.load.frames().any(|it| it == frame)
        };
        // Requests of different files for the same sectors are rare.
        let (&place, _) = near.take(OVERLAPS_MAX).find(|(_, request)| reads(request))?;
        Some(place)
    }

    fn put(&mut self, number: u64, request: Request<IoPayload>) {
        let start = request.start;
        let is_new = self.by_age.insert(number, start).is_none();
        let is_alone = self.by_place.insert((start, number), request).is_none();
        assert!(is_new && is_alone, "request {number} waits twice");
    }

    fn take(&mut self, place: Place) -> Request<IoPayload> {
        self.by_age.remove(&place.1).expect("each request is there twice");
        self.by_place.remove(&place).expect("each request is there twice")
    }
}

/// Requests examined for one sector among those that start before it.
const OVERLAPS_MAX: usize = 4;
