//! An object store and its client: connections that share a link, and a store with slow requests
//! and throttling. The client's rules are the core's, which `crates/object` uses as well.
//!
//! ```text
//!   connection 0   |-- latency --|piece|piece|piece|
//!   connection 1   |-- latency --|piece|piece|piece|      each at connection_mb_per_s, unless
//!   connection 2     |-- latency --|piece|piece|piece|    the sum would be more than link_mb_per_s
//!   connection 3     |-- 503 --| pause, without a connection |-- latency --|piece|piece|
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem;

use foreread_core::path::Tag;
use foreread_core::store_requests::{CopyBackoff, Hedging, RequestLimit, WaitingRequests};
use foreread_core::units::{ByteCount, Nanos};

use super::model::{
    BlockDevice, CommandEnd, CommandPieces, DeviceCommand, StoreTotals, later, transfer_ns,
};
use super::params::Store;
use crate::rng::Rng;

/// State of a store and its connections.
#[derive(Debug)]
pub(super) struct StoreLink {
    params: Store,
    /// Time at which the link has carried all queued bytes.
    link: Nanos,
    rng: Rng,
    /// Time at which the store has served all accepted requests, at its rate limit.
    accepted: Nanos,
    hedging: Hedging,
    limit: RequestLimit,
    /// Unanswered commands, by number.
    requests: HashMap<u64, StoreRequest>,
    /// Unanswered commands without a connection yet.
    waiting: WaitingRequests<u64>,
    /// Pending events; events at the same time fire in the order in which they were scheduled.
    events: BinaryHeap<Reverse<(Nanos, u64, StoreEvent)>>,
    /// Number of commands and events so far.
    count: u64,
    totals: StoreTotals,
    bytes: u64,
}

/// An unanswered command.
#[derive(Debug)]
struct StoreRequest {
    tag: Tag,
    bytes: ByteCount,
    is_demand: bool,
    /// Time of the first attempt.
    sent: Option<Nanos>,
    /// True while it has a connection.
    is_connected: bool,
    /// True once it was hedged.
    is_copied: bool,
    /// Time at which it may be hedged; earlier schedules for that are void.
    asks_at: Nanos,
    /// Backoff, without a copy, before the next attempt to hedge.
    backoff: CopyBackoff,
    /// Number of times it was throttled.
    refusals: u32,
}

/// An event that happens without a call of the host; the number identifies the command.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum StoreEvent {
    /// The first byte of an attempt arrives.
    FirstByte(u64),
    /// The attempt sent at this time is throttled.
    Refused(u64, Attempt, Nanos),
    /// The pause after a refusal is over.
    Retry(u64, Attempt),
    /// The request has exceeded the latency of recent requests.
    Late(u64),
    /// A reader still waits for a request without a copy.
    AskAgain(u64),
    /// A connection has received its last byte.
    Free,
}

/// Original or copy of a request, and its number of refusals.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Attempt {
    is_copy: bool,
    refusals: u32,
}

impl StoreLink {
    /// Creates an idle store.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range, and its range.
    pub(super) fn new(params: Store, run_seed: u64) -> Result<Self, String> {
        params.check()?;
        Ok(Self {
            link: Nanos(0),
            rng: Rng::of_device(params.seed.into(), run_seed),
            accepted: Nanos(0),
            hedging: Hedging::default(),
            limit: RequestLimit::new(params.connections),
            requests: HashMap::new(),
            waiting: WaitingRequests::default(),
            events: BinaryHeap::new(),
            count: 0,
            totals: StoreTotals::default(),
            bytes: 0,
            params,
        })
    }

    fn schedule(&mut self, at: Nanos, event: StoreEvent) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    /// Sends requests that wait for a connection, as far as the limit allows.
    fn send_waiting(&mut self, now: Nanos) {
        while !self.waiting.is_empty() && self.limit.start() {
            let number = self.waiting.pop().expect("some wait");
            let Some(request) = self.requests.get_mut(&number) else {
                // Its copy was faster.
                self.limit.end();
                continue;
            };
            request.is_connected = true;
            let (is_first, is_demand) = (request.sent.is_none(), request.is_demand);
            let attempt = Attempt { is_copy: false, refusals: request.refusals };
            if is_first {
                request.sent = Some(now);
                let delay = self.hedging.sent(is_demand).filter(|_| self.params.hedge);
                if let Some(delay) = delay {
                    self.ask_at(Nanos(now.0 + delay.0), StoreEvent::Late, number);
                } else if is_demand {
                    self.ask_again(now, number);
                }
            }
            self.send(now, number, attempt);
        }
    }

