//! Finds conflicts with the active profile of tuned and the profiles that it includes.
//!
//! Windows are converted to KiB. If no profile is active, the recommended one is not guessed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Conflict, Wins};
use crate::setting::READ_AHEAD_KB;
use crate::sysfs::{BlockDevice, SystemRoot};
use crate::udev::{RuleMatch, matches};

/// Folders of profiles; since 2.24 only those named `profiles`.
const FOLDERS: [&str; 4] =
    ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];

/// Limit on nested includes, which ends cycles.
const DEPTH_MAX: usize = 16;

/// An option, with its file and line.
#[derive(Clone)]
struct TunedOption {
    value: String,
    file: PathBuf,
    line: usize,
}

/// Options by section; those of later profiles override earlier ones.
type TunedProfile = BTreeMap<String, BTreeMap<String, TunedOption>>;

pub(super) fn conflicts(
    sys: &SystemRoot,
    device: &BlockDevice,
    attributes: &[&str],
) -> Vec<Conflict> {
    let active = sys.text("/etc/tuned/active_profile").unwrap_or_default();
    let mut profile = TunedProfile::new();
    for name in active.split_whitespace() {
        load(sys, name, &mut profile, 0);
    }
    let starts = "/etc/systemd/system/multi-user.target.wants/tuned.service";
    // It starts after the devices have appeared, and watches for new ones.
    let is_enabled = std::fs::symlink_metadata(sys.path(starts)).is_ok();
    let mut conflicts = Vec::new();
    for (section, options) in &profile {
        let of = |name: &str| options.get(name).map(|choice| choice.value.as_str());
        if of("enabled").is_some_and(|it| matches!(it, "0" | "false" | "False")) {
            continue;
        }
        let found = match of("type").unwrap_or(section) {
            "disk" => of_disks(device, options, attributes),
            "sysfs" => of_sysfs(device, options, attributes),
            _ => continue,
        };
        conflicts.extend(found.into_iter().map(|found| {
            let wins = match (found.answer, is_enabled) {
                (RuleMatch::Yes, true) => Wins::Yes,
                _ => Wins::Unknown,
            };
            let said = resolved(&profile, &found.choice.value);
            let (value, meaning) = match found.attribute == READ_AHEAD_KB {
                true => kib(&said),
                false => (Some(said.clone()), String::new()),
            };
            Conflict {
                file: found.choice.file.clone(),
                line: found.choice.line,
                attribute: found.attribute.to_owned(),
                value,
                what: format!("tuned [{section}]: {}={said}{meaning}", found.option),
                wins,
            }
        }));
    }
    conflicts
}

struct TunedMatch<'a> {
    attribute: &'a str,
    option: &'a str,
    choice: &'a TunedOption,
    answer: RuleMatch,
}

fn of_disks<'a>(
    device: &BlockDevice,
    options: &'a BTreeMap<String, TunedOption>,
    attributes: &[&'a str],
) -> Vec<TunedMatch<'a>> {
    let answer = match (options.get("devices_udev_regex"), options.get("devices")) {
        // tuned ignores removable disks.
        _ if device.is_removable => RuleMatch::No,
        (Some(_), _) => RuleMatch::CannotTell,
        (None, None) => RuleMatch::Yes,
        (None, Some(list)) => listed(&list.value, &device.name),
    };
    let sets = [("readahead", READ_AHEAD_KB), ("readahead_multiply", READ_AHEAD_KB)];
    let sets = sets.into_iter().chain([("elevator", "queue/scheduler")]);
    let found = sets.filter_map(|(option, attribute)| {
        let choice = options.get(option)?;
        let attribute = attributes.iter().find(|it| **it == attribute)?;
        (answer != RuleMatch::No).then_some(TunedMatch { attribute, option, choice, answer })
    });
    found.collect()
}

fn of_sysfs<'a>(
    device: &BlockDevice,
    options: &'a BTreeMap<String, TunedOption>,
    attributes: &[&'a str],
) -> Vec<TunedMatch<'a>> {
    let mut found = Vec::new();
    for attribute in attributes {
        let files = super::scripts::files_of(device, attribute);
        let is_it = |path: &&String| files.iter().any(|file| matches(path, file));
        if let Some((option, choice)) = options.iter().find(|(path, _)| is_it(path)) {
            found.push(TunedMatch { attribute, option, choice, answer: RuleMatch::Yes });
        }
    }
    found
}

