//! Compares remembered settings with those in force. It changes nothing.

use std::fmt;
use std::path::PathBuf;

use super::conflict::{Conflict, Wins, conflicts};
use super::{Remembered, Unreadable, forget, list, rule_path};
use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;
use crate::udev::rule_files;

/// Verification of one device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verification {
    /// Id of the record.
    pub id: String,
    /// Device name at the time of the measurement, if it can be read.
    pub known_as: Option<String>,
    /// Current device name, if the device is present.
    pub device: Option<String>,
    /// Deviations, the most important first.
    pub findings: Vec<VerifyFinding>,
}

/// A deviation, or a fact that the user should know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerifyFinding {
    /// The value in force differs from the remembered one.
    Drift {
        /// Remembered setting.
        ours: DeviceSetting,
        /// Value in force; None if the device lacks the attribute now.
        now: Option<String>,
        /// Possible causes: files that set this very value, or that run after our rule.
        who: Vec<Conflict>,
    },
    /// The rule is missing.
    RuleMissing {
        /// Path where it was.
        file: PathBuf,
    },
    /// The rule is disabled: an empty file, or a link to `/dev/null`.
    Masked {
        /// Path of the rule.
        file: PathBuf,
    },
    /// The rule differs from the text that was written.
    Edited {
        /// Path of the rule.
        file: PathBuf,
    },
    /// A rule without a record.
    NoRecord {
        /// Path of the rule.
        file: PathBuf,
    },
    /// The record is unreadable.
    Unreadable(Unreadable),
    /// Another file sets the attribute after our rule.
    Overridden(Conflict),
    /// Several devices match, and the rule sets them all.
    Copies {
        /// Device names.
        devices: Vec<String>,
    },
    /// Our rule hides a distribution's rule of the same name.
    Hides {
        /// Path of the hidden rule.
        file: PathBuf,
    },
    /// The device is absent.
    Absent,
}

impl VerifyFinding {
    /// Returns whether action is needed. Absent devices and hidden files are only reported.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        match self {
            Self::Absent | Self::Hides { .. } => false,
            Self::Overridden(conflict) => conflict.wins == Wins::Yes,
            Self::Drift { .. }
            | Self::RuleMissing { .. }
            | Self::Masked { .. }
            | Self::Edited { .. }
            | Self::NoRecord { .. }
            | Self::Unreadable(_)
            | Self::Copies { .. } => true,
        }
    }
}

impl Verification {
    /// Returns whether no action is needed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !self.findings.iter().any(VerifyFinding::is_wrong)
    }
}

/// Verifies all records.
#[must_use]
pub fn verify(sys: &SystemRoot) -> Vec<Verification> {
    let listed = list(sys);
    let mut verdicts: Vec<_> =
        listed.remembered.iter().map(|remembered| of_device(sys, remembered)).collect();
    let nameless = |id: String, finding| Verification {
        id,
        known_as: None,
        device: None,
        findings: vec![finding],
    };
    let broken = listed.unreadable.into_iter();
    verdicts.extend(broken.map(|it| nameless(it.id.clone(), VerifyFinding::Unreadable(it))));
    let orphans = forget::orphans(sys).into_iter();
    verdicts.extend(orphans.map(|id| {
        let file = rule_path(&id);
        nameless(id, VerifyFinding::NoRecord { file })
    }));
    verdicts
}