    fn send(&mut self, now: Nanos, number: u64, attempt: Attempt) {
        self.totals.requests += 1;
        let latency_ns = self.latency_ns();
        if self.is_accepted(now) {
            self.schedule(later(now, latency_ns), StoreEvent::FirstByte(number));
        } else {
            let refused = later(now, self.params.latency_ms * 1e6);
            self.schedule(refused, StoreEvent::Refused(number, attempt, now));
        }
    }

    /// Draws the time from a request to its first byte.
    fn latency_ns(&mut self) -> f64 {
        let Store { latency_ms, latency_sigma, slow_share, slow_factor, .. } = self.params;
        let mut ns = latency_ms * 1e6;
        if latency_sigma > 0.0 {
            ns *= libm::exp(latency_sigma * self.rng.normal());
        }
        if slow_share > 0.0 && self.rng.unit() < slow_share {
            ns *= slow_factor;
        }
        ns
    }

    /// Returns whether the store accepts a request: a token bucket that drains at the store's rate.
    fn is_accepted(&mut self, now: Nanos) -> bool {
        let Store { requests_per_s, burst, .. } = self.params;
        if requests_per_s == 0.0 {
            return true;
        }
        let one_ns = 1e9 / requests_per_s;
        let is_accepted = self.accepted <= later(now, one_ns * f64::from(burst - 1));
        if is_accepted {
            self.accepted = later(self.accepted.max(now), one_ns);
        }
        is_accepted
    }

    fn happens(&mut self, now: Nanos, event: StoreEvent) -> Option<CommandEnd> {
        match event {
            StoreEvent::FirstByte(number) => return self.first_byte(now, number),
            StoreEvent::Refused(number, attempt, sent) => {
                self.refused(now, number, attempt, sent);
            }
            StoreEvent::Retry(number, attempt) => {
                if attempt.is_copy && self.requests.contains_key(&number) {
                    self.send(now, number, attempt);
                } else if let Some(request) = self.requests.get(&number) {
                    self.waiting.push(request.is_demand, number);
                }
            }
            StoreEvent::Late(number) if self.asks(now, number) => self.is_late(now, number),
            StoreEvent::AskAgain(number) if self.asks(now, number) => {
                self.is_waited_for(now, number);
            }
            StoreEvent::Late(_) | StoreEvent::AskAgain(_) => {}
            StoreEvent::Free => self.limit.end(),
        }
        self.send_waiting(now);
        None
    }

    /// Returns true if a request has no copy, and may be hedged now.
    fn asks(&self, now: Nanos, number: u64) -> bool {
        let request = self.requests.get(&number);
        request.is_some_and(|request| !request.is_copied && request.asks_at <= now)
    }

