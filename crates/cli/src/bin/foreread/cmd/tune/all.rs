//! Which devices `--all` means.
//!
//! Skips, with a note, memory devices, loop devices, drives without a medium and duplicates.

use std::path::PathBuf;

use foreread_core::units::ByteCount;
use foreread_tune::identity::identity;
use foreread_tune::remember;
use foreread_tune::sysfs::{BlockDevice, BlockDeviceKind, SystemRoot};

use foreread_cli::output::{Failure, Printer};

/// Measures every suitable device that is not remembered.
pub(super) fn all(
    sys: &SystemRoot,
    remember: bool,
    out: &mut Printer,
) -> Result<Vec<PathBuf>, Failure> {
    let known: Vec<BlockDevice> =
        remember::list(sys).remembered.iter().flat_map(|it| it.identity.devices(sys)).collect();
    let mut notes = Vec::new();
    let mut paths = Vec::new();
    for device in sys.devices() {
        if !is_worth_it(&device) {
            continue;
        }
        if known.iter().any(|known| known.name == device.name) {
            notes.push(format!("{}: remembered already; tune forget {0} undoes it", device.name));
            continue;
        }
        if let (true, Err(why)) = (remember, identity(sys, &device.name)) {
            notes.push(why.to_string());
            continue;
        }
        paths.push(device.node());
    }
    if paths.is_empty() && notes.is_empty() {
        return Err(Failure::WrongUse("no device here can be measured".into()));
    }
    out.notes(&notes)?;
    Ok(paths)
}

/// Returns true for devices worth measuring: not memory, not a file, not empty.
fn is_worth_it(device: &BlockDevice) -> bool {
    let has_medium = device.size >= ByteCount(1 << 20);
    let is_memory = ["ram", "zram", "sr", "fd"].iter().any(|kind| {
        let number = device.name.strip_prefix(kind);
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    });
    let is_real = match &device.kind {
        BlockDeviceKind::Disk => !is_memory,
        BlockDeviceKind::Mapped { .. } | BlockDeviceKind::Raid { .. } => true,
        BlockDeviceKind::Partition { .. } | BlockDeviceKind::Loop { .. } => false,
    };
    has_medium && is_real && device.queue.read_ahead_kib.is_some()
}
