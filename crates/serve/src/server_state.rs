//! State that all connections of a server share, and the signal that stops them.
//!
//! No lock is held while a connection blocks.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use foreread::Engine;

use crate::blocking_pool::BlockingPool;
use crate::budget::SharedBudget;
use crate::buffer_memory::BufferMemory;
use crate::connection::wait_mode::Spinners;
use crate::log::ClientLog;
use crate::map_probe::MapProbe;
use crate::open_connections::{OpenConnections, ServiceStart};
use crate::socket::Socket;
use crate::store::Store;
use crate::{CounterReader, Export, ServerLimits};

/// Handler of control requests; returns the text of the reply or of the error.
pub(crate) type ControlHandler = Box<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// State that all connections share.
pub(crate) struct ServerState {
    pub(crate) engine: Engine,
    pub(crate) export: Export,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: ServerLimits,
    pub(crate) meter: CounterReader,
    pub(crate) budget: Arc<SharedBudget>,
    pub(crate) buffers: BufferMemory,
    pub(crate) map_probe: MapProbe,
    pub(crate) spinners: Spinners,
    pub(crate) pool: Arc<BlockingPool>,
    pub(crate) answer: Option<ControlHandler>,
    pub(crate) log: ClientLog,
    pub(crate) stopper: Stopper,
    pub(crate) open: Mutex<OpenConnections>,
    /// Signalled when a connection ends.
    pub(crate) ended: Condvar,
    pub(crate) is_lost: AtomicBool,
}

/// Handle that stops a server from any thread.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    pub(crate) stop: Arc<StopSignal>,
}

#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    is_stopping: AtomicBool,
    /// Descriptor that wakes the server; set while it runs.
    pub(crate) wake: OnceLock<OwnedFd>,
}

impl Stopper {
    /// Stops the server: it accepts no new connections, answers requests in hand and flushes; then
    /// [`Server::run`](crate::Server::run) returns. Further calls have no effect.
    pub fn stop(&self) {
        self.stop.is_stopping.store(true, Ordering::SeqCst);
        if let Some(wake) = self.stop.wake.get() {
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }

    fn is_stopping(&self) -> bool {
        self.stop.is_stopping.load(Ordering::SeqCst)
    }
}

impl ServerState {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopper.is_stopping()
    }

    /// Waits for the connections to send their remaining replies and end. At the time limit, cuts
    /// off clients that read no replies or whose requests the device does not complete.
    pub(crate) fn let_go(&self) {
        let limit = self.limits.stop_timeout;
        let ends: [(fn(&Socket), _); 2] =
            [(Socket::stop_receiving, limit), (Socket::shut, limit.min(AFTER_SHUT))];
        for (end, limit) in ends {
            let open = self.lock();
            open.sockets().for_each(end);
            let ended = self.ended.wait_timeout_while(open, limit, |open| !open.is_empty());
            let (open, _) = ended.unwrap_or_else(PoisonError::into_inner);
            if open.is_empty() {
                return;
            }
        }
    }

    /// Stops the server after a panic, if the panic hit the engine's own state.
    pub(crate) fn look_after(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.engine.counters())).is_err() {
            self.is_lost.store(true, Ordering::Release);
            self.stopper.stop();
        }
    }

    /// Admits a client that has completed its handshake to the served connections.
    pub(crate) fn begin_service(&self, number: u32) -> ServiceStart {
        self.lock().begin_service(number)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        // Nothing panics while it holds this lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Grace period for connections that were cut off. Connections blocked on the device exceed it.
const AFTER_SHUT: Duration = Duration::from_secs(1);
