//! Read-ahead policies written in Python. The core holds a stateless policy, which forwards each
//! question to the object of the current thread's run. The first exception of the object ends the
//! run, and is raised again unchanged.

use std::cell::RefCell;
use std::rc::Rc;

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Policy, Residency, StreamState, Stride, Trigger, Window,
    WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::residency::lend;

/// The policy that forwards to the Python object of the run.
pub(super) const PYTHON_POLICY: Policy = Policy::Custom(&PythonPolicy);

thread_local! {
    /// Python policy of the run in this thread, and its first exception.
    static RUNNING: RefCell<Option<Rc<RunningPolicy>>> = const { RefCell::new(None) };
}

struct RunningPolicy {
    decide: Py<PyAny>,
    failure: RefCell<Option<PyErr>>,
}

/// Runs `act` with a Python policy: each decision is a call of `decide`.
///
/// # Errors
///
/// The first exception of `decide`.
pub(super) fn with_python_policy<T>(
    py: Python<'_>,
    decide: &Py<PyAny>,
    act: impl FnOnce() -> T,
) -> PyResult<T> {
    let policy =
        Rc::new(RunningPolicy { decide: decide.clone_ref(py), failure: RefCell::default() });
    // A policy may run a nested simulation: the outer run's policy is restored after it.
    let outer = RUNNING.replace(Some(Rc::clone(&policy)));
    let restore = RestoreOuter(Some(outer));
    let result = act();
    drop(restore);
    match policy.failure.take() {
        Some(error) => Err(error),
        None => Ok(result),
    }
}

/// Fails the run of this thread with an exception, unless it has already failed.
pub(super) fn fail(error: PyErr) {
    if let Some(policy) = RUNNING.with_borrow(Clone::clone) {
        policy.failure.borrow_mut().get_or_insert(error);
    }
}

/// Returns true if the run of this thread has failed.
pub(super) fn has_failed() -> bool {
    RUNNING.with_borrow(|policy| {
        policy.as_ref().is_some_and(|policy| policy.failure.borrow().is_some())
    })
}

struct RestoreOuter(Option<Option<Rc<RunningPolicy>>>);

impl Drop for RestoreOuter {
    fn drop(&mut self) {
        if let Some(outer) = self.0.take() {
            RUNNING.set(outer);
        }
    }
}

#[derive(Debug)]
struct PythonPolicy;

impl CustomPolicy for PythonPolicy {
    fn name(&self) -> &'static str {
        "python"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let policy = RUNNING.with_borrow(Clone::clone);
        let policy = policy.expect("a run with this policy is inside of with_python_policy");
        if has_failed() {
            return None;
        }
        match Python::attach(|py| policy.answer(py, state, ask, limits, cache)) {
            Ok(decision) => decision,
            Err(error) => {
                fail(error);
                None
            }
        }
    }
}

/// Start, size and async size.
type WindowFields = (u64, u64, u64);
/// Name of the pattern; window; for `strided`, also the distance of its reads and their length.
type DecisionFields = (String, WindowFields, Option<(u64, u64)>);

impl RunningPolicy {
    /// Calls the object, and stores its per-stream state.
    fn answer(
        &self,
        py: Python<'_>,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> PyResult<Option<Decision>> {
        let question = (
            ask.page.0,
            ask.count.0,
            ask.trigger == Trigger::Marker,
            ask.prev_pos.map(|pos| pos.0),
            ask.has_waited,
        );
        let stream = (fields(state.window), fields(state.fetched), state.memory.to_vec());
        let limits = (limits.max.0, limits.io_pages.0);
        let answer =
            lend(py, cache, |cache| self.decide.bind(py).call1((question, stream, limits, cache)))?;
        let (decision, memory): (Option<DecisionFields>, [u64; 8]) = answer.extract()?;
        state.memory = memory;
        decision.map(|decision| decision_of(&decision)).transpose()
    }
}

fn fields(window: Window) -> WindowFields {
    (window.start.0, window.size.0, window.async_size.0)
}

fn decision_of((name, window, stride): &DecisionFields) -> PyResult<Decision> {
    let (start, size, async_size) = *window;
    if size == 0 || start.checked_add(size).is_none_or(|end| end > MAX_PAGES) {
        return Err(PyValueError::new_err(format!(
            "a window of {size} pages from page {start}: must have at least one page and end \
             within 2^51 pages"
        )));
    }
    let pattern = pattern_of(name, *stride)?;
    let window =
        Window { start: PageIndex(start), size: Pages(size), async_size: Pages(async_size) };
    Ok(Decision { pattern, window })
}

fn pattern_of(name: &str, stride: Option<(u64, u64)>) -> PyResult<Pattern> {
    if name == "strided" {
        return match stride {
            Some((every, read)) if read > 0 && every >= read => {
                Ok(Pattern::Strided(Stride { every: Pages(every), read: Pages(read) }))
            }
            Some(_) | None => Err(PyValueError::new_err(
                "a 'strided' decision requires every and read, with 1 <= read <= every",
            )),
        };
    }
    let known = PATTERNS.into_iter().find(|pattern| pattern.name() == name);
    known.ok_or_else(|| {
        let names = PATTERNS.map(Pattern::name).join(", ");
        PyValueError::new_err(format!("no pattern {name:?}; choose one of {names}, strided"))
    })
}

/// Patterns without fields.
const PATTERNS: [Pattern; 9] = [
    Pattern::Initial0,
    Pattern::Initial,
    Pattern::Oversize,
    Pattern::Subsequent,
    Pattern::Context,
    Pattern::Interleaved,
    Pattern::Backwards,
    Pattern::Thrash,
    Pattern::Random,
];

/// Largest number of pages in a file: 2^63 bytes.
const MAX_PAGES: u64 = 1 << 51;
