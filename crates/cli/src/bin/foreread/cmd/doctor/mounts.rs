//! Mounts and stacks, for people.
//!
//! Long paths do not make the table wider than a terminal.

use std::io::Write as _;

use foreread_tune::doctor::{Examination, StackLayer};
use foreread_tune::mounts::{Governor, MountWindow};

use foreread_cli::output::{Failure, Printer, plain};
use foreread_cli::table::{self, or_dash};

/// Prints the table, after an empty line if another table precedes it.
pub(super) fn print(
    out: &mut Printer,
    mounts: &[MountWindow],
    is_below: bool,
) -> Result<(), Failure> {
    if mounts.is_empty() {
        return Ok(());
    }
    if is_below {
        writeln!(out)?;
    }
    table::print(out, HEADING, mounts.iter().map(row))
}

/// Returns notes on single mounts, and the origin of their own windows.
pub(super) fn notes(mounts: &[MountWindow]) -> Vec<String> {
    let mut notes = Vec::new();
    for mount in mounts {
        let of_own = matches!(mount.governed_by, Governor::Device { .. });
        if !of_own {
            let cited = mount.cited.iter().map(|cited| format!(" [{cited}]")).collect::<String>();
            notes.push(format!("{}: {}{cited}", mount.mount, mount.origin));
        }
        notes.extend(mount.notes.iter().map(|note| format!("{}: {note}", mount.mount)));
    }
    notes
}

pub(super) fn row(mount: &MountWindow) -> [String; 6] {
    let also = match mount.also_at {
        0 => String::new(),
        more => format!(" +{more}"),
    };
    [
        format!("{}{also}", short(&plain(&mount.mount), MOUNT_WIDTH)),
        plain(&mount.fs),
        short(&plain(&mount.governed_by.text()), GOVERNOR_WIDTH),
        or_dash(mount.read_ahead_kb),
        or_dash(mount.kernel_kb),
        match mount.findings {
            0 => "-".to_owned(),
            count => count.to_string(),
        },
    ]
}

/// Prints the trees of all mounts.
pub(super) fn print_stacks(out: &mut Printer, examination: &Examination) -> Result<(), Failure> {
    for layers in &examination.stacks {
        writeln!(out)?;
        let rows = layers.iter().enumerate().map(|(at, layer)| {
            let kib = |kib: Option<u64>| or_dash(kib);
            let offset = match layer.alignment_offset {
                Some(0) => "aligned".to_owned(),
                Some(bytes) => format!("off by {bytes}"),
                None => "-".to_owned(),
            };
            [
                format!("{}{}", branches(layers, at), short(&plain(&layer.name), MOUNT_WIDTH)),
                short(&plain(&layer.what), WHAT_WIDTH),
                kib(layer.read_ahead_kb),
                layer.role.text().to_owned(),
                kib(layer.max_sectors_kb),
                or_dash(layer.scheduler.as_deref().map(plain)),
                offset,
            ]
        });
        table::print(out, STACK_HEADING, rows)?;
    }
    Ok(())
}

/// The lines before a name: `|  '- `.
fn branches(layers: &[StackLayer], at: usize) -> String {
    let depth = layers[at].depth;
    // True if another layer of this depth follows before the tree goes up again.
    let goes_on = |depth: usize| {
        let below = layers[at + 1..].iter().take_while(|layer| layer.depth >= depth);
        below.into_iter().any(|layer| layer.depth == depth)
    };
    let mut text = String::new();
    for level in 1..depth {
        text += if goes_on(level) { "|  " } else { "   " };
    }
    match (depth, goes_on(depth)) {
        (0, _) => text,
        (_, true) => text + "|- ",
        (_, false) => text + "'- ",
    }
}

/// Shortens a long text in the middle.
fn short(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let (head, tail) = (width / 3, width - width / 3 - 2);
    let first: String = text.chars().take(head).collect();
    let last: String = text.chars().skip(count - tail).collect();
    format!("{first}..{last}")
}

const MOUNT_WIDTH: usize = 32;
const GOVERNOR_WIDTH: usize = 26;
const WHAT_WIDTH: usize = 34;

pub(super) const HEADING: [&str; 6] =
    ["mount", "fs", "governed by", "read_ahead_kb", "kernel", "findings"];

const STACK_HEADING: [&str; 7] =
    ["layer", "what", "read_ahead_kb", "role", "max_sectors_kb", "scheduler", "start"];

#[cfg(test)]
mod tests {
    use foreread_tune::doctor::LayerRole;

    use super::*;

    #[test]
    fn a_tree_has_its_branches() {
        let layer = |depth, name: &str| StackLayer {
            depth,
            name: name.to_owned(),
            what: String::new(),
            read_ahead_kb: None,
            max_sectors_kb: None,
            scheduler: None,
            alignment_offset: None,
            role: LayerRole::None,
        };
        let layers = [
            layer(0, "/srv"),
            layer(1, "md0"),
            layer(2, "sda1"),
            layer(3, "sda"),
            layer(2, "sdb1"),
            layer(3, "sdb"),
        ];
        let drawn: Vec<_> =
            (0..6).map(|at| format!("{}{}", branches(&layers, at), layers[at].name)).collect();
        assert_eq!(
            drawn,
            ["/srv", "'- md0", "   |- sda1", "   |  '- sda", "   '- sdb1", "      '- sdb"]
        );
    }

    #[test]
    fn a_long_path_loses_its_middle() {
        assert_eq!(short("/mnt", 12), "/mnt");
        assert_eq!(short("/var/lib/kubelet/pods/1/mount", 12), "/var../mount");
    }
}
