//! The extension module of the Python package: `foreread._foreread`.
//!
//! In:    calls of Python, from any thread.
//! Out:   bytes, views of pinned pages, exceptions.
//! Never: a wait, for the device or for a lock, while the thread is attached to the interpreter.
//!
//! The public API is in `python/foreread`; design and limits are in docs/guide/python.md.

mod asynchronous;
#[cfg(feature = "objects")]
mod blocking_call;
mod buffer;
mod engine;
mod errors;
mod fetcher;
mod file;
mod fork;
#[cfg(feature = "objects")]
mod objects;
mod pinned;
mod shutdown;
mod sim;
mod waiting;

use pyo3::prelude::*;

/// Classes and functions for the Python modules of the package.
#[pymodule(gil_used = false)]
mod _foreread {
    #[pymodule_export]
    use super::asynchronous::{LoopNotifier, PendingRead};
    #[pymodule_export]
    use super::engine::RawEngine;
    #[pymodule_export]
    use super::errors::{EngineForkedError, ObjectChangedError, PinLimitError};
    #[pymodule_export]
    use super::fetcher::{FetchJob, FetchServer};
    #[pymodule_export]
    use super::file::RawFile;
    #[pymodule_export]
    use super::fork::note_fork;
    #[pymodule_export]
    use super::pinned::{PinnedPart, PinnedRange};
    #[pymodule_export]
    use super::shutdown::note_exit;
    #[pymodule_export]
    use super::sim::{LentResidency, RawTrace, sim_check, sim_names, sim_run, sim_scenario};

    use pyo3::prelude::*;

    /// Adds the names of the engine's policies, and its default memory.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("POLICIES", foreread::Policy::ALL.map(foreread::Policy::name))?;
        module.add("DEFAULT_MEMORY", foreread::DEFAULT_MEMORY)
    }
}
