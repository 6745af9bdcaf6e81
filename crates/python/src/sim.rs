//! The simulator: scenarios and traces in virtual time, for `foreread.sim`.
//!
//! In:    the text of a scenario, or the path of a trace; changes to it; a policy by name or as a
//!        Python object.
//! Out:   the figures of the command line's `--json`, distributions, pictures.
//! Never: a figure computed here instead of in the simulator, or a run while attached to the
//!        interpreter, except with a Python policy.

mod background;
mod figures;
mod policy;
mod residency;
mod scenario;
mod traces;

use std::ffi::OsStr;
use std::sync::atomic::Ordering;

use foreread_core::prefetch::Policy;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::device::known;
use foreread_sim::record::RecordMode;
use foreread_sim::{rival_policy, rivals};
use foreread_trace::TraceFormat;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use figures::FinishedRun;
pub(crate) use residency::LentResidency;
use scenario::ScenarioChanges;
pub(crate) use traces::RawTrace;

/// Returns the simulator's names: policies, devices, scenarios and so on.
#[pyfunction]
pub(crate) fn sim_names(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let names = PyDict::new(py);
    names.set_item("policies", rival_policy::all().map(Policy::name).collect::<Vec<_>>())?;
    let devices: Vec<_> = known::all().iter().map(|(name, _)| name.as_str()).collect();
    names.set_item("devices", devices)?;
    let scenarios: Vec<_> = rivals::all().iter().map(|rival| rival.name).collect();
    names.set_item("scenarios", scenarios)?;
    names.set_item("cache_policies", CachePolicyKind::ALL.map(CachePolicyKind::name))?;
    names.set_item("trace_formats", TraceFormat::ALL.map(TraceFormat::name))?;
    Ok(names)
}

/// Returns the text of a built-in scenario; None if the name is unknown.
#[pyfunction]
pub(crate) fn sim_scenario(name: &str) -> Option<&'static str> {
    rivals::find(name).map(|rival| rival.text)
}

/// Checks a scenario with its changes. The error names the line.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "an argument is extracted by value")]
pub(crate) fn sim_check(text: &str, changes: ScenarioChanges) -> PyResult<()> {
    changes.read(text).map(drop)
}

/// Runs a scenario. Returns its figures, and with `keeps_events` one line per event.
#[pyfunction]
#[pyo3(signature = (text, changes, keeps_events = false))]
pub(crate) fn sim_run(
    py: Python<'_>,
    text: String,
    changes: ScenarioChanges,
    keeps_events: bool,
) -> PyResult<Bound<'_, PyDict>> {
    // Loaded here, so that no thread is in the middle of it when Python forks.
    let _devices = known::all();
    let mode = if keeps_events { RecordMode::Lines } else { RecordMode::Hash };
    let ran = match changes.decider() {
        Some(decide) => {
            let check = || {
                if let Err(error) = py.check_signals() {
                    policy::fail(error);
                }
                policy::has_failed()
            };
            policy::with_python_policy(py, decide, || {
                run_until(&text, &changes, mode, STEPS_WITH_PYTHON, &check)
            })?
        }
        None => background::run(py, OsStr::new("foreread.sim"), move |stop| {
            run_until(&text, &changes, mode, STEPS, &|| stop.load(Ordering::Relaxed))
        })?,
    };
    figures::of_run(py, &ran?)
}

/// Runs a scenario to its end, or until `is_stopped`, which is called every `steps` events.
fn run_until(
    text: &str,
    changes: &ScenarioChanges,
    mode: RecordMode,
    steps: u64,
    is_stopped: &dyn Fn() -> bool,
) -> PyResult<FinishedRun> {
    let scenario = changes.read(text)?;
    let mut prepared = scenario.build(mode).map_err(PyValueError::new_err)?;
    while prepared.run.go_some(steps, scenario.until()) && !is_stopped() {}
    let policy = scenario.cache.policy.0.name();
    Ok(FinishedRun {
        policy: changes.policy_name().unwrap_or(policy).to_owned(),
        scenario,
        // The caller drops the figures of a stopped run.
        ran: prepared.run.end(),
    })
}

/// Steps between two checks for signals: some hundredths of a second.
const STEPS: u64 = 50_000;

/// Steps between checks when a Python policy decides.
const STEPS_WITH_PYTHON: u64 = 256;
