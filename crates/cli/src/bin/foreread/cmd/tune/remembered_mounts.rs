//! Remembered mounts, for people.

use std::io::Write as _;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_tune::remember::{MountVerification, RememberedMount};
use foreread_tune::sysfs::SystemRoot;

use foreread_cli::output::{Failure, Printer};
use foreread_cli::table::or_dash;

/// Returns a row of `--list`.
pub(super) fn cells(sys: &SystemRoot, known: &RememberedMount) -> [String; 6] {
    let is_here = known.setting(sys).is_some();
    let absent = if is_here { "" } else { " (absent)" };
    let window = |kib: u64| format!("read_ahead_kb={kib}");
    [
        known.id.clone(),
        format!("{}{absent}", known.mount),
        known.date.clone(),
        or_dash(known.report.plateau_kib.map(|kib| Exact(ByteCount(kib << 10)))),
        window(known.read_ahead_kb),
        or_dash(known.before_kb.map(window)),
    ]
}

/// Prints the results of `verify` for mounts.
pub(super) fn print_verified(
    mounts: &[MountVerification],
    out: &mut Printer,
) -> Result<(), Failure> {
    for verdict in mounts {
        let state = match (verdict.findings.is_empty(), verdict.is_mounted) {
            (true, true) => "as remembered",
            (true, false) => "as remembered (not mounted now)",
            (false, _) => "NOT as remembered",
        };
        let name = if verdict.mount.is_empty() { &verdict.id } else { &verdict.mount };
        out.entry("", &format!("{name}: {state}"))?;
        for finding in &verdict.findings {
            out.entry("  ", finding)?;
        }
    }
    out.flush().map_err(Failure::Stdout)
}
