//! The server: listeners, threads of connections, and the shutdown.
//!
//! In:    an engine, an export, addresses.
//! Out:   one thread for each connection.
//! Never: an error or panic of one connection that ends another.
//!
//! ```text
//!   run: poll --+-- listener: accept --> thread --> connection --+--> done, or a line in the log
//!               |      too many: closed, a line                  '--> panic: a line; if the
//!               +-- stop                                               engine is lost, stop
//!                    '--> no listener, no receiving; replies go out; flush; back to the caller
//! ```

mod last_flush;
mod listen;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use foreread::Engine;
use foreread_files::SocketFile;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::budget::SharedBudget;
use crate::buffer_memory::BufferMemory;
use crate::connection::end::ConnectionEnd;
use crate::connection::wait_mode::Spinners;
use crate::log::{ClientLog, RetriedError};
use crate::map_probe::MapProbe;
use crate::open_connections::{Admission, ClientKind, OpenConnections};
use crate::server_state::{ControlHandler, ServerState, Stopper};
use crate::socket::{Peer, Socket, wait};
use crate::store::Store;
use crate::{
    CounterReader, Counters, Export, Overlay, ServeError, ServerLimits, clock, connection,
};
use last_flush::LastFlush;
use listen::{Listener, NamedSocket};

/// An NBD server of one export.
pub struct Server {
    shared: ServerState,
    listeners: Vec<Listener>,
    /// Prepared before the first client connects; None for a read-only export.
    last_flush: Option<LastFlush>,
}

impl Server {
    /// Creates a server without listeners.
    ///
    /// # Panics
    ///
    /// If the export's range exceeds its file.
    #[must_use]
    pub fn new(engine: Engine, export: Export, limits: ServerLimits) -> Self {
        let store = Arc::new(export.file.clone());
        let export = Export { read_only: export.read_only || !export.file.is_writable(), ..export };
        Self::of_store(engine, export, limits, store)
    }

    /// Creates a server that writes to an overlay; the base is the export's file.
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    #[must_use]
    pub fn with_overlay(
        engine: Engine,
        export: Export,
        limits: ServerLimits,
        overlay: Overlay,
    ) -> Self {
        let export = Export { file: overlay.base().clone(), ..export };
        Self::of_store(engine, export, limits, Arc::new(overlay))
    }

    fn of_store(
        engine: Engine,
        export: Export,
        limits: ServerLimits,
        store: Arc<dyn Store>,
    ) -> Self {
        let (range, len) = (&export.range, export.file.len());
        assert!(range.start <= range.end && range.end <= len, "{range:?} of {len} bytes");
        let frames = engine.frames().map_or(0, |(_, all)| all);
        let memory = usize::try_from(frames).unwrap_or(usize::MAX).saturating_mul(4096);
        let share = (memory / 8).clamp(LEAST_SHARED, MOST_SHARED);
        let shared = ServerState {
            engine,
            export,
            store,
            spinners: Spinners::new(),
            budget: Arc::new(SharedBudget::new(limits.shared_bytes.unwrap_or(share))),
            open: Mutex::new(OpenConnections::new(limits.connections)),
            buffers: BufferMemory::default(),
            map_probe: MapProbe::new(),
            limits,
            meter: CounterReader::default(),
            pool: Arc::default(),
            answer: None,
            log: ClientLog::default(),
            stopper: Stopper::default(),
            ended: Condvar::new(),
            is_lost: AtomicBool::new(false),
        };
        Self { shared, listeners: Vec::new(), last_flush: None }
    }

    /// Listens on a Unix socket that only its owner can connect to. A stale socket file is
    /// replaced; [`Self::run`] removes the file when it returns. Returns the file, for a process
    /// that exits without that.
    ///
    /// # Errors
    ///
    /// If another server listens there, if the path names anything but a socket, or if the system
    /// refuses it or the threads of the last flush; the error says what to do.
    pub fn unix(&mut self, path: impl AsRef<Path>) -> Result<SocketFile, ServeError> {
        self.prepare_last_flush()?;
        let named = NamedSocket::bind(path.as_ref())?;
        let file = named.file();
        self.listeners.push(Listener::Unix(named));
        Ok(file)
    }

