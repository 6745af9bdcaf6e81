//! Evaluates udev rules for block devices from files alone, because udevd may not be running.
//!
//! In:    the rules files, sysfs, udev's database under `/run/udev/data`.
//! Out:   the files in the order in which udev reads them ([`rule_files`]), their rules
//! ([`parse`]),
//!        and whether one concerns a device ([`UdevDevice`]): yes, no, or cannot tell.
//! Never: runs a program that a rule names; says yes if a part of the rule could not be evaluated.
//!
//! The behaviour was verified with `udevadm test` of version 252, and tests repeat that.

mod files;
mod pattern;
mod rule;
mod target;

pub use files::{FOLDERS, RuleFile, rule_files};
pub use pattern::{literal, matches};
pub use rule::{RulePair, UdevRule, parse};
pub use target::{RuleMatch, UdevDevice};
