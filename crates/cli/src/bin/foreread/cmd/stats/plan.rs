//! A query for statistics with every option resolved. `args` makes it.

/// One run of `foreread stats`.
#[derive(Debug)]
pub(super) struct StatsPlan {
    /// Unix socket of the server, or its NBD URI.
    pub(super) socket: String,
    pub(super) is_json: bool,
}
