//! Why a device cannot be remembered.
//!
//! In:    what was found instead of an identity.
//! Out:   [`NoIdentity`], one line that says what to do.
//! Never: a guess in its place.

use std::fmt;

/// Why a device has no identity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NoIdentity {
    /// There is no such device.
    NotThere {
        /// The name that was asked for.
        device: String,
    },
    /// Nothing about it stays the same and is its own.
    Nothing {
        /// The device.
        device: String,
        /// Why not.
        why: &'static str,
    },
    /// Its identity has a character that a udev rule cannot hold.
    NotLiteral {
        /// The device.
        device: String,
        /// What a rule would ask.
        key: String,
        /// What it would have to say.
        value: String,
    },
    /// Other devices here have the same.
    Twins {
        /// The device.
        device: String,
        /// The others.
        others: Vec<String>,
        /// What lies on all of them, if they are paths to one.
        above: Option<String>,
    },
}

impl fmt::Display for NoIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere { device } => {
                write!(f, "{device}: there is no such block device that is whole; see lsblk")
            }
            Self::Nothing { device, why } => write!(
                f,
                "{device}: {why}, so no rule could find it again; --apply sets it until it goes"
            ),
            Self::NotLiteral { device, key, value } => write!(
                f,
                "{device}: no udev rule can ask for {key} = {value:?} and nothing else (of | and \
                 control characters); rename it, or use --apply"
            ),
            Self::Twins { device, others, above: Some(above) } => write!(
                f,
                "{device} and {} are paths to one disk; remember {above}, which lies on them",
                others.join(", ")
            ),
            Self::Twins { device, others, above: None } => write!(
                f,
                "{device} and {} call themselves by the same number, and a rule would set both; \
                 remove the copy, or use --apply",
                others.join(", ")
            ),
        }
    }
}

impl std::error::Error for NoIdentity {}
