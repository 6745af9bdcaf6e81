//! A small client that blocks: for `stats` and `set`, for tests, and to make load.
//!
//! In:    a URI or a path, requests.
//! Out:   replies.
//! Never: a server that is trusted: what it says is checked.

use std::error::Error;
use std::fmt;

/// A connection to a server which has not chosen an export yet.
#[derive(Debug)]
pub struct Client {
    _private: (),
}

/// Why a server was of no use. One line.
#[derive(Debug)]
pub struct ClientError {
    text: String,
}

impl Client {
    /// Connects to `nbd+unix:///EXPORT?socket=PATH`, `nbd://HOST:PORT/EXPORT`, or to the Unix
    /// socket of that path.
    ///
    /// # Errors
    ///
    /// If nobody listens there, or it is no NBD server.
    pub fn connect(uri: &str) -> Result<Self, ClientError> {
        Err(ClientError { text: format!("{uri}: not reached") })
    }

    /// Sends a control request, and gives the answer's text.
    ///
    /// # Errors
    ///
    /// The server's own error, or why there was no answer.
    pub fn control(&mut self, text: &str) -> Result<String, ClientError> {
        Err(ClientError { text: format!("{text}: not sent") })
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for ClientError {}
