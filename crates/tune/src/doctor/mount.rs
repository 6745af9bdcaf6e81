//! Checks the windows of mounts that have their own, or none.
//!
//! A measured window is never a finding. Values that were not measured come from public reports,
//! which are cited.
//!
//! ```text
//!   remembered?           yes, and in force: fine           no longer: mount-not-as-remembered
//!   0?                    mount-read-ahead-off              (9p without a cache: a note)
//!   128 KiB or less, and each request is a way through a network?    mount-read-ahead-small
//!   btrfs over disks that were tuned?                       window-does-not-reach
//! ```

use super::snapshot::{SystemSnapshot, kib, quoted, window_attribute};
use super::{Confidence, Finding};
use crate::kernel_default::CONSTANT_KIB;
use crate::mounts::{FileSystemKind, Governor, MountWindow};

/// Returns the findings of a mount, and adds notes to it.
pub(super) fn check(snapshot: &SystemSnapshot<'_>, mount: &mut MountWindow) -> Vec<Finding> {
    let Governor::Bdi { .. } = mount.governed_by else { return Vec::new() };
    let Some(window_kib) = mount.read_ahead_kb else { return Vec::new() };
    let kind = FileSystemKind::of(&mount.fs);
    let known = snapshot.facts.remembered.iter().find(|one| one.device == mount.mount);
    if let Some(known) = known {
        if known.read_ahead_kb == window_kib {
            let until = if known.is_until_boot { ", and set until unmounted" } else { "" };
            mount.notes.push(format!("{} was measured on {}{until}", kib(window_kib), known.date));
            return Vec::new();
        }
        if !known.is_until_boot {
            return vec![not_as_remembered(mount, window_kib, known.read_ahead_kb, &known.date)];
        }
    }
    notes(mount, kind, window_kib);
    let found = if window_kib == 0 {
        off(mount, kind)
    } else if window_kib <= CONSTANT_KIB && kind.is_far() {
        small(mount, kind, window_kib)
    } else if kind == FileSystemKind::Btrfs {
        not_reached(snapshot, mount, window_kib)
    } else {
        None
    };
    found.into_iter().collect()
}

fn notes(mount: &mut MountWindow, kind: FileSystemKind, window_kib: u64) {
    let max_read = mount.entry.number_of("max_read").filter(|bytes| *bytes > 0);
    if let Some(kib_read) = max_read.map(|bytes| bytes / 1024).filter(|kib| *kib < window_kib) {
        mount.notes.push(format!(
            "its requests are limited to {kib_read} KiB (max_read): a window of {} takes several \
             requests, in parallel if the program serves them in parallel",
            kib(window_kib)
        ));
    }
    if kind == FileSystemKind::Nfs && window_kib >= LARGE_KIB {
        mount.notes.push(format!(
            "{} suit some servers and harm others (reported: EFS 14.4 s with 128 KiB, 3.6 s with \
             15360, amazon-ec2-utils 7; another 942 MB/s with 1024 KiB, 380 with 15360, home-ops \
             5862): foreread tune {} measures yours",
            kib(window_kib),
            quoted(&mount.mount)
        ));
    }
    if kind == FileSystemKind::Nfs
        && let Some(rsize_kib) = mount.entry.number_of("rsize").map(|bytes| bytes / 1024)
        && rsize_kib > window_kib
    {
        mount.notes.push(format!(
            "reads larger than the window use requests of up to rsize, {rsize_kib} KiB; for \
             programs with small reads the kernel reads {} ahead",
            kib(window_kib)
        ));
    }
}

fn not_as_remembered(mount: &MountWindow, now_kib: u64, kib_then: u64, date: &str) -> Finding {
    Finding {
        device: mount.mount.clone(),
        check: "mount-not-as-remembered",
        what: format!(
            "read_ahead_kb is {}; {} was measured on {date} and remembered.",
            kib(now_kib),
            kib(kib_then)
        ),
        why: "The rule that sets it at the mount did not run, or another program has changed it \
              since."
            .to_owned(),
        evidence: vec![attribute(mount)],
        mend: vec!["foreread tune follow".to_owned(), set(mount, kib_then)],
        confidence: Confidence::Measured,
    }
}

fn off(mount: &mut MountWindow, kind: FileSystemKind) -> Option<Finding> {
    if kind == FileSystemKind::NineP {
        mount.notes.push(
            "mounted without a cache: each read goes to the host. cache=loose (only if no other \
             client changes the files) or cache=readahead enables read-ahead"
                .to_owned(),
        );
        return None;
    }
    Some(Finding {
        device: mount.mount.clone(),
        check: "mount-read-ahead-off",
        what: "read_ahead_kb is 0: read-ahead is off.".to_owned(),
        why: "A sequential reader waits for the file system at each read, and small reads become \
              single-page requests."
            .to_owned(),
        evidence: vec![
            attribute(mount),
            format!("where it came from: {}", mount.origin),
            "a FUSE file system without read-ahead: page-sized requests (bazil/fuse 238)"
                .to_owned(),
        ],
        mend: mend(mount, CONSTANT_KIB),
        confidence: Confidence::Cited,
    })
}

