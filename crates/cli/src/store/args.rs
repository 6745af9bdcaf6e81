//! Arguments of verbs that take URLs of objects.

use std::time::Duration;

use clap::Args;

use super::{CONNECTIONS_MAX, StoreAccess};
use crate::args::duration::duration;

/// Time limit of requests to object stores.
#[derive(Clone, Copy, Debug, Args)]
pub struct StoreArgs {
    /// If TARGET is a URL: time limit of a request, with all retries
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    deadline: Duration,
}

/// Limits of requests to object stores, for verbs that read many objects or for long.
#[derive(Clone, Copy, Debug, Args)]
pub struct StoreLimitArgs {
    /// If TARGET is a URL: never hedge a late request with a second one (by default at most 2 %
    /// extra requests)
    #[arg(long)]
    no_hedge: bool,

    /// If TARGET is a URL: largest number of requests in flight to its server, each on its own
    /// connection (1 to 64)
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    store_connections: u32,
}

impl StoreArgs {
    /// Returns the access with this time limit.
    pub fn access(self) -> StoreAccess {
        StoreAccess { deadline: self.deadline, ..StoreAccess::default() }
    }
}

impl StoreLimitArgs {
    /// Adds the limits to an access.
    pub fn limit(self, access: StoreAccess) -> StoreAccess {
        let Self { no_hedge, store_connections: connections } = self;
        StoreAccess { hedge: !no_hedge, connections, ..access }
    }
}
