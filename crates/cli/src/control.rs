//! The control socket: how `stats` and `set` reach a server or a mount that runs.
//!
//! [`client`] asks; [`served`] answers, in the process that serves.

pub(crate) mod client;
pub(crate) mod served;
