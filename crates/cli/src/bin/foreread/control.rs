//! The control socket: how `stats` and `set` reach a server or a mount that runs.
//!
//! [`client`] sends requests; [`served`] answers them in the serving process.

pub(crate) mod client;
pub(crate) mod served;
