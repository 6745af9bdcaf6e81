//! Detects the kind of machine: kernel, container, virtual machine, and page reclaim settings.

use serde::{Deserialize, Serialize};

use crate::sysfs::{SystemRoot, names_in};

/// Facts about a machine that affect its read settings.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Host name.
    pub host: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Name of the hypervisor, if the machine is virtual.
    pub virtual_machine: Option<String>,
    /// Name of the container runtime, if this is a container.
    pub container: Option<String>,
    /// Vendor and product of the machine.
    pub product: Option<String>,
}

impl MachineFacts {
    /// Reads the facts from a system's files.
    #[must_use]
    pub fn of(sys: &SystemRoot) -> Self {
        let text = |path: &str| sys.text(path).filter(|text| !text.trim().is_empty());
        let vendor = text("/sys/class/dmi/id/sys_vendor");
        let name = text("/sys/class/dmi/id/product_name");
        let words: Vec<_> = [vendor.as_deref(), name.as_deref()].into_iter().flatten().collect();
        let product = (!words.is_empty()).then(|| words.join(" "));
        Self {
            host: text("/proc/sys/kernel/hostname"),
            kernel: text("/proc/sys/kernel/osrelease"),
            virtual_machine: hypervisor(sys, product.as_deref()),
            container: container(sys),
            product,
        }
    }
}

fn hypervisor(sys: &SystemRoot, product: Option<&str>) -> Option<String> {
    if let Some(kind) = sys.text("/sys/hypervisor/type").filter(|kind| !kind.is_empty()) {
        return Some(kind);
    }
    let known = HYPERVISORS.iter().find(|(word, _)| product.is_some_and(|it| it.contains(word)));
    if let Some((_, name)) = known {
        return Some((*name).to_owned());
    }
    // CPU flag that exists only under a hypervisor.
    let cpu = sys.whole_text("/proc/cpuinfo")?;
    let flags = cpu.lines().find_map(|line| line.strip_prefix("flags"))?;
    flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| "virtual".to_owned())
}

fn container(sys: &SystemRoot) -> Option<String> {
    if let Some(name) = sys.text("/run/systemd/container").filter(|name| !name.is_empty()) {
        return Some(name);
    }
    // Virtual machine images built from a container image have its marker, too, but their root is
    // on a disk.
    let mounts = sys.mounts();
    let root = mounts.iter().rfind(|mount| mount.point == "/");
    let has_layers = root.is_some_and(|root| LAYERED.contains(&root.kind.as_str()));
    for (file, name) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        if has_layers && sys.path(file).is_file() {
            return Some(name.to_owned());
        }
    }
    let token = "/run/secrets/kubernetes.io/serviceaccount";
    sys.path(token).is_dir().then(|| "kubernetes".to_owned())
}

/// A kernel facility that reclaims cached pages proactively (DAMON).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct PageReclaim {
    /// Files that show it, with their values.
    pub evidence: Vec<String>,
    /// Command that turns it off.
    pub off: String,
    /// True if filters select the pages: cached files may be excluded.
    pub has_filters: bool,
    /// True if it is active only below some amount of free memory.
    pub is_under_pressure_only: bool,
}

/// Returns the facilities that reclaim pages here even if memory is free.
#[must_use]
pub fn page_reclaim(sys: &SystemRoot) -> Vec<PageReclaim> {
    let mut found = Vec::new();
    let said = |file: &str| format!("{file}: {}", sys.text(file).unwrap_or_default());
    let enabled = "/sys/module/damon_reclaim/parameters/enabled";
    if sys.text(enabled).as_deref() == Some("Y") {
        let high = "/sys/module/damon_reclaim/parameters/wmarks_high";
        found.push(PageReclaim {
            evidence: vec![said(enabled), said(high)],
            off: format!("echo N > {enabled}"),
            has_filters: false,
            // Its watermarks apply to free memory, in thousandths.
            is_under_pressure_only: sys.number(high).is_some_and(|high| high < 1000),
        });
    }
    for number in names_in(&sys.path(KDAMONDS)) {
        let daemon = format!("{KDAMONDS}/{number}");
        let state = format!("{daemon}/state");
        if sys.text(&state).as_deref() != Some("on") {
            continue;
        }
        for scheme in schemes(sys, &daemon) {
            let action = format!("{scheme}/action");
            if sys.text(&action).as_deref() != Some("pageout") {
                continue;
            }
            let metric = format!("{scheme}/watermarks/metric");
            let filters = filters(sys, &scheme);
            let mut evidence = [&state, &action, &metric].map(|file| said(file)).to_vec();
            evidence.extend(filters.iter().cloned());
            found.push(PageReclaim {
                evidence,
                off: format!("echo off > {state}"),
                has_filters: !filters.is_empty(),
                is_under_pressure_only: sys.text(&metric).is_some_and(|it| it != "none"),
            });
        }
    }
    found
}

