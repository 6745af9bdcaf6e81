//! How requests of an object store are sent: which late one is sent twice, how many are in flight.
//!
//! In:    requests as they are sent, first bytes and refusals as they come, the time.
//! Out:   when a second copy of a demand read is worth its price; how many requests may be in
//!        flight, and which is next.
//! Never: a clock, a connection, a byte. More than [`BUDGET_PERCENT`] more requests.
//!
//! A driver of requests asks them; the simulator's model of a store does, too. Reasons and figures:
//! docs/objects.md.

mod copy_backoff;
mod hedging;
mod latency_quantiles;
mod request_limit;
mod waiting_requests;

pub use copy_backoff::CopyBackoff;
pub use hedging::{BUDGET_PERCENT, Hedging};
pub use latency_quantiles::LatencyQuantiles;
pub use request_limit::RequestLimit;
pub use waiting_requests::WaitingRequests;
