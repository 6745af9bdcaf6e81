//! Finds processes that a recorded command, or process, has left behind.
//!
//! The kernel does not report which filter a process has, only the number of filters (Linux 5.9).
//! Recorded processes have at least one more than this process, which does not have the recorder's.

use std::fs;

use crate::proc_status::{field, has_ended, is_ended, stat, status};

/// A process that is still there after the command has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeftProcess {
    /// Process id.
    pub id: u32,
    /// Name, as shown by `ps`, without control characters.
    pub name: String,
}

/// Returns the start time of a process in ticks since boot; 0 if unknown.
pub(crate) fn start_of(process: u32) -> u64 {
    stat(process).and_then(|stat| started(&stat)).unwrap_or(0)
}

/// Returns the processes started since then with more filters than this process.
pub(crate) fn processes(since: u64) -> Vec<LeftProcess> {
    let Some(ours) = status("self").as_deref().and_then(filters) else { return Vec::new() };
    let mut found: Vec<LeftProcess> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|id| left(id, ours, since))
        .collect();
    found.sort_by_key(|process| process.id);
    found
}

/// Returns the processes of these that have not ended.
pub(crate) fn running(processes: impl Iterator<Item = u32>) -> Vec<LeftProcess> {
    let named = |id: u32| {
        let name = shown_name(&status(&id.to_string())?)?;
        Some(LeftProcess { id, name })
    };
    let mut found: Vec<LeftProcess> =
        processes.filter(|id| !has_ended(*id)).filter_map(named).collect();
    found.sort_by_key(|process| process.id);
    found
}

fn left(id: u32, ours: u64, since: u64) -> Option<LeftProcess> {
    let text = status(&id.to_string())?;
    let is_recorded = filters(&text)? > ours && !is_ended(&text);
    let is_since = started(&stat(id)?)? >= since;
    let name = shown_name(&text)?;
    (is_recorded && is_since).then_some(LeftProcess { id, name })
}

/// Returns the name of a process, for a terminal: a program may have given itself any.
fn shown_name(status: &str) -> Option<String> {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    Some(field(status, "Name:")?.chars().map(shown).collect())
}

/// Returns the number of filters of a process; before Linux 5.9, only whether it has any.
fn filters(status: &str) -> Option<u64> {
    let count = field(status, "Seccomp_filters:").map(str::parse);
    let mode = || Some(u64::from(field(status, "Seccomp:")? == "2"));
    count.and_then(Result::ok).or_else(mode)
}

/// Returns the 22nd field of `/proc/PID/stat`. The second field is a name in parentheses that may
/// contain any character.
fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_name_is() {
        let status = "Name:\ta (b\nState:\tS (sleeping)\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        assert_eq!(filters(status), Some(3));
        assert_eq!(shown_name("Name:\tx\x1b[31m\n").as_deref(), Some("x\u{fffd}[31m"));
        assert_eq!(filters("Seccomp:\t2\n"), Some(1));
        assert_eq!(filters("Seccomp:\t0\n"), Some(0));
        assert_eq!(filters("Name:\tx\n"), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 9 9";
        assert_eq!(started(stat), Some(12345));
        assert!(start_of(std::process::id()) > 0);
        assert!(processes(u64::MAX).is_empty(), "none is started after the end of time");
    }
}
