//! Compares what is remembered with the settings in force.
//!
//! In:    the records, the rules, sysfs, and other files that set the same attributes.
//! Out:   a [`Verification`] for each device that is remembered, and for what is left of others.
//! Never: a change.

use std::fmt;
use std::path::PathBuf;

use super::conflict::{Conflict, Wins, conflicts};
use super::{Remembered, Unreadable, forget, list, rule_path};
use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;
use crate::udev::rule_files;

/// How it stands with one device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verification {
    /// Which.
    pub id: String,
    /// Its name when it was measured, if that can be read.
    pub known_as: Option<String>,
    /// Its name now, if it is here.
    pub device: Option<String>,
    /// What is not as it should be; first what matters most.
    pub findings: Vec<VerifyFinding>,
}

/// Something that is not as it should be, or that one should know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerifyFinding {
    /// Another value is set than was remembered.
    Drift {
        /// What should be.
        ours: DeviceSetting,
        /// What is; None if the device does not have it now.
        now: Option<String>,
        /// What may have set it: files that set this very value, or that come after our rule.
        who: Vec<Conflict>,
    },
    /// The rule is not there.
    RuleMissing {
        /// Where it was.
        file: PathBuf,
    },
    /// The rule was turned off: it is empty, or a link to `/dev/null`.
    Masked {
        /// Its file.
        file: PathBuf,
    },
    /// The rule is not as it was written.
    Edited {
        /// Its file.
        file: PathBuf,
    },
    /// A rule without a record.
    NoRecord {
        /// Its file.
        file: PathBuf,
    },
    /// The record cannot be read.
    Unreadable(Unreadable),
    /// Another file sets it, after our rule.
    Overridden(Conflict),
    /// Several devices here answer to it, and the rule sets them all.
    Copies {
        /// Their names.
        devices: Vec<String>,
    },
    /// A distribution has a rule of the same name; ours hides it.
    Hides {
        /// Its file.
        file: PathBuf,
    },
    /// The device is not here.
    Absent,
}

impl VerifyFinding {
    /// Whether something has to be done. Absent devices and hidden files are only told.
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
    /// Whether nothing has to be done.
    #[must_use]
    pub fn is_good(&self) -> bool {
        !self.findings.iter().any(VerifyFinding::is_wrong)
    }
}

/// Looks at everything that is remembered.
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
        // A file that sets the same values does no harm until the device is measured again.
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
                write!(f, "{} is {now}, remembered is {}", file.display(), ours.value)?;
                match who.as_slice() {
                    [] => write!(f, "; nothing on this machine that we know sets it: by hand?"),
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
                "{} have this one identity, and the rule sets them all",
                devices.join(" and ")
            ),
            Self::Hides { file } => write!(f, "it hides {}", file.display()),
            Self::Absent => write!(f, "the device is not here"),
        }
    }
}
