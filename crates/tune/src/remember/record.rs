//! The record of a device: measurement, settings for each boot, and previous settings. `store`
//! reads and writes the files.

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::report::Report;
use crate::setting::DeviceSetting;

/// Record of a device, as in `/var/lib/foreread/ID.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// Stable identity.
    pub identity: Identity,
    /// Device name at the time of the measurement; another device may have it today.
    pub device: String,
    /// Date, as written by the caller.
    pub date: String,
    /// Report of the measurement.
    pub report: Report,
    /// Settings that the rule makes.
    pub settings: Vec<DeviceSetting>,
    /// Values of exactly these settings before the first change.
    pub before: Vec<DeviceSetting>,
    /// Settings that no udev rule can make because they belong to a file system: they last until it
    /// is unmounted.
    pub left_out: Vec<DeviceSetting>,
    /// Text of the rule's file as written.
    pub rule: String,
}
