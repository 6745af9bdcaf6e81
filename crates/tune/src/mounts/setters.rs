//! Traces the origin of a mount's window. A file that sets another value is never named as the
//! origin.
//!
//! ```text
//!   remembered by foreread?        then that
//!   the kernel's own value?        then its rule
//!   a rule for bdi in udev?        then that file, if it has the value in force
//!   below kubelet's folders?       then a CSI driver, or a script of the node
//!   else                           set by hand or by a program, not known by which
//! ```

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use super::{Governor, MountWindow, mount_default};
use crate::confidence::Confidence;
use crate::kernel_default::{Reason, kernel_default};
use crate::sysfs::{BlockDevice, SystemRoot, names_in};
use crate::udev::{UdevRule, matches, parse, rule_files};

/// Fills in the kernel's default and the origin of the value in force.
pub(super) fn explain(
    rules: &BdiRules<'_>,
    sys: &SystemRoot,
    devices: &[BlockDevice],
    window: &mut MountWindow,
) {
    match window.governed_by.clone() {
        Governor::Bdi { name } => of_bdi(rules, sys, &name, window),
        Governor::Device { name } => of_device(sys, devices, &name, window),
        Governor::Layers { .. } => {
            "each file uses the window of its layer".clone_into(&mut window.origin);
            window.cited = Some(OVERLAY.to_owned());
        }
        Governor::Own { setting } => {
            let value = sys.text(&setting).map_or(String::new(), |value| format!(" (now {value})"));
            window.origin = format!("{} does its own read-ahead: {setting}{value}", window.fs);
            window.cited = (window.fs == "zfs").then(|| "zfs(4), zfetch_max_distance".to_owned());
        }
        Governor::Memory => "its files are in memory".clone_into(&mut window.origin),
        Governor::Unknown { why } => {
            window.origin = why;
            window.confidence = Confidence::Likely;
            window.kernel_kb = mount_default(sys, &window.entry).map(|it| it.window_kib);
        }
    }
    if let Some(driver) = csi_driver(sys, &window.mount) {
        window.notes.push(format!(
            "mounted by the CSI driver {driver}: a value set by hand is lost at the next mount; \
             use a udev rule on the node, or mountOptions of the storage class"
        ));
    }
}

fn of_device(sys: &SystemRoot, devices: &[BlockDevice], name: &str, window: &mut MountWindow) {
    let release = sys.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let Some(device) = devices.iter().find(|device| device.name == name) else { return };
    let kernel = kernel_default(device, &release);
    window.kernel_kb = Some(kernel.window_kib);
    window.origin = if window.read_ahead_kb == Some(kernel.window_kib) {
        match kernel.reason {
            Reason::OptimalIo(_) => "the kernel: twice the device's optimal_io_size".to_owned(),
            Reason::Rotates { .. } => {
                "the kernel: twice the largest request, because the device is reported as rotating"
                    .to_owned()
            }
            Reason::Constant => "the kernel: a constant 128 KiB".to_owned(),
        }
    } else {
        format!("set on {name}; the kernel's default is {} KiB", kernel.window_kib)
    };
    window.cited = match kernel.reason {
        Reason::OptimalIo(_) => {
            Some("docs/guide/doctor.md, the window that the kernel chooses".into())
        }
        Reason::Rotates { .. } => Some("Linux 6.17 (459779d04ae8)".to_owned()),
        Reason::Constant => None,
    };
}