/// Tests whether a list such as `sd*, !sdb` includes a name and does not exclude it.
fn listed(list: &str, name: &str) -> RuleMatch {
    let words = || list.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    let is_out = words().filter_map(|word| word.strip_prefix('!')).any(|out| matches(out, name));
    let is_in = words().filter(|word| !word.starts_with('!')).any(|word| matches(word, name));
    let only_out = words().all(|word| word.starts_with('!'));
    if !is_out && (is_in || only_out) { RuleMatch::Yes } else { RuleMatch::No }
}

/// Parses tuned's `readahead` into KiB, with a remark: `8192 s` is in sectors, but only with the
/// blank; `>4096` is a minimum.
fn kib(said: &str) -> (Option<String>, String) {
    let (bound, amount) = match said.trim().split_at_checked(1) {
        Some((">", amount)) => ("at least ", amount),
        Some(("<", amount)) => ("at most ", amount),
        _ => ("", said.trim()),
    };
    let mut words = amount.split_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
        return (None, ", which tuned cannot parse as a number of KiB".to_owned());
    };
    let (kib, of) = match words.next() {
        Some(unit) if unit.starts_with('s') => (number / 2, "in sectors: "),
        _ => (number, ""),
    };
    let value = bound.is_empty().then(|| kib.to_string());
    (value, format!(", {of}{bound}{kib} KiB"))
}

/// Substitutes variables of the profile; other expressions stay unchanged.
fn resolved(profile: &TunedProfile, value: &str) -> String {
    let Some(name) = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return value.to_owned();
    };
    let variable = profile.get("variables").and_then(|variables| variables.get(name));
    variable.map_or_else(|| value.to_owned(), |choice| choice.value.clone())
}

fn load(sys: &SystemRoot, name: &str, profile: &mut TunedProfile, depth: usize) {
    let folders = custom_folders(sys).into_iter().chain(FOLDERS.map(PathBuf::from));
    let mut files = folders.map(|folder| folder.join(name).join("tuned.conf"));
    let found = files.find_map(|file| Some((sys.text(&file)?, file)));
    let Some((text, file)) = found.filter(|_| depth < DEPTH_MAX) else { return };
    let mut own: TunedProfile = TunedProfile::new();
    let mut section = String::new();
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        if let Some(name) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            name.trim().clone_into(&mut section);
        } else if let Some((option, value)) = text.split_once('=')
            && !text.starts_with(['#', ';'])
        {
            let choice = TunedOption { value: value.trim().to_owned(), file: file.clone(), line };
            own.entry(section.clone()).or_default().insert(option.trim().to_owned(), choice);
        }
    }
    if let Some(include) = own.get("main").and_then(|main| main.get("include")) {
        for name in include.value.split([',', ' ']).filter(|name| !name.is_empty()) {
            load(sys, name, profile, depth + 1);
        }
    }
    for (section, options) in own {
        let all = profile.entry(section).or_default();
        if options.get("replace").is_some_and(|it| matches!(it.value.as_str(), "1" | "true")) {
            all.clear();
        }
        all.extend(options);
    }
}

/// Reads `profile_dirs` from tuned's configuration; later folders have priority.
fn custom_folders(sys: &SystemRoot) -> Vec<PathBuf> {
    let text = sys.text(Path::new("/etc/tuned/tuned-main.conf")).unwrap_or_default();
    let mut list = text.lines().filter_map(|line| line.trim().split_once('='));
    let list = list.rfind(|(name, _)| name.trim() == "profile_dirs");
    let folders = list.map_or("", |(_, value)| value).split(',').map(str::trim);
    folders.filter(|folder| folder.starts_with('/')).rev().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_a_window() {
        let said = |text: &str| {
            let (value, meaning) = kib(text);
            (value.unwrap_or_default(), meaning)
        };
        assert_eq!(said("4096"), ("4096".to_owned(), ", 4096 KiB".to_owned()));
        assert_eq!(said("8192 s"), ("4096".to_owned(), ", in sectors: 4096 KiB".to_owned()));
        assert_eq!(said(">4096"), (String::new(), ", at least 4096 KiB".to_owned()));
        assert!(said("8192s").1.contains("cannot parse"), "the blank is missing");
    }

    #[test]
    fn lists_of_devices() {
        for (list, is_in) in
            [("sda", true), ("sd*, !sda", false), ("!sdb", true), ("nvme*", false), ("*", true)]
        {
            assert_eq!(listed(list, "sda") == RuleMatch::Yes, is_in, "{list}");
        }
    }
}