fn small(mount: &MountWindow, kind: FileSystemKind, window_kib: u64) -> Option<Finding> {
    let (what, report, confidence) = match kind {
        FileSystemKind::Nfs => {
            let rsize_kib = mount.entry.number_of("rsize").map(|bytes| bytes / 1024)?;
            // With requests of this size, the window holds at least one.
            if rsize_kib <= window_kib {
                return None;
            }
            let what = format!("requests to the server have up to {rsize_kib} KiB (rsize)");
            (what, NFS_REPORTS, Confidence::Cited)
        }
        FileSystemKind::Smb
        | FileSystemKind::Ceph
        | FileSystemKind::FuseFar
        | FileSystemKind::Virtiofs => {
            let what = format!("each request of {} leaves this machine", mount.fs);
            (what, FIGURE, Confidence::Likely)
        }
        // Its window equals its largest message: more read-ahead needs a larger msize.
        FileSystemKind::NineP => {
            let what = "each message of 9p leaves this virtual machine".to_owned();
            (what, FIGURE, Confidence::Likely)
        }
        FileSystemKind::Kernel
        | FileSystemKind::Memory
        | FileSystemKind::Block
        | FileSystemKind::Fuse
        | FileSystemKind::Overlay
        | FileSystemKind::Btrfs
        | FileSystemKind::Own(_)
        | FileSystemKind::Unknown => return None,
    };
    let mut evidence = vec![
        attribute(mount),
        format!("{}: {}", MOUNTINFO, mount.entry.options),
        format!("where it came from: {}", mount.origin),
    ];
    evidence.extend(mount.cited.iter().cloned());
    evidence.extend(report.iter().map(|line| (*line).to_owned()));
    Some(Finding {
        device: mount.mount.clone(),
        check: "mount-read-ahead-small",
        what: format!("read_ahead_kb is {window_kib}, and {what}."),
        why: "A program that reads a large file in small pieces waits once for each window. The \
              best window depends on the server: measure it."
            .to_owned(),
        evidence,
        mend: mend(mount, SUGGESTED_KIB),
        confidence,
    })
}

/// Finds a tuned disk below a btrfs, which reads with its own window.
fn not_reached(
    snapshot: &SystemSnapshot<'_>,
    mount: &MountWindow,
    window_kib: u64,
) -> Option<Finding> {
    if mount.kernel_kb != Some(window_kib) {
        return None;
    }
    let disks = snapshot.disks_of_mount(&mount.entry.point);
    let disk = disks.into_iter().find(|disk| snapshot.is_window_set(disk))?;
    let disk_kib = disk.queue.read_ahead_kib?;
    Some(Finding {
        device: mount.mount.clone(),
        check: "window-does-not-reach",
        what: format!(
            "read_ahead_kb of {} was set to {}; btrfs reads with its own {}.",
            disk.name,
            kib(disk_kib),
            kib(window_kib)
        ),
        why: "btrfs uses its own window for files, so the disk's window has no effect on them."
            .to_owned(),
        evidence: vec![
            window_attribute(snapshot, disk),
            attribute(mount),
            format!("where it came from: {}", mount.origin),
            "reads amplified by it: gcp-compute-persistent-disk-csi-driver 2155".to_owned(),
        ],
        mend: vec![set(mount, disk_kib)],
        confidence: Confidence::Computed,
    })
}

/// Returns the file of its window and the value.
fn attribute(mount: &MountWindow) -> String {
    let file = mount.attribute.as_deref().unwrap_or("(none)");
    format!("{file}: {}", mount.read_ahead_kb.map_or(String::new(), |kib| kib.to_string()))
}

fn set(mount: &MountWindow, window_kib: u64) -> String {
    let file = mount.attribute.as_deref().unwrap_or("/dev/null");
    format!("echo {window_kib} > {}", quoted(file))
}

/// Suggests a measurement first, then a value from public reports until the next mount.
fn mend(mount: &MountWindow, window_kib: u64) -> Vec<String> {
    vec![
        format!("foreread tune {} --remember", quoted(&mount.mount)),
        format!("{} # until it is unmounted", set(mount, window_kib)),
    ]
}

/// Reports disagree on whether windows from here on help.
const LARGE_KIB: u64 = 4096;

/// Best value in the only public sweep of more than two values (home-ops 5862).
const SUGGESTED_KIB: u64 = 1024;

const MOUNTINFO: &str = "/proc/self/mountinfo";

const NFS_REPORTS: &[&str] = &[
    "reported of NFS with rsize 1 MiB: 650 MB/s with 128 KiB, 942 with 1024, 380 with 15360 \
     (home-ops 5862)",
    "reported of EFS: 14.4 s with 128 KiB, 3.6 s with 15360 (amazon-ec2-utils 7)",
];

const FIGURE: &[&str] =
    &["a device of 4 ms a request, read in order: 30 MB/s with 128 KiB, 221 MB/s with 1024 KiB"];
