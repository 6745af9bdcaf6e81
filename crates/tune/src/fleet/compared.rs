//! Compares reports: classes, outliers, commands. Without a majority value there is no outlier.

use std::collections::BTreeMap;

use super::parsed::ParsedFinding;
use super::{ClassFinding, Fleet, FleetMachine, MachineClass, MachineReport, Outlier};

/// Compares machines.
#[must_use]
pub fn compare(mut reports: Vec<MachineReport>) -> Fleet {
    reports.sort_by(|a, b| (&a.host, &a.file).cmp(&(&b.host, &b.file)));
    let notes = same_names(&reports);
    let mut groups: BTreeMap<String, Vec<MachineReport>> = BTreeMap::new();
    for report in reports {
        groups.entry(report.hardware.clone()).or_default().push(report);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // The sort is stable: classes of one size stay in the order of their hardware.
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    let mut fleet = Fleet { notes, ..Fleet::default() };
    for (at, (hardware, members)) in groups.into_iter().enumerate() {
        let name = class_name(at);
        fleet.machines.extend(members.iter().map(|member| machine(member, &name, &members)));
        fleet.classes.push(MachineClass {
            name,
            hardware,
            hosts: members.iter().map(|member| member.host.clone()).collect(),
            findings: findings(&members),
        });
    }
    fleet
}

/// Finds repeated host names: one machine given twice would count twice, yet two machines may share
/// a name.
fn same_names(sorted: &[MachineReport]) -> Vec<String> {
    let groups = sorted.chunk_by(|a, b| a.host == b.host).filter(|group| group.len() > 1);
    let note = |group: &[MachineReport]| {
        let files: Vec<_> = group.iter().map(|report| report.file.as_str()).collect();
        format!(
            "{} are from machines named {}, and count as {}: if they are one machine, give only \
             one report",
            files.join(", "),
            group[0].host,
            group.len()
        )
    };
    groups.map(note).collect()
}

fn machine(report: &MachineReport, class: &str, members: &[MachineReport]) -> FleetMachine {
    FleetMachine {
        file: report.file.clone(),
        host: report.host.clone(),
        kernel: report.kernel.clone(),
        class: class.to_owned(),
        devices: report.devices,
        mounts: report.mounts,
        findings: report
            .findings
            .iter()
            .map(|finding| format!("{}: {}", finding.device, finding.check))
            .collect(),
        outliers: report
            .settings
            .iter()
            .filter_map(|setting| {
                let usual = usual(&setting.name, members)?;
                (usual != setting.value).then(|| Outlier {
                    setting: setting.name.clone(),
                    value: setting.value.clone(),
                    usual,
                })
            })
            .collect(),
    }
}

/// Returns the value of more than half of a class of at least three machines.
fn usual(setting: &str, members: &[MachineReport]) -> Option<String> {
    if members.len() < CLASS_MIN {
        return None;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members {
        let found = member.settings.iter().find(|it| it.name == setting);
        if let Some(found) = found {
            *counts.entry(&found.value).or_default() += 1;
        }
    }
    let (value, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (2 * count > members.len()).then(|| value.to_owned())
}

/// Returns the findings of a class, the most frequent first.
fn findings(members: &[MachineReport]) -> Vec<ClassFinding> {
    let mut found: Vec<ClassFinding> = Vec::new();
    for member in members {
        for ParsedFinding { device, check, mend } in &member.findings {
            let is_it =
                |known: &&mut ClassFinding| known.check == *check && known.device == *device;
            match found.iter_mut().find(is_it) {
                Some(known) => {
                    known.hosts.push(member.host.clone());
                    known.is_same &= known.mend == *mend;
                }
                None => found.push(ClassFinding {
                    check: check.clone(),
                    device: device.clone(),
                    hosts: vec![member.host.clone()],
                    mend: mend.clone(),
                    is_same: true,
                }),
            }
        }
    }
    found.sort_by(|a, b| {
        let key = |it: &ClassFinding| (std::cmp::Reverse(it.hosts.len()), it.check.clone());
        (key(a), &a.device).cmp(&(key(b), &b.device))
    });
    found
}

/// Returns a class name: `A` to `Z`, then `A1`.
fn class_name(at: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(at % 26).expect("less than 26"));
    match at / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

/// Smallest class with a usual value: of two machines that differ, neither is usual.
const CLASS_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::super::SettingValue;
    use super::*;

    fn report(host: &str, hardware: &str, window: &str, mend: Option<&str>) -> MachineReport {
        MachineReport {
            file: format!("{host}.json"),
            host: host.to_owned(),
            kernel: None,
            hardware: hardware.to_owned(),
            settings: vec![SettingValue {
                name: "sda read_ahead_kb".into(),
                value: window.to_owned(),
            }],
            devices: 1,
            mounts: 0,
            findings: mend
                .map(|mend| ParsedFinding {
                    device: "sda".into(),
                    check: "read-ahead-off".into(),
                    mend: vec![mend.to_owned()],
                })
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn the_one_that_differs_from_most_is_the_outlier() {
        let fleet = compare(vec![
            report("c", "x", "128", None),
            report("a", "x", "128", None),
            report("b", "x", "8192", Some("m")),
            report("z", "y", "64", None),
        ]);
        let names: Vec<_> = fleet.machines.iter().map(|it| (&*it.host, &*it.class)).collect();
        assert_eq!(names, [("a", "A"), ("b", "A"), ("c", "A"), ("z", "B")]);
        let outliers: Vec<_> = fleet.machines.iter().map(|it| it.outliers.len()).collect();
        assert_eq!(outliers, [0, 1, 0, 0]);
        let outlier = &fleet.machines[1].outliers[0];
        assert_eq!((&*outlier.value, &*outlier.usual), ("8192", "128"));
    }

    #[test]
    fn files_that_name_one_host_are_named() {
        let fleet = compare(["a", "b", "a"].map(|host| report(host, "x", "128", None)).into());
        assert_eq!(fleet.machines.len(), 3);
        let note = "a.json, a.json are from machines named a, and count as 2: if they are one \
                    machine, give only one report";
        assert_eq!(fleet.notes, [note]);
    }

    #[test]
    fn two_that_differ_have_no_outlier() {
        let two = vec![report("a", "x", "1", None), report("b", "x", "2", None)];
        assert!(compare(two).machines.iter().all(|it| it.outliers.is_empty()));
    }

    #[test]
    fn commands_of_a_class_are_those_of_all_or_said_to_differ() {
        let same =
            compare(vec![report("a", "x", "0", Some("m")), report("b", "x", "0", Some("m"))]);
        let found = &same.classes[0].findings[0];
        assert_eq!((found.hosts.len(), found.is_same), (2, true));
        let two = vec![report("a", "x", "0", Some("m")), report("b", "x", "0", Some("n"))];
        assert!(!compare(two).classes[0].findings[0].is_same);
    }

    #[test]
    fn classes_have_letters() {
        assert_eq!((class_name(0), class_name(27)), ("A".to_owned(), "B1".to_owned()));
    }
}
