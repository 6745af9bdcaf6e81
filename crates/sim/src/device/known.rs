//! Devices by name: models whose parameters were fitted to published figures. The sources are in
//! `devices.toml`, next to each device.

use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::params::{DeviceParams, ModelChoice};
use crate::validate::unknown;

/// Returns the names and the parameters of all known devices.
///
/// # Panics
///
/// If `devices.toml`, which is part of the program, is malformed.
#[must_use]
pub fn all() -> &'static [(String, DeviceParams)] {
    static ALL: OnceLock<Vec<(String, DeviceParams)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let table: toml::Table =
            toml::from_str(DEVICES).expect("devices.toml is part of the program");
        let model =
            |value: toml::Value| value.try_into().expect("each entry of devices.toml is a model");
        table.into_iter().map(|(name, value)| (name, model(value))).collect()
    })
}

/// Returns the device with this name.
#[must_use]
pub fn find(name: &str) -> Option<ModelChoice> {
    let (name, model) = all().iter().find(|(known, _)| known == name)?;
    Some(ModelChoice { name: Some(name), model: model.clone() })
}

const DEVICES: &str = include_str!("devices.toml");

impl<'de> Deserialize<'de> for ModelChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NameOrParameters)
    }
}

struct NameOrParameters;

impl<'de> Visitor<'de> for NameOrParameters {
    type Value = ModelChoice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a device, or hdd, flash, store or mapped with parameters")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ModelChoice, E> {
        find(name).ok_or_else(|| {
            let names = all().iter().map(|(name, _)| name);
            E::custom(unknown("device model", name, names))
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModelChoice, A::Error> {
        let model = DeviceParams::deserialize(MapAccessDeserializer::new(map))?;
        Ok(ModelChoice { name: None, model })
    }
}
