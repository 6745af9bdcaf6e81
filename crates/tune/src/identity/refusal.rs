//! Reasons why a device cannot be remembered, each with a line that states the remedy.

use std::fmt;

/// Reason why a device has no identity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NoIdentity {
    /// There is no such device.
    NotThere {
        /// Requested name.
        device: String,
    },
    /// The device has no stable, unique attribute.
    Nothing {
        /// Device name.
        device: String,
        /// Reason.
        why: &'static str,
    },
    /// The identity of the device has a character that a udev rule cannot contain.
    NotLiteral {
        /// Device name.
        device: String,
        /// Key in the rule.
        key: String,
        /// Value that the rule would need.
        value: String,
    },
    /// Other devices here share it.
    Twins {
        /// Device name.
        device: String,
        /// Names of the others.
        others: Vec<String>,
        /// Device stacked on all of them, if they are paths to one.
        above: Option<String>,
    },
}

impl fmt::Display for NoIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere { device } => {
                write!(f, "{device}: no such block device, or a partition; see lsblk")
            }
            Self::Nothing { device, why } => write!(
                f,
                "{device}: {why}, so no udev rule can recognise it; --apply sets it until the \
                 device is removed"
            ),
            Self::NotLiteral { device, key, value } => write!(
                f,
                "{device}: no udev rule can match exactly {key} = {value:?} (because of | or \
                 control characters); rename it, or use --apply"
            ),
            Self::Twins { device, others, above: Some(above) } => write!(
                f,
                "{device} and {} are paths to one disk; remember {above}, which is above them",
                others.join(", ")
            ),
            Self::Twins { device, others, above: None } => write!(
                f,
                "{device} and {} have the same ID, so a rule would set both; remove the copy, or \
                 use --apply",
                others.join(", ")
            ),
        }
    }
}

impl std::error::Error for NoIdentity {}