/// Returns the folders of all schemes of a daemon.
fn schemes(sys: &SystemRoot, daemon: &str) -> Vec<String> {
    let contexts = numbered(sys, &format!("{daemon}/contexts"));
    contexts.iter().flat_map(|context| numbered(sys, &format!("{context}/schemes"))).collect()
}

/// Describes the filters of a scheme.
fn filters(sys: &SystemRoot, scheme: &str) -> Vec<String> {
    let folders = FILTERS.iter().flat_map(|name| numbered(sys, &format!("{scheme}/{name}")));
    let words = |folder: String| {
        let said = |name: &str| sys.text(format!("{folder}/{name}")).unwrap_or_default();
        let (kind, matching, allow) = (said("type"), said("matching"), said("allow"));
        format!("{folder}: type {kind}, matching {matching}, allow {allow}")
    };
    folders.map(words).collect()
}

/// Returns the subfolders whose names are numbers.
fn numbered(sys: &SystemRoot, folder: &str) -> Vec<String> {
    let names = names_in(&sys.path(folder)).into_iter();
    let numbers = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.map(|name| format!("{folder}/{name}")).collect()
}

/// File systems of a container's root.
const LAYERED: [&str; 5] = ["overlay", "fuse.fuse-overlayfs", "btrfs", "zfs", "aufs"];

/// Product words of virtual machines, and the name of each hypervisor.
const HYPERVISORS: [(&str, &str); 8] = [
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("Virtual Machine", "hyper-v"),
    ("Amazon EC2", "ec2"),
    ("Google Compute Engine", "gce"),
    ("HVM domU", "xen"),
];

/// Folders of a scheme's filters.
const FILTERS: [&str; 3] = ["filters", "core_filters", "ops_filters"];

const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fixture::system;

    #[test]
    fn containers_and_virtual_machines_are_told_apart() {
        let (_root, sys) = system(&[
            ("/proc/sys/kernel/osrelease", "6.8.0\n"),
            ("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
            ("/sys/class/dmi/id/product_name", "m5.large\n"),
            ("/.dockerenv", ""),
            ("/proc/self/mountinfo", "9 1 0:70 / / rw - overlay overlay rw,lowerdir=/l\n"),
        ]);
        let machine = MachineFacts::of(&sys);
        assert_eq!(machine.virtual_machine.as_deref(), Some("ec2"));
        assert_eq!(machine.container.as_deref(), Some("docker"));
        assert_eq!(machine.product.as_deref(), Some("Amazon EC2 m5.large"));
        let on_disk = "9 1 254:0 / / rw - ext4 /dev/vda rw\n";
        let (_root, sys) = system(&[("/.dockerenv", ""), ("/proc/self/mountinfo", on_disk)]);
        assert_eq!(
            MachineFacts::of(&sys).container,
            None,
            "an image that was made from a container's"
        );
        let (_root, sys) = system(&[("/proc/cpuinfo", "flags\t\t: fpu vme\n")]);
        assert_eq!(MachineFacts::of(&sys), MachineFacts::default());
        let (_root, sys) = system(&[("/proc/cpuinfo", "flags\t\t: fpu hypervisor\n")]);
        assert_eq!(MachineFacts::of(&sys).virtual_machine.as_deref(), Some("virtual"));
    }

    #[test]
    fn a_daemon_that_pages_out_is_seen() {
        let scheme = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0";
        let action = format!("{scheme}/action");
        let metric = format!("{scheme}/watermarks/metric");
        let state = "/sys/kernel/mm/damon/admin/kdamonds/0/state";
        let with = |now: &str, what: &str, when: &str| {
            let files = [(state, now), (action.as_str(), what), (metric.as_str(), when)];
            let (_root, sys) = system(&files);
            page_reclaim(&sys).iter().map(|it| it.is_under_pressure_only).collect::<Vec<_>>()
        };
        assert_eq!(with("on\n", "pageout\n", "none\n"), [false]);
        assert_eq!(with("on\n", "pageout\n", "free_mem_rate\n"), [true]);
        assert_eq!(with("on\n", "stat\n", "none\n"), [] as [bool; 0]);
        assert_eq!(with("off\n", "pageout\n", "none\n"), [] as [bool; 0]);
    }
}
