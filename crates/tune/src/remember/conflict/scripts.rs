//! Finds conflicts in files that run at boot or by a timer: tmpfiles, sysfsutils, rc.local, cron,
//! systemd units, sysctl, and the scripts that they name. Files larger than a script are skipped.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use foreread_files::regular;

use super::{Conflict, Wins, names};
use crate::setting::READ_AHEAD_KB;
use crate::sysfs::{BlockDevice, SystemRoot};
use crate::udev::{RuleMatch, matches};

/// Longer files are not scripts written by hand.
const SCRIPT_BYTES_MAX: u64 = 256 << 10;

/// A file, the program that reads it, and which value prevails if it affects this device.
struct ScriptSource {
    file: PathBuf,
    what: &'static str,
    wins: Wins,
}

pub(super) fn conflicts(
    sys: &SystemRoot,
    device: &BlockDevice,
    attributes: &[&str],
) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for source in sources(sys) {
        let Some(text) = read(sys, &source.file) else { continue };
        let mut scripts = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            if is_comment(text) {
                continue;
            }
            conflicts.extend(of_line(sys, device, attributes, &source, line, text));
            scripts.extend(script_in(sys, text));
        }
        for (file, text) in scripts.into_iter().filter(|(file, _)| *file != source.file) {
            let source = ScriptSource { file, ..source };
            let lines = (1..).zip(text.lines()).filter(|(_, text)| !is_comment(text));
            conflicts.extend(
                lines.filter_map(|(line, text)| {
                    of_line(sys, device, attributes, &source, line, text)
                }),
            );
        }
    }
    conflicts
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with(['#', ';'])
}

fn of_line(
    sys: &SystemRoot,
    device: &BlockDevice,
    attributes: &[&str],
    source: &ScriptSource,
    line: usize,
    text: &str,
) -> Option<Conflict> {
    let is_named = |it: &&&str| names(it).iter().any(|name| text.contains(name));
    let attribute = attributes.iter().find(is_named)?;
    let wins = match (means(sys, device, text), source.wins) {
        (RuleMatch::No, _) => return None,
        (RuleMatch::CannotTell, Wins::Yes | Wins::Unknown) => Wins::Unknown,
        (_, wins) => wins,
    };
    let (value, of) = value(text);
    Some(Conflict {
        file: source.file.clone(),
        line,
        attribute: (*attribute).to_owned(),
        value,
        what: format!("{}: {}{of}", source.what, text.trim()),
        wins,
    })
}

