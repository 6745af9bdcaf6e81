//! A device model as an argument: the name of a known device, or a file with one.
//!
//! A value with a `/` or the extension `.toml` is a path. The file is read after all arguments are
//! parsed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};
use foreread_sim::device::{DeviceParams, ModelChoice, known};
use foreread_sim::scenario::NamedDevice;

use foreread_cli::output::{Failure, plain};

/// Requested model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DeviceModelArg {
    /// Known device.
    Known(ModelChoice),
    /// File with a model.
    File(PathBuf),
}

/// Model with its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChosenDevice {
    /// Name of a known device, or the name from a file followed by the file's.
    pub(crate) name: String,
    /// The parameters.
    pub(crate) model: DeviceParams,
}

impl DeviceModelArg {
    /// Returns the model, reading its file if needed.
    pub(crate) fn load(&self) -> Result<ChosenDevice, Failure> {
        match self {
            Self::Known(choice) => {
                let name = choice.name.expect("the parser takes known devices only").to_owned();
                Ok(ChosenDevice { name, model: choice.model.clone() })
            }
            Self::File(path) => {
                let wrong =
                    |why: String| Failure::WrongUse(format!("--device {}: {why}", path.display()));
                let text = text_of(path).map_err(|error| wrong(error.to_string()))?;
                let device = NamedDevice::parse(&text).map_err(|error| wrong(error.to_string()))?;
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                let name = plain(&format!("{} ({file})", device.name));
                Ok(ChosenDevice { name, model: device.model })
            }
        }
    }
}

/// Reads a file up to the maximum length of a model; larger or endless files are refused.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let len = File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if len as u64 > LONGEST {
        return Err(io::Error::other("is longer than a device model is"));
    }
    Ok(text)
}

const LONGEST: u64 = 64 << 10;

/// Returns the parser of `--device`.
pub(crate) fn device_models() -> impl TypedValueParser<Value = DeviceModelArg> {
    let names = known::all().iter().map(|(name, _)| name.as_str());
    DeviceModelParser(PossibleValuesParser::new(names))
}

#[derive(Clone)]
struct DeviceModelParser(PossibleValuesParser);

impl TypedValueParser for DeviceModelParser {
    type Value = DeviceModelArg;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<DeviceModelArg, clap::Error> {
        if is_path(value) {
            return Ok(DeviceModelArg::File(PathBuf::from(value)));
        }
        let name = self.0.parse_ref(command, arg, value)?;
        // The parser has let through only the names of `known::all`.
        let choice = known::find(&name).expect("the parser accepts only names of known::all");
        Ok(DeviceModelArg::Known(choice))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

fn is_path(value: &OsStr) -> bool {
    let bytes = value.as_encoded_bytes();
    bytes.contains(&b'/') || bytes.ends_with(b".toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_slash_or_the_ending_of_a_file() {
        let is = |text: &str| is_path(OsStr::new(text));
        assert!(is("sda.toml") && is("./sda") && is("/models/sda"));
        assert!(!is("cloud-gp3") && !is("toml") && !is(""));
    }
}
