//! Scheduling of object-store requests: hedging, in-flight limit, retries.
//!
//! In:    dispatches, first bytes and refusals as they happen, and the time.
//! Out:   when a second copy of a request is worth its price, how many requests may be in flight,
//!        which one is next, and when a refused one is sent again.
//! Never: a clock, a connection or data; more than [`BUDGET_PERCENT`] additional requests.
//!
//! Used by the driver of real requests and by the simulator's model of a store. Rationale and
//! figures: docs/guide/objects.md.

mod copy_backoff;
mod hedging;
mod latency_quantiles;
mod refusal_gate;
mod request_limit;
mod retry_pauses;
mod waiting_requests;

pub use copy_backoff::CopyBackoff;
pub use hedging::{BUDGET_PERCENT, Hedging};
pub use latency_quantiles::LatencyQuantiles;
pub use refusal_gate::RefusalGate;
pub use request_limit::RequestLimit;
pub use retry_pauses::RetryPauses;
pub use waiting_requests::WaitingRequests;