    /// Listens on a TCP address and returns it; port 0 selects a free port.
    ///
    /// # Errors
    ///
    /// If the system refuses the address, or the threads of the last flush.
    pub fn tcp(&mut self, addr: SocketAddr) -> Result<SocketAddr, ServeError> {
        self.prepare_last_flush()?;
        let failed = |source| ServeError::Tcp { addr, source };
        let listener = TcpListener::bind(addr).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        self.listeners.push(Listener::Tcp(listener));
        Ok(addr)
    }

    /// Allocates the resources of the last flush before any write can be acknowledged.
    fn prepare_last_flush(&mut self) -> Result<(), ServeError> {
        if self.last_flush.is_none() && !self.shared.export.read_only {
            self.last_flush = Some(LastFlush::prepare()?);
        }
        Ok(())
    }

    /// Returns a handle that stops the server from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.shared.stopper.clone()
    }

    /// Returns a reader of the server's counters that works while it runs.
    #[must_use]
    pub fn counter_reader(&self) -> CounterReader {
        self.shared.meter.clone()
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.meter.counters()
    }

    /// Sets the handler of control requests, which are accepted over Unix sockets only. Without a
    /// handler they are refused.
    pub fn on_control(&mut self, answer: ControlHandler) {
        self.shared.answer = Some(answer);
    }

    /// Sets the sink for log lines about misbehaving clients, which are rate-limited; default:
    /// stderr.
    pub fn on_log(&mut self, sink: Box<dyn Fn(&str) + Send + Sync>) {
        self.shared.log = ClientLog::to(sink);
    }

    /// Serves until it is stopped; then it answers requests in hand and flushes. That takes at most
    /// [`ServerLimits::stop_timeout`] plus [`ServerLimits::exit_timeout`] and a few seconds.
    ///
    /// # Errors
    ///
    /// If the server cannot continue, or the last flush fails or exceeds its time limit. After a
    /// time-out a thread may still block on the device, and dropping the last handle to the engine
    /// may block, too: a caller that must exit keeps a handle and exits the process.
    pub fn run(self) -> Result<(), ServeError> {
        let Self { shared, listeners, last_flush } = self;
        let shared = Arc::new(shared);
        let system = |doing| move |source| ServeError::System { doing, source };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(io::Error::from).map_err(system("make an eventfd"))?;
        let wake = shared.stopper.stop.wake.get_or_init(|| wake);
        let accepted = accept_all(&shared, &listeners, wake);
        drop(listeners);
        shared.let_go();
        shared.pool.close();
        accepted.map_err(system("wait for connections"))?;
        if shared.is_lost.load(Ordering::Acquire) {
            return Err(ServeError::Lost);
        }
        last_flush.map_or(Ok(()), |last_flush| last_flush.run(&shared))
    }

    #[cfg(test)]
    fn with_store(mut self, store: Arc<dyn Store>) -> Self {
        self.shared.store = store;
        self
    }
}

