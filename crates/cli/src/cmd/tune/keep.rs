//! What becomes of a recommendation: nothing, in force now, or for good.
//!
//! In:    a device measured; `--apply`, `--remember`.
//! Out:   settings in force, a udev rule, a record; notes of who else sets them.
//! Never: a setting from a measurement that did not come to its end.

use foreread_tune::remember;
use foreread_tune::sysfs::Sys;

use super::measure::{Measured, ended};
use super::{Args, date, remembered};
use crate::output::{Failure, Output};

/// What `--apply` and `--remember` ask for, and who else has a say in it.
pub(super) fn keep(
    sys: &Sys,
    args: &Args,
    one: &Measured,
    out: &mut Output,
) -> Result<(), Failure> {
    ended(one)?;
    let settings = one.recommended();
    let device = &one.report.device;
    let attributes: Vec<_> = settings.iter().map(|setting| setting.attribute.as_str()).collect();
    let others = remember::conflict::conflicts(sys, device, &attributes);
    let mut notes: Vec<_> =
        others.iter().map(|other| format!("somebody else sets it, too: {other}")).collect();
    if (args.apply || args.remember) && settings.is_empty() {
        return Err(Failure::Check(format!("{device}: nothing is recommended, nothing is set")));
    }
    if (args.apply || args.remember) && !one.report.restored {
        // What was there before is not known, and could never be set again.
        return Err(Failure::Check(format!(
            "{device}: not all settings are as they were, nothing is set; run it again"
        )));
    }
    if args.remember {
        let done =
            remember::remember(sys, device, &one.report, &settings, &one.before, &date::today());
        let known = done.map_err(|error| Failure::Check(error.to_string()))?;
        let rule = remember::rule_path(&known.identity.id);
        notes
            .push(format!("remembered in {}; undo: foreread tune forget {device}", rule.display()));
        notes.extend((!known.left_out.is_empty()).then(|| {
            let options = remembered::words(&known.left_out);
            format!(
                "{options} lasts until the file system is mounted anew, since no udev rule can set \
                 it: put it into the mount options"
            )
        }));
    }
    if args.apply || args.remember {
        for setting in &settings {
            setting.set(sys).map_err(|error| {
                Failure::Check(format!("{} cannot be set: {error}", setting.file().display()))
            })?;
        }
        notes.push(format!("set: {}", remembered::words(&settings)));
    }
    out.notes(&notes)
}
