//! The record of a device: what was measured, what is set at each start, and what was set before.
//!
//! In:    a measurement and its settings.
//! Out:   [`Remembered`], as it stands in `/var/lib/foreread/ID.json`.
//! Never: a file; `store` reads and writes them.

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::report::Report;
use crate::setting::DeviceSetting;

/// What is kept of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// What stays the same of it.
    pub identity: Identity,
    /// Its name when it was measured; another device may have it today.
    pub device: String,
    /// When, as the caller wrote it.
    pub date: String,
    /// What was found.
    pub report: Report,
    /// What the rule sets.
    pub settings: Vec<DeviceSetting>,
    /// What was set before any of this, of those and only of those.
    pub before: Vec<DeviceSetting>,
    /// What no udev rule can set, because it belongs to a file system: it lasts as long as that
    /// is mounted.
    pub left_out: Vec<DeviceSetting>,
    /// The rule's file as it was written.
    pub rule: String,
}