fn of_device(sys: &SystemRoot, remembered: &Remembered) -> Verification {
    let devices: Vec<_> =
        remembered.identity.devices(sys).into_iter().map(|device| device.name).collect();
    let mut findings = Vec::new();
    for device in &devices {
        let attributes: Vec<_> =
            remembered.settings.iter().map(|setting| setting.attribute.as_str()).collect();
        let others = conflicts(sys, device, &attributes);
        findings.extend(drifts(sys, remembered, device, &others));
        // A file that sets the same values is harmless until the device is measured again.
        let is_same = |other: &Conflict| {
            remembered.settings.iter().any(|ours| {
                ours.attribute == other.attribute && Some(&ours.value) == other.value.as_ref()
            })
        };
        let later = others.into_iter().filter(|it| it.wins != Wins::No && !is_same(it));
        findings.extend(later.map(VerifyFinding::Overridden));
    }
    if devices.len() > 1 {
        findings.push(VerifyFinding::Copies { devices: devices.clone() });
    }
    findings.extend(of_rule(sys, remembered));
    if devices.is_empty() {
        findings.push(VerifyFinding::Absent);
    }
    Verification {
        id: remembered.identity.id.clone(),
        known_as: Some(remembered.device.clone()),
        device: devices.into_iter().next(),
        findings,
    }
}

fn drifts(
    sys: &SystemRoot,
    remembered: &Remembered,
    device: &str,
    others: &[Conflict],
) -> Vec<VerifyFinding> {
    let mut findings = Vec::new();
    for setting in &remembered.settings {
        let ours = DeviceSetting { device: device.to_owned(), ..setting.clone() };
        let now = ours.in_force(sys);
        if now.as_ref() == Some(&ours.value) {
            continue;
        }
        let of_it = others.iter().filter(|other| other.attribute == ours.attribute);
        let is_it = |other: &&Conflict| match &other.value {
            Some(value) => Some(value) == now.as_ref(),
            None => other.wins != Wins::No,
        };
        let who = of_it.filter(is_it).cloned().collect();
        findings.push(VerifyFinding::Drift { ours, now, who });
    }
    findings
}

fn of_rule(sys: &SystemRoot, remembered: &Remembered) -> Vec<VerifyFinding> {
    let file = rule_path(&remembered.identity.id);
    let files = rule_files(sys);
    let Some(found) = files.into_iter().find(|found| found.path.file_name() == file.file_name())
    else {
        return vec![VerifyFinding::RuleMissing { file }];
    };
    if found.path != file {
        return vec![VerifyFinding::RuleMissing { file }];
    }
    let mut findings: Vec<_> =
        found.hides.into_iter().map(|file| VerifyFinding::Hides { file }).collect();
    if found.is_mask {
        findings.insert(0, VerifyFinding::Masked { file });
    } else if sys.whole_text(&file).as_ref() != Some(&remembered.rule) {
        findings.insert(0, VerifyFinding::Edited { file });
    }
    findings
}

impl fmt::Display for VerifyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drift { ours, now, who } => {
                let (file, now) = (ours.file(), now.as_deref().unwrap_or("not there"));
                write!(f, "{} is {now} instead of the remembered {}", file.display(), ours.value)?;
                match who.as_slice() {
                    [] => write!(f, "; no known program on this machine sets it: set by hand?"),
                    who => {
                        let who: Vec<_> = who.iter().map(ToString::to_string).collect();
                        write!(f, "; it may be {}", who.join(", or "))
                    }
                }
            }
            Self::RuleMissing { file } => {
                write!(f, "{} is gone: remember it again, or forget it", file.display())
            }
            Self::Masked { file } => {
                write!(f, "{} is turned off (empty, or /dev/null)", file.display())
            }
            Self::Edited { file } => {
                write!(f, "{} was edited since it was written", file.display())
            }
            Self::NoRecord { file } => write!(
                f,
                "{}: no record belongs to this rule; foreread tune forget removes it",
                file.display()
            ),
            Self::Unreadable(unreadable) => unreadable.fmt(f),
            Self::Overridden(conflict) => write!(f, "{conflict}"),
            Self::Copies { devices } => write!(
                f,
                "{} share this identity, so the rule sets all of them",
                devices.join(" and ")
            ),
            Self::Hides { file } => write!(f, "it hides {}", file.display()),
            Self::Absent => write!(f, "the device is not here"),
        }
    }
}