/// Accepts connections until the server is stopped.
fn accept_all(shared: &Arc<ServerState>, listeners: &[Listener], wake: &OwnedFd) -> io::Result<()> {
    let mut next = 1;
    let mut failures = RetriedError::default();
    while !shared.is_stopping() {
        let fds = listeners.iter().map(Listener::as_fd).chain([wake.as_fd()]);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (listener, _) in listeners.iter().zip(is_ready).filter(|(_, is_ready)| *is_ready) {
            match listener.accept() {
                Ok(Some(socket)) => {
                    failures.succeeded();
                    ServerState::welcome(shared, socket, next, listener.client_kind());
                    next = next_number(shared, next);
                }
                Ok(None) => {}
                Err(error) => {
                    // Mostly out of descriptors: a connection that ends frees some.
                    if failures.is_new(&error) {
                        let line = format_args!("new clients wait: cannot accept: {error}");
                        shared.log.line(clock::now(), &line);
                    }
                    wait([(wake.as_fd(), PollFlags::IN)], Some(PAUSE))?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the next number that no open connection has.
fn next_number(shared: &ServerState, number: u32) -> u32 {
    let open = shared.lock();
    let mut next = number.wrapping_add(1).max(1);
    while open.has(next) {
        next = next.wrapping_add(1).max(1);
    }
    next
}

impl ServerState {
    /// Serves a client in a new thread, if it is admitted.
    fn welcome(shared: &Arc<Self>, socket: Socket, number: u32, kind: ClientKind) {
        let socket = Arc::new(socket);
        let counts = shared.meter.counts();
        if !shared.map_probe.could_map(shared.budget.total() + CONNECTIONS_RESERVE) {
            // A failed allocation would abort the process, and with it all clients.
            let why = "refused: no memory for another connection (ulimit -v)";
            return shared.refused(socket.peer, &why);
        }
        let admission = shared.lock().admit(number, &socket, kind);
        match admission {
            Admission::Admitted => {}
            Admission::Replaced(oldest) => {
                shared
                    .refused(oldest.peer, &"closed during its handshake, to admit a newer client");
            }
            Admission::Full => return shared.refused_as_full(socket.peer),
        }
        counts.accepted.fetch_add(1, Ordering::Relaxed);
        counts.connections.fetch_add(1, Ordering::Relaxed);
        let client = ClientThread { shared: Arc::clone(shared), socket, number, kind };
        let thread = std::thread::Builder::new().name("foreread-nbd".into()).stack_size(STACK);
        let peer = client.socket.peer;
        // Without a thread, the client is dropped and thereby closed.
        if let Err(error) = thread.spawn(move || client.run()) {
            shared.log.line(
                clock::now(),
                &format_args!("{peer}: refused: cannot create a thread: {error}"),
            );
        }
    }

    fn refused_as_full(&self, peer: Peer) {
        let max = self.limits.connections;
        self.refused(peer, &format_args!("refused: {max} connections are open"));
    }

    fn refused(&self, peer: Peer, why: &dyn fmt::Display) {
        self.meter.counts().refused.fetch_add(1, Ordering::Relaxed);
        self.log.line(clock::now(), &format_args!("{peer}: {why}"));
    }
}

/// Thread of a client; its drop removes the client from the open connections.
struct ClientThread {
    shared: Arc<ServerState>,
    socket: Arc<Socket>,
    number: u32,
    kind: ClientKind,
}

impl ClientThread {
    fn run(self) {
        let Self { shared, socket, number, kind } = &self;
        let has_control = *kind == ClientKind::Local;
        let serve = || connection::serve(shared, socket, *number, has_control);
        match catch_unwind(AssertUnwindSafe(serve)) {
            Ok(Ok(())) => {}
            Ok(Err(ConnectionEnd::Full)) => shared.refused_as_full(socket.peer),
            Ok(Err(end)) if end.is_worth_a_line() => {
                shared.meter.counts().misbehaved.fetch_add(1, Ordering::Relaxed);
                shared.log.line(clock::now(), &format_args!("{}: closed: {end}", socket.peer));
            }
            Ok(Err(_)) => {}
            Err(_) => {
                let line = format_args!("{}: closed: the server panicked", socket.peer);
                shared.log.line(clock::now(), &line);
                shared.look_after();
            }
        }
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        self.socket.shut();
        self.shared.meter.counts().connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.lock().remove(self.number);
        self.shared.ended.notify_all();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared: ServerState { export, limits, .. }, listeners, .. } = self;
        let mut debug = f.debug_struct("Server");
        debug.field("export", export).field("limits", limits).field("listeners", listeners);
        debug.finish_non_exhaustive()
    }
}

/// Memory that must be mappable beyond the budget of all replies when a connection is admitted: for
/// its stack and buffers, those of others just admitted, and threads of the blocking pool.
const CONNECTIONS_RESERVE: usize = 32 << 20;
/// Stack of a connection's thread: calls into the core and the ring are not deep.
const STACK: usize = 256 << 10;
/// Least budget of replies, even with a small cache: a few pieces.
const LEAST_SHARED: usize = 4 << 20;
/// Largest budget of replies: enough for clients that read; others need none.
const MOST_SHARED: usize = 64 << 20;
/// Pause after a failed accept, such as without free descriptors.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
