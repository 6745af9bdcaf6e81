//! Parses a scenario and applies the caller's changes. The simulator checks the result as a whole;
//! errors name the line.

use std::collections::BTreeMap;

use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;
use foreread_sim::device::known;
use foreread_sim::replay::with_capacity;
use foreread_sim::rival_policy;
use foreread_sim::scenario::{MaxWindowSpec, PolicyName, Scenario};
use foreread_sim::size::Size;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::policy::PYTHON_POLICY;

/// The caller's changes to a scenario; for traces the policy and its limits.
pub(crate) struct ScenarioChanges {
    pub(super) policy: Option<PolicyChoice>,
    pub(super) memory: Option<u64>,
    /// Some(None): learnt.
    pub(super) max_window: Option<Option<u64>>,
    pub(super) device: Option<DeviceNames>,
    seed: Option<u64>,
    until_s: Option<f64>,
}

/// A policy by name, or the name and the method of a Python object.
pub(super) enum PolicyChoice {
    Named(Policy),
    OfPython(String, Py<PyAny>),
}

/// A known device for the only device of the scenario, or one per device name.
#[derive(FromPyObject)]
pub(super) enum DeviceNames {
    One(String),
    Each(BTreeMap<String, String>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for ScenarioChanges {
    type Error = PyErr;

    /// Extracts the changes from a dictionary with the optional keys `policy` (a name, or a pair of
    /// a name and a function), `memory`, `max_window` (bytes or "auto"), `device`, `seed`,
    /// `until_s`.
    fn extract(from: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let changes = from.cast::<PyDict>()?;
        let of = |key: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
            Ok(changes.get_item(key)?.filter(|value| !value.is_none()))
        };
        let max_window = match of("max_window")? {
            None => None,
            Some(value) if value.extract::<String>().is_ok_and(|text| text == "auto") => Some(None),
            Some(value) => Some(Some(window_of_pages(value.extract()?)?)),
        };
        Ok(Self {
            policy: of("policy")?.map(|value| PolicyChoice::of(&value)).transpose()?,
            memory: of("memory")?.map(|value| value.extract()).transpose()?,
            max_window,
            device: of("device")?.map(|value| value.extract()).transpose()?,
            seed: of("seed")?.map(|value| value.extract()).transpose()?,
            until_s: of("until_s")?.map(|value| value.extract()).transpose()?,
        })
    }
}

/// Checks that a largest window is in whole pages.
fn window_of_pages(bytes: u64) -> PyResult<u64> {
    let spec = MaxWindowSpec::of_pages(ByteCount(bytes));
    let wrong = |why| PyValueError::new_err(format!("max_window: {bytes}: {why}; or \"auto\""));
    spec.map(|_| bytes).map_err(wrong)
}

impl PolicyChoice {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok((name, decide)) = value.extract::<(String, Py<PyAny>)>() {
            return Ok(Self::OfPython(name, decide));
        }
        let name: String = value.extract()?;
        rival_policy::find(&name).map(Self::Named).ok_or_else(|| {
            let names: Vec<_> = rival_policy::all().map(Policy::name).collect();
            unknown("policy", &name, &names.join(", "))
        })
    }

    pub(super) fn policy(&self) -> Policy {
        match self {
            Self::Named(policy) => *policy,
            Self::OfPython(..) => PYTHON_POLICY,
        }
    }
}

impl ScenarioChanges {
    /// Returns the method of the Python policy, if there is one.
    pub(super) fn decider(&self) -> Option<&Py<PyAny>> {
        match self.policy.as_ref()? {
            PolicyChoice::Named(_) => None,
            PolicyChoice::OfPython(_, decide) => Some(decide),
        }
    }

    /// Returns the name of the Python policy, if there is one.
    pub(super) fn policy_name(&self) -> Option<&str> {
        match self.policy.as_ref()? {
            PolicyChoice::Named(_) => None,
            PolicyChoice::OfPython(name, _) => Some(name),
        }
    }

    /// Parses a scenario, applies the changes, and checks it again where they may have invalidated
    /// it.
    pub(super) fn read(&self, text: &str) -> PyResult<Scenario> {
        let wrong =
            |error: foreread_sim::scenario::BadScenario| PyValueError::new_err(error.to_string());
        let mut scenario = Scenario::parse(text).map_err(wrong)?;
        if let Some(choice) = &self.policy {
            scenario.cache.policy = PolicyName(choice.policy());
        }
        if let Some(memory) = self.memory {
            scenario.cache.memory = Size(ByteCount(memory));
        }
        if let Some(window) = self.max_window {
            scenario.cache.max_window = Some(window.map(ByteCount).into());
        }
        if let Some(names) = &self.device {
            names.set(&mut scenario)?;
        }
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.until_s = self.until_s.or(scenario.until_s);
        if self.memory.is_some() || self.device.is_some() || self.until_s.is_some() {
            scenario.check(text).map_err(wrong)?;
        }
        Ok(scenario)
    }
}

impl DeviceNames {
    /// Replaces devices of a scenario by known ones, enlarged to fit their files.
    fn set(&self, scenario: &mut Scenario) -> PyResult<()> {
        let names: Vec<&str> = scenario.device.keys().map(String::as_str).collect();
        let names = names.join(", ");
        let choices: Vec<(String, &str)> = match self {
            Self::Each(each) => each.iter().map(|(of, name)| (of.clone(), name.as_str())).collect(),
            Self::One(name) if scenario.device.len() == 1 => {
                scenario.device.keys().map(|of| (of.clone(), name.as_str())).collect()
            }
            Self::One(name) => {
                return Err(PyValueError::new_err(format!(
                    "device: the scenario has several: {names}; choose one, as in {{{:?}: \
                     {name:?}}}",
                    scenario.device.keys().next().map_or("disk", String::as_str)
                )));
            }
        };
        for (of, name) in choices {
            let ends = scenario.file.values().filter(|file| *file.device.get_ref() == of);
            let end = ends.map(|file| file.at.0.0.saturating_add(file.size.0.0)).max();
            let model = find_device(name)?;
            let Some(spec) = scenario.device.get_mut(&of) else {
                return Err(unknown("device of the scenario", &of, &names));
            };
            // Keep the old span, so that errors refer to the line of the device.
            let model_here = spec.model.get_mut();
            model_here.model = with_capacity(&model.model, end.unwrap_or(0));
            model_here.name = model.name;
        }
        Ok(())
    }

    /// Returns the single device of a replay.
    pub(super) fn only(&self) -> PyResult<&str> {
        match self {
            Self::One(name) => Ok(name),
            Self::Each(_) => {
                Err(PyValueError::new_err("device: a replay has one; give the name of a model"))
            }
        }
    }
}

/// Returns the known device of this name.
pub(super) fn find_device(name: &str) -> PyResult<foreread_sim::device::ModelChoice> {
    known::find(name).ok_or_else(|| {
        let names: Vec<_> = known::all().iter().map(|(name, _)| name.as_str()).collect();
        unknown("device model", name, &names.join(", "))
    })
}

/// Returns the error for an unknown name.
pub(super) fn unknown(kind: &str, name: &str, names: &str) -> PyErr {
    PyValueError::new_err(format!("no {kind} {name:?}; choose one of {names}"))
}
