//! Renders a device's udev rule with explanatory comments. No value or comment can become another
//! rule.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::{Remembered, file};
use crate::report::{Method, Report};
use crate::setting::{DeviceSetting, READ_AHEAD_KB};
use crate::sysfs::SystemRoot;

/// Prefix of our rules' file names. It sorts late, so that few others follow.
pub(super) const PREFIX: &str = "99-foreread-";

/// First words of each of our rules.
const WRITTEN_BY: &str = "# Written by foreread on";

/// Property of a remembered device in udev's database.
const PROPERTY: &str = "FOREREAD_ID";

/// Returns the path of the rule with this id.
#[must_use]
pub fn rule_path(id: &str) -> PathBuf {
    Path::new("/etc/udev/rules.d").join(format!("{PREFIX}{id}.rules"))
}

pub(super) fn write(sys: &SystemRoot, remembered: &Remembered) -> Result<(), (PathBuf, io::Error)> {
    let path = rule_path(&remembered.identity.id);
    file::write_whole(sys, &path, &remembered.rule, is_rule).map_err(|error| (path, error))
}

/// Returns whether a file begins like the rules of [`rule_text`].
fn is_rule(head: &[u8]) -> bool {
    head.starts_with(WRITTEN_BY.as_bytes())
}

/// Returns the text of the rules file, with a comment on the measurement.
///
/// The rule matches `change` in addition to `add`, because loop, dm and md devices are configured
/// after they appear.
#[must_use]
pub fn rule_text(remembered: &Remembered) -> String {
    let Remembered { identity, device, date, report, .. } = remembered;
    let mut text = String::new();
    let mut say = |line: &str| {
        let line = line.replace(|c: char| c.is_control() || !c.is_ascii(), " ");
        let _ = writeln!(text, "# {}", line.trim_end_matches(['\\', ' ']));
    };
    say(&format!(
        "{} {date}. To undo it: foreread tune forget {}",
        WRITTEN_BY.trim_start_matches("# "),
        identity.id
    ));
    say(&format!("The device was {device} then; names change, the attributes below do not."));
    for line in measured(report) {
        say(&line);
    }
    for setting in &remembered.settings {
        let unit = if setting.attribute.ends_with("_kb") { " KiB" } else { "" };
        let was = remembered.before.iter().find(|was| was.attribute == setting.attribute);
        let was = was.map_or(String::new(), |was| format!(", before it was {}{unit}", was.value));
        say(&format!("{} is {}{unit}{was}.", setting.attribute, setting.value));
    }
    let assigned = remembered
        .settings
        .iter()
        .map(|setting| format!(", \\\n  ATTR{{{}}}=\"{}\"", setting.attribute, setting.value));
    let _ = writeln!(
        text,
        "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", \\\n  {}, \\\n  \
         ENV{{{PROPERTY}}}=\"{}\"{}",
        identity.asks(),
        identity.id,
        assigned.collect::<String>()
    );
    text
}

/// Describes the measurement, in lines.
fn measured(report: &Report) -> Vec<String> {
    let how = match report.method {
        Method::Kernel => "",
        Method::Direct => " (with O_DIRECT)",
        Method::Simulated => " (of a simulated device)",
    };
    let mut lines = Vec::new();
    let row = |kib| report.sweep.iter().find(|row| row.window_kib == kib);
    let chosen = report.recommended.as_ref().map(|recommended| recommended.read_ahead_kb);
    if let Some(row) = chosen.and_then(row) {
        lines.push(format!(
            "Measured{how}: {:.1} MB/s with {} KiB (95 % between {:.1} and {:.1}).",
            row.mb_per_s, row.window_kib, row.low, row.high
        ));
    }
    if let Some(best) = report.sweep.iter().max_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s)) {
        lines.push(format!(
            "The fastest was {:.1} MB/s with {} KiB.",
            best.mb_per_s, best.window_kib
        ));
    }
    if let Some(recommended) = &report.recommended {
        let profile = recommended.profile.name();
        lines.push(format!("For the profile {profile}: {}", recommended.why));
    }
    lines
}

/// Returns whether a rule can contain the setting verbatim: udev substitutes `$` and `%`, and a
/// quote ends a value.
pub(super) fn can_stand_in_a_rule(setting: &DeviceSetting) -> bool {
    let is_plain = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    setting.attribute.starts_with("queue/")
        && !setting.attribute.contains("..")
        && is_plain(&setting.attribute, "/_.-")
        && is_plain(&setting.value, "_.-")
}

/// Returns the sort key for making settings: changing the scheduler resets its tunables and the
/// number of requests.
pub(super) fn order(setting: &DeviceSetting) -> (u8, String) {
    let rank = match setting.attribute.as_str() {
        "queue/scheduler" => 0,
        name if name.starts_with("queue/iosched/") => 1,
        "queue/nr_requests" => 2,
        READ_AHEAD_KB => 4,
        _ => 3,
    };
    (rank, setting.attribute.clone())
}