fn of_bdi(rules: &BdiRules<'_>, sys: &SystemRoot, bdi: &str, window: &mut MountWindow) {
    let default = mount_default(sys, &window.entry);
    window.kernel_kb = default.as_ref().map(|it| it.window_kib);
    let Some(now_kib) = window.read_ahead_kb else { return };
    let setters = rules.for_device(bdi);
    let rule = setters.iter().find(|setter| setter.may_give(sys, &window.fs, now_kib));
    if let Some(rule) = rule {
        window.origin = format!("the udev rule {}", rule.place);
        window.cited = Some(rule.what.clone());
        window.confidence = Confidence::Likely;
    } else if let Some(default) = default.filter(|it| it.window_kib == now_kib) {
        window.origin = format!("the kernel: {}", default.why);
        window.cited = Some(default.cited.to_owned());
        window.confidence = default.confidence;
    } else {
        let asks = window.fs.starts_with("fuse") || window.fs == "virtiofs";
        window.confidence = Confidence::Likely;
        window.origin = match window.kernel_kb {
            Some(kernel) if asks && now_kib < kernel => {
                "the FUSE server requested less than the kernel's 128 KiB, or it was changed since"
                    .to_owned()
            }
            Some(kernel) => format!("changed since the mount; the kernel's default is {kernel}"),
            None => "unknown: this kernel's rule, or a mount option".to_owned(),
        };
        if csi_driver(sys, &window.mount).is_some() {
            window.origin += "; perhaps by the CSI driver";
        }
    }
}

/// A udev rule that sets the window of backing devices.
#[derive(Clone, Debug, Eq, PartialEq)]
struct BdiRule {
    /// File and line of the rule.
    place: String,
    /// The assigned text, verbatim.
    what: String,
    /// The value, if it is a number.
    value: Option<u64>,
    /// True if the value comes from the program nfsrahead.
    is_nfsrahead: bool,
    /// True if the rule runs a program first.
    asks_program: bool,
}

impl BdiRule {
    /// Returns whether it may have set this value on a file system of this kind.
    fn may_give(&self, sys: &SystemRoot, fs: &str, now_kib: u64) -> bool {
        if self.is_nfsrahead {
            return fs.starts_with("nfs") && nfsrahead_kib(sys, fs) == Some(now_kib);
        }
        // A rule that runs a program first targets some type, most often NFS.
        self.value == Some(now_kib) && (!self.asks_program || fs.starts_with("nfs"))
    }
}

/// Window rules from all udev files, parsed when a mount first needs them and then shared by all
/// mounts.
pub(crate) struct BdiRules<'a> {
    sys: &'a SystemRoot,
    files: OnceCell<Vec<(PathBuf, Vec<UdevRule>)>>,
}

impl<'a> BdiRules<'a> {
    pub(crate) fn of(sys: &'a SystemRoot) -> Self {
        Self { sys, files: OnceCell::new() }
    }

    fn read(sys: &SystemRoot) -> Vec<(PathBuf, Vec<UdevRule>)> {
        let sets = |rule: &UdevRule| rule.pairs.iter().any(|pair| pair.of == "read_ahead_kb");
        let mut found = Vec::new();
        for file in rule_files(sys).into_iter().filter(|file| !file.is_mask) {
            let Some(text) = sys.bytes(&file.path) else { continue };
            let text = String::from_utf8_lossy(&text);
            // Most files set no window, and are long.
            if !text.contains("read_ahead_kb") {
                continue;
            }
            let rules = parse(&text);
            if rules.iter().any(sets) {
                found.push((file.path, rules));
            }
        }
        found
    }

    /// Returns the rules that set the window of this backing device, or may set it.
    fn for_device(&self, bdi: &str) -> Vec<BdiRule> {
        let of_file = |(file, rules): &(PathBuf, Vec<UdevRule>)| {
            let reached = reached(rules, bdi).into_iter();
            reached.filter_map(|rule| bdi_rule(rule, bdi, file)).collect::<Vec<_>>()
        };
        let files = self.files.get_or_init(|| Self::read(self.sys));
        files.iter().flat_map(of_file).collect()
    }
}

/// Returns the rules that udev reaches when a backing device is added. It skips rules between a
/// GOTO that is surely followed and its label. udev ignores a GOTO without a label.
fn reached<'r>(rules: &'r [UdevRule], bdi: &str) -> Vec<&'r UdevRule> {
    let value = |rule: &'r UdevRule, key: &str| {
        rule.pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
    };
    let is_sure = |rule: &UdevRule| {
        let mut pairs = rule.pairs.iter().filter(|pair| pair.is_match() || pair.key == "PROGRAM");
        pairs.all(|pair| {
            let text = match pair.key.as_str() {
                "SUBSYSTEM" => "bdi",
                "KERNEL" => bdi,
                "ACTION" => "add",
                _ => return false,
            };
            matches(&pair.value, text) == (pair.operator == "==")
        })
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(rule) = rules.get(at) {
        found.push(rule);
        at += 1;
        let Some(label) = value(rule, "GOTO").filter(|_| is_sure(rule)) else { continue };
        let ahead = rules[at..].iter().position(|rule| value(rule, "LABEL") == Some(label));
        at += ahead.unwrap_or(0);
    }
    found
}

