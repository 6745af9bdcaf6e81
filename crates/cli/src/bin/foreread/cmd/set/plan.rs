//! A change of tunables with every option resolved. `args` makes it.

/// One run of `foreread set`.
#[derive(Debug)]
pub(super) struct TunablesPlan {
    /// Unix socket of the server, or its NBD URI.
    pub(super) socket: String,
    /// Tunables to change, with their values; empty: all are listed.
    pub(super) settings: Vec<(String, String)>,
    pub(super) is_json: bool,
}
