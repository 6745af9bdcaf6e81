//! Signal handling of servers and measurements.
//!
//! A second Ctrl-C always forces the exit.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

/// Makes a write beyond the file size limit (`ulimit -f`) fail, instead of ending this process. By
/// a handler, so that commands which we run get the signal's own meaning back.
pub fn survive_file_size_limit() {
    // If the system refuses it, the signal keeps its meaning.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Calls `stop` once, when SIGTERM or SIGINT comes. A second one of either has the signal's default
/// effect: it ends the process at once. SIGHUP is ignored: a server outlives its terminal. (So is
/// SIGPIPE, by Rust.)
pub fn on_signal(stop: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&is_second))?;
        flag::register(signal, Arc::clone(&is_second))?;
    }
    let mut stop = Some(stop);
    on_signals(move || {
        if let Some(stop) = stop.take() {
            stop();
        }
    })
}

/// Like [`on_signal`], but calls `stop` for each SIGTERM and SIGINT, one after another.
pub fn on_signals(mut stop: impl FnMut() + Send + 'static) -> io::Result<()> {
    // A handler that does nothing, so that commands which we run get the signal's own meaning back.
    flag::register(SIGHUP, Arc::default())?;
    let (mut heard, said) = UnixStream::pair()?;
    low_level::pipe::register(SIGTERM, said.try_clone()?)?;
    low_level::pipe::register(SIGINT, said)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut one = [0];
        while matches!(heard.read(&mut one), Ok(1)) {
            stop();
        }
    })?;
    Ok(())
}

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set, for measurements that poll it. A second one
/// has its default effect: it ends the process at once.
pub fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_default(signal, Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}