fn bdi_rule(rule: &UdevRule, bdi: &str, file: &Path) -> Option<BdiRule> {
    let asks = |key: &str, text: &str| {
        let mut pairs = rule.pairs.iter().filter(|pair| pair.key == key && pair.is_match());
        pairs.all(|pair| matches(&pair.value, text) == (pair.operator == "=="))
    };
    let names_bdi = rule.pairs.iter().any(|pair| pair.key == "SUBSYSTEM" && pair.is_match());
    if !names_bdi || !asks("SUBSYSTEM", "bdi") || !asks("KERNEL", bdi) {
        return None;
    }
    let set = rule
        .pairs
        .iter()
        .find(|pair| pair.key == "ATTR" && pair.of == "read_ahead_kb" && !pair.is_match())?;
    let program = rule.pairs.iter().find(|pair| pair.key == "PROGRAM");
    Some(BdiRule {
        place: format!("{}:{}", file.display(), rule.line),
        what: match program {
            Some(program) if program.value.contains(NFSRAHEAD) => {
                "nfsrahead(5), with /etc/nfs.conf".to_owned()
            }
            Some(_) | None => format!("ATTR{{read_ahead_kb}}=\"{}\"", set.value),
        },
        value: set.value.trim().parse().ok(),
        is_nfsrahead: program.is_some_and(|program| program.value.contains(NFSRAHEAD)),
        asks_program: program.is_some(),
    })
}

/// Returns nfsrahead's value for a file system type: its key, else `default`, else 128.
pub(crate) fn nfsrahead_kib(sys: &SystemRoot, fs: &str) -> Option<u64> {
    let folder = "/etc/nfs.conf.d";
    let more = names_in(&sys.path(folder)).into_iter();
    let more = more.filter(|name| name.ends_with(".conf")).map(|name| format!("{folder}/{name}"));
    let mut values = [None, None];
    for file in std::iter::once("/etc/nfs.conf".to_owned()).chain(more) {
        let text = sys.whole_text(&file).unwrap_or_default();
        let mut is_ours = false;
        for line in text.lines().map(|line| line.split(['#', ';']).next().unwrap_or("").trim()) {
            if line.starts_with('[') {
                is_ours = line == "[nfsrahead]";
            } else if let Some((key, value)) = line.split_once('=').filter(|_| is_ours) {
                let value = value.trim().parse().ok();
                if key.trim() == fs {
                    values[0] = value;
                } else if key.trim() == "default" {
                    values[1] = value;
                }
            }
        }
    }
    values[0].or(values[1]).or(Some(128))
}

/// Returns the CSI driver of a mount, from kubelet's folder names.
#[must_use]
pub(crate) fn csi_driver(sys: &SystemRoot, mount: &str) -> Option<String> {
    if let Some((_, rest)) = mount.split_once("/plugins/kubernetes.io/csi/") {
        return rest.split('/').next().filter(|name| name.contains('.')).map(str::to_owned);
    }
    let (folder, _) = mount.split_once("/mount").filter(|_| mount.contains(POD_CSI))?;
    let text = sys.whole_text(Path::new(folder).join("vol_data.json"));
    let data: Option<serde_json::Value> = text.and_then(|text| serde_json::from_str(&text).ok());
    let named = data.and_then(|data| Some(data.get("driverName")?.as_str()?.to_owned()));
    Some(named.unwrap_or_else(|| "(not named)".to_owned()))
}

const POD_CSI: &str = "/volumes/kubernetes.io~csi/";
const NFSRAHEAD: &str = "nfsrahead";
const OVERLAY: &str = "overlayfs opens the file of the layer; kernel.org, filesystems/overlayfs";
