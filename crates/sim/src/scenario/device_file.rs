//! A device in a separate file: a single table `[device.NAME]`, as `foreread tune --device-model`
//! writes it. It has no scheduler and no changes: a replay sets its own.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::BadScenario;
use crate::device::{DeviceParams, ModelChoice};

/// A device model and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedDevice {
    /// Name of the device.
    pub name: String,
    /// Parameters of the device.
    pub model: DeviceParams,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    device: BTreeMap<String, ModelTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    model: Spanned<ModelChoice>,
}

impl NamedDevice {
    /// Parses and checks a file with one device.
    ///
    /// ```
    /// use foreread_sim::scenario::NamedDevice;
    ///
    /// let text = "[device.sda.model.flash]\ncapacity = '1G'\nmb_per_s = 500.0\n";
    /// let device = NamedDevice::parse(text)?;
    /// assert_eq!(device.name, "sda");
    /// # Ok::<(), foreread_sim::scenario::BadScenario>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The line with the error, and the reason.
    pub fn parse(text: &str) -> Result<Self, BadScenario> {
        let file: DeviceFile =
            toml::from_str(text).map_err(|error| BadScenario::of_toml(text, &error))?;
        let mut devices = file.device;
        let count = devices.len();
        let first = devices.pop_first().filter(|_| count == 1);
        let Some((name, device)) = first else {
            let why = format!("device: expected one table [device.NAME], not {count}");
            return Err(BadScenario::of_key(text, why));
        };
        let at = device.model.span();
        let model = device.model.into_inner().model;
        match model.build() {
            Ok(_) => Ok(Self { name, model }),
            Err(why) => {
                let of_key = BadScenario::of_key(text, why.clone());
                let is_found = of_key.line.is_some();
                Err(if is_found { of_key } else { BadScenario::at(text, Some(at), why) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (Option<usize>, String) {
        let error = NamedDevice::parse(text).expect_err(text);
        (error.line, error.why)
    }

    #[test]
    fn a_file_has_the_table_of_a_scenario() {
        let text = "# a comment\n[device.\"/mnt/nfs\".model.hdd]\ncapacity = 4096\nrpm = 7200\n\
                    outer_mb_per_s = 100\ninner_mb_per_s = 100\nseek_min_ms = 1\nseek_max_ms = 9\n";
        let device = NamedDevice::parse(text).expect("it is right");
        assert_eq!(device.name, "/mnt/nfs");
        assert!(matches!(device.model, DeviceParams::Hdd(disk) if disk.rpm == 7200.0));
        let by_name = NamedDevice::parse("device.a.model = 'cloud-gp3'").expect("a known one");
        assert_eq!(by_name.model.geometry().depth, 64);
    }

    #[test]
    fn an_error_has_the_line_and_the_key() {
        let head = "[device.sda.model.flash]\ncapacity = '1G'\n";
        let is = |text: &str, line: usize, part: &str| {
            let (at, why) = wrong(text);
            assert_eq!(at, Some(line), "{text}: {why}");
            assert!(why.contains(part), "{text}: {why}");
        };
        is(&format!("{head}mb_per_s = -1.0\n"), 3, "mb_per_s: must be 0.001 to 1000000");
        is(&format!("{head}mb_per_s = 10\nrate = 3\n"), 4, "unknown field `rate`");
        is(&format!("{head}mb_per_s = 'fast'\n"), 3, "invalid type");
        is(head, 1, "missing field `mb_per_s`");
        is("[device.a]\nmodel = 'sdx'\n", 2, "no device model \"sdx\"");
        is("[device.a]\nmodel = 'sd-card'\nscheduler = 'noop'\n", 3, "unknown field `scheduler`");
        is("name = 'a scenario'\n", 1, "unknown field `name`");
        is("[device.a]\nmodel = \n", 2, "");
        let two = "device.a.model = 'sd-card'\ndevice.b.model = 'sd-card'\n";
        assert!(wrong(two).1.contains("expected one table [device.NAME], not 2"));
        assert!(wrong("[device]\n").1.contains("not 0"));
        assert!(wrong("").1.contains("missing field `device`"));
    }
}
