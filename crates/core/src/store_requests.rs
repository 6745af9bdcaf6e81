//! How requests of an object store are sent: which late one is sent twice, how many are in flight.
//!
//! In:    requests as they are sent, first bytes and refusals as they come, the time.
//! Out:   when a second copy of a demand read is worth its price; how many requests may be in
//!        flight, and which is next; when a refused request is sent again.
//! Never: a clock, a connection, a byte. More than [`BUDGET_PERCENT`] more requests.
//!
//! A driver of requests asks them; the simulator's model of a store does, too. Reasons and figures:
//! docs/objects.md.

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
