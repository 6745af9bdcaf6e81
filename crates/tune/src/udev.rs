//! What udev would do with a block device, told from its files alone: udevd may not run.
//!
//! In:    the rules files, sysfs, udev's database under `/run/udev/data`.
//! Out:   the files in the order in which udev reads them ([`rule_files`]), their rules
//!        ([`parse`]), and whether one concerns a device ([`UdevDevice`]): yes, no, or cannot tell.
//! Never: a program that a rule names; a yes where a part of the rule could not be looked at.
//!
//! All of it was tried with `udevadm test` of version 252, and the tests do so again.

mod files;
mod pattern;
mod rule;
mod target;

pub use files::{FOLDERS, RuleFile, rule_files};
pub use pattern::{literal, matches};
pub use rule::{RulePair, UdevRule, parse};
pub use target::{RuleMatch, UdevDevice};
