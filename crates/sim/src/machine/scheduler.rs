//! A scheduler in a scenario: `"noop"`, or `deadline = { fifo_batch = 16 }`.

use std::fmt;

use foreread_core::sched::SchedulerKind;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::validate::unknown;

/// A scheduler with its settings.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SchedulerSpec {
    /// The scheduler and its settings.
    pub choice: SchedulerKind,
}

impl<'de> Deserialize<'de> for SchedulerSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NameOrSettings)
    }
}

struct NameOrSettings;

impl<'de> Visitor<'de> for NameOrSettings {
    type Value = SchedulerSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a scheduler, or its name with settings")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<SchedulerSpec, E> {
        let choice = SchedulerKind::from_name(name);
        let choice =
            choice.ok_or_else(|| E::custom(unknown("scheduler", name, SchedulerKind::NAMES)))?;
        Ok(SchedulerSpec { choice })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SchedulerSpec, A::Error> {
        let Some(name) = map.next_key::<String>()? else {
            return Err(A::Error::custom(unknown("scheduler", "", SchedulerKind::NAMES)));
        };
        let mut scheduler: SchedulerSpec = self.visit_str(&name)?;
        let SchedulerSettings(settings) = map.next_value()?;
        for (name, value) in settings {
            scheduler.choice.set(&name, &value).map_err(A::Error::custom)?;
        }
        if let Some(second) = map.next_key::<String>()? {
            return Err(A::Error::custom(format!("a device has one scheduler, not {second} too")));
        }
        Ok(scheduler)
    }
}

/// Settings in the syntax of the command line.
struct SchedulerSettings(Vec<(String, String)>);

impl<'de> Deserialize<'de> for SchedulerSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let table = toml::Table::deserialize(from)?;
        let text = |(name, value): (&String, &toml::Value)| match value {
            toml::Value::String(text) => Ok((name.clone(), text.clone())),
            toml::Value::Integer(number) => Ok((name.clone(), number.to_string())),
            toml::Value::Float(number) => Ok((name.clone(), number.to_string())),
            toml::Value::Boolean(is_on) => Ok((name.clone(), is_on.to_string())),
            toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
                Err(D::Error::custom(format!("{name}: must be a number or a word")))
            }
        };
        table.iter().map(text).collect::<Result<_, _>>().map(Self)
    }
}