/// Returns the files of a device's attribute, under all their names.
pub(super) fn files_of(device: &BlockDevice, attribute: &str) -> Vec<String> {
    let name = &device.name;
    let mut files = vec![
        format!("/sys/block/{name}/{attribute}"),
        format!("/sys/class/block/{name}/{attribute}"),
    ];
    if attribute == READ_AHEAD_KB {
        let (major, minor) = device.number;
        files.push(format!("/sys/block/{name}/bdi/read_ahead_kb"));
        files.push(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
        files.push(format!("/sys/devices/virtual/bdi/{major}:{minor}/read_ahead_kb"));
    }
    files
}

/// Tests whether a line affects this device, by the devices that it names, if any.
fn means(sys: &SystemRoot, device: &BlockDevice, line: &str) -> RuleMatch {
    let bdi = format!("{}:{}", device.number.0, device.number.1);
    let mut answer = None;
    for (before, own) in [("block/", &device.name), ("/dev/", &device.name), ("bdi/", &bdi)] {
        for (at, _) in line.match_indices(before) {
            let rest = &line[at + before.len()..];
            let end = rest.find(|c: char| c.is_whitespace() || "/\"';)}|&>".contains(c));
            let name = &rest[..end.unwrap_or(rest.len())];
            if before == "/dev/" && matches!(name, "null" | "stdout" | "stderr" | "console") {
                continue;
            }
            let is_it = if name.is_empty() || name.contains(['$', '%', '{']) {
                RuleMatch::CannotTell
            } else if rest[name.len()..].starts_with('/') && before == "/dev/" {
                // /dev/disk/by-id/.., /dev/mapper/..
                RuleMatch::CannotTell
            } else if matches(name, own) || is_part_of(sys, name, device) {
                RuleMatch::Yes
            } else {
                RuleMatch::No
            };
            answer = match (answer, is_it) {
                (Some(RuleMatch::Yes), _) | (_, RuleMatch::Yes) => Some(RuleMatch::Yes),
                (Some(RuleMatch::CannotTell), _) | (_, RuleMatch::CannotTell) => {
                    Some(RuleMatch::CannotTell)
                }
                (Some(RuleMatch::No) | None, RuleMatch::No) => Some(RuleMatch::No),
            };
        }
    }
    answer.unwrap_or(RuleMatch::CannotTell)
}

/// Returns whether a name is a partition of the disk: its window is the disk's.
fn is_part_of(sys: &SystemRoot, name: &str, device: &BlockDevice) -> bool {
    name.starts_with(&device.name) && sys.path(device.folder.join(name)).exists()
}

/// Returns the value that a line sets, in the attribute's unit, and a remark on it.
fn value(line: &str) -> (Option<String>, String) {
    let words: Vec<_> = line.split([' ', '\t', '=']).filter(|word| !word.is_empty()).collect();
    let bare = |word: &&str| word.trim_matches(['"', '\'', ';', ')']).to_owned();
    let after = |name: &str| words.iter().skip_while(|word| bare(word) != name).nth(1).map(bare);
    if let Some(sectors) = after("--setra").or_else(|| after("--setfra")) {
        let kib = sectors.parse::<u64>().map(|sectors| (sectors / 2).to_string());
        return match kib {
            Ok(kib) => (Some(kib.clone()), format!(", in sectors: {kib} KiB")),
            Err(_) => (None, ", in sectors".to_owned()),
        };
    }
    let last = words.last().filter(|word| word.parse::<u64>().is_ok()).map(bare);
    (after("echo").or(last), String::new())
}

/// Returns the script that a command runs, if it can be read.
pub(super) fn script_in(sys: &SystemRoot, command: &str) -> Option<(PathBuf, String)> {
    let words = command.split([' ', '\t', '=', '"', '\'', ';', '&', '|', '(', ')']);
    let paths = words.map(|word| word.trim_start_matches(['-', '@', '+', '!', ':']));
    let mut paths = paths.filter(|word| word.starts_with('/') && !word.starts_with("/sys"));
    paths.find_map(|path| {
        let text = read(sys, Path::new(path))?;
        text.starts_with("#!").then(|| (PathBuf::from(path), text))
    })
}

fn read(sys: &SystemRoot, file: &Path) -> Option<String> {
    // Cron and units name files in folders of users, who can replace them at any time.
    let bytes = regular::read(&sys.path(file), SCRIPT_BYTES_MAX).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn sources(sys: &SystemRoot) -> Vec<ScriptSource> {
    let mut sources = Vec::new();
    let mut add = |files: Vec<PathBuf>, what, wins| {
        sources.extend(files.into_iter().map(|file| ScriptSource { file, what, wins }));
    };
    add(layered(sys, "tmpfiles.d"), "tmpfiles", Wins::Unknown);
    add(layered(sys, "sysctl.d"), "sysctl, which cannot set it", Wins::No);
    add(vec!["/etc/sysctl.conf".into()], "sysctl, which cannot set it", Wins::No);
    add(vec!["/etc/sysfs.conf".into()], "sysfsutils", Wins::Unknown);
    add(files_in(sys, "/etc/sysfs.d"), "sysfsutils", Wins::Unknown);
    for file in ["/etc/rc.local", "/etc/rc.d/rc.local"] {
        // Only executable files are run.
        let runs = |metadata: fs::Metadata| metadata.permissions().mode() & 0o111 != 0;
        if fs::metadata(sys.path(file)).is_ok_and(runs) {
            add(vec![file.into()], "rc.local", Wins::Yes);
        }
    }
    add(vec!["/etc/crontab".into()], "cron", Wins::Yes);
    for folder in ["cron.d", "cron.hourly", "cron.daily", "cron.weekly", "cron.monthly"] {
        add(files_in(sys, &format!("/etc/{folder}")), "cron", Wins::Yes);
    }
    for folder in ["/var/spool/cron", "/var/spool/cron/crontabs"] {
        add(files_in(sys, folder), "cron", Wins::Yes);
    }
    for file in files_in(sys, UNITS) {
        let wins = if is_enabled(sys, &file) { Wins::Yes } else { Wins::Unknown };
        add(vec![file], "a systemd unit", wins);
    }
    for folder in folders_in(sys, UNITS, ".d") {
        add(files_in(sys, &folder), "a drop-in of a systemd unit", Wins::Unknown);
    }
    sources
}

const UNITS: &str = "/etc/systemd/system";

fn is_enabled(sys: &SystemRoot, unit: &Path) -> bool {
    let wanted = [".wants", ".requires"].into_iter().flat_map(|end| folders_in(sys, UNITS, end));
    let mut links =
        wanted.map(|folder| Path::new(&folder).join(unit.file_name().unwrap_or_default()));
    links.any(|link| fs::symlink_metadata(sys.path(link)).is_ok())
}

/// Returns the files of a systemd folder, each from the first location that has it.
fn layered(sys: &SystemRoot, folder: &str) -> Vec<PathBuf> {
    let mut files = BTreeMap::new();
    for above in ["/etc", "/run", "/usr/local/lib", "/usr/lib"] {
        for file in files_in(sys, &format!("{above}/{folder}")) {
            files.entry(file.file_name().unwrap_or_default().to_owned()).or_insert(file);
        }
    }
    files.into_values().collect()
}

fn files_in(sys: &SystemRoot, folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(sys.path(folder)).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|it| Path::new(folder).join(it.file_name())).collect();
    files.retain(|file| !sys.path(file).is_dir());
    files.sort();
    files
}

fn folders_in(sys: &SystemRoot, folder: &str, end: &str) -> Vec<String> {
    let entries = fs::read_dir(sys.path(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut folders: Vec<_> =
        names.filter(|name| name.ends_with(end)).map(|name| format!("{folder}/{name}")).collect();
    folders.sort();
    folders
}