    /// Schedules the hedge of a request, replacing any earlier schedule.
    fn ask_at(&mut self, at: Nanos, event: fn(u64) -> StoreEvent, number: u64) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.asks_at = at;
            self.schedule(at, event(number));
        }
    }

    /// Hedges a late request, unless the budget is exhausted or the store has throttled others.
    fn is_late(&mut self, now: Nanos, number: u64) {
        let Some(late) = self.requests.get_mut(&number) else { return };
        if !self.limit.is_cut() && self.hedging.take_copy(late.is_demand) {
            late.is_copied = true;
            self.totals.hedged += 1;
            self.send(now, number, Attempt { is_copy: true, refusals: 0 });
        } else if late.is_demand {
            self.ask_again(now, number);
        }
    }

    /// Schedules another attempt to hedge, when the model or the budget may allow it.
    fn ask_again(&mut self, now: Nanos, number: u64) {
        let request = self.requests.get_mut(&number).filter(|_| self.params.hedge);
        let Some(pause) = request.map(|request| request.backoff.pause()) else { return };
        self.ask_at(Nanos(now.0 + pause.0), StoreEvent::AskAgain, number);
    }

    /// Handles a reader that waits for a request: schedules its hedge if that is worthwhile.
    fn is_waited_for(&mut self, now: Nanos, number: u64) {
        let sent = self.requests.get(&number).and_then(|request| request.sent);
        let Some(sent) = sent else { return };
        match self.hedging.joined(true) {
            Some(delay) if sent.0 + delay.0 <= now.0 => self.is_late(now, number),
            Some(delay) => self.ask_at(Nanos(sent.0 + delay.0), StoreEvent::AskAgain, number),
            None => self.ask_again(now, number),
        }
    }

    /// Handles the first byte of a command: the rest follows, and any other copy is cancelled.
    fn first_byte(&mut self, now: Nanos, number: u64) -> Option<CommandEnd> {
        let request = self.requests.remove(&number)?;
        self.limit.served();
        let sent = request.sent.expect("it was sent");
        self.hedging.answered(Nanos(now.0 - sent.0));
        let Store { connection_mb_per_s, link_mb_per_s, piece, .. } = self.params;
        let (from, total) = (now, request.bytes);
        // The link carries messages in turn: this one ends no later than all queued bytes would.
        self.link = later(from.max(self.link), transfer_ns(total, link_mb_per_s));
        let at = later(from, transfer_ns(total, connection_mb_per_s)).max(self.link);
        if request.is_connected {
            self.schedule(at, StoreEvent::Free);
        }
        self.bytes += total.0;
        self.send_waiting(now);
        let pieces = Some(CommandPieces { from, piece: piece.0, total });
        Some(CommandEnd { at, tag: request.tag, pieces })
    }

    /// Retries a refused request after a pause, like `object_store`: clients pause for different
    /// times.
    fn refused(&mut self, now: Nanos, number: u64, attempt: Attempt, sent: Nanos) {
        self.totals.throttled += 1;
        if self.params.back_off {
            self.limit.refused(now, sent);
        }
        let request = self.requests.get_mut(&number);
        if !attempt.is_copy {
            if let Some(request) = request {
                request.is_connected = false;
                request.refusals += 1;
                self.limit.end();
            }
        } else if request.is_none() {
            return;
        }
        let longest_ms = PAUSE_MS * f64::from(1_u32 << attempt.refusals.min(5));
        let pause_ms = PAUSE_MS + self.rng.unit() * longest_ms.min(PAUSE_MAX_MS);
        let again = Attempt { refusals: attempt.refusals + 1, ..attempt };
        self.schedule(later(now, pause_ms * 1e6), StoreEvent::Retry(number, again));
    }
}

impl BlockDevice for StoreLink {
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd> {
        self.count += 1;
        let request = StoreRequest {
            tag: command.tag,
            bytes: command.sectors.bytes(),
            is_demand: !command.is_ahead,
            sent: None,
            is_connected: false,
            is_copied: false,
            asks_at: Nanos(0),
            backoff: CopyBackoff::default(),
            refusals: 0,
        };
        self.requests.insert(self.count, request);
        self.waiting.push(!command.is_ahead, self.count);
        self.send_waiting(now);
        None
    }

    fn ended(&mut self, _now: Nanos, _tag: Tag) -> Option<CommandEnd> {
        None
    }

    fn joined(&mut self, now: Nanos, tag: Tag) {
        let found = self.requests.iter_mut().find(|(_, request)| request.tag == tag);
        let Some((&number, request)) = found else { return };
        let was_demand = mem::replace(&mut request.is_demand, true);
        // A request that waits for a connection becomes a demand read when it is sent.
        let Some(sent) = request.sent else { return };
        let delay = self.hedging.joined(was_demand).filter(|_| self.params.hedge);
        let Some(delay) = delay else { return self.ask_again(now, number) };
        self.ask_at(Nanos(sent.0 + delay.0).max(now), StoreEvent::Late, number);
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    fn wake(&mut self, now: Nanos) -> Option<CommandEnd> {
        let Reverse((at, _, event)) = self.events.pop()?;
        assert!(at <= now, "it is woken when it asked to be");
        self.happens(now, event)
    }

    #[expect(clippy::cast_precision_loss, reason = "money is rounded")]
    fn store_totals(&self) -> Option<StoreTotals> {
        let Store { price_per_1000_requests, price_per_gb, .. } = self.params;
        let cost = self.totals.requests as f64 / 1e3 * price_per_1000_requests
            + self.bytes as f64 / 1e9 * price_per_gb;
        Some(StoreTotals { cost, ..self.totals })
    }
}

/// Pauses of `object_store` with the options of `crates/object`.
const PAUSE_MS: f64 = 100.0;
const PAUSE_MAX_MS: f64 = 5000.0;

#[cfg(test)]
mod tests;
