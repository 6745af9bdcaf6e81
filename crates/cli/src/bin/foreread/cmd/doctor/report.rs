//! Text report of doctor: tables and paragraphs, as wide as the terminal.
//!
//! Commands and file names are never split.

use std::io::Write as _;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_tune::doctor::write_cost::{SizeCost, WriteCost};
use foreread_tune::doctor::{Examination, Examined, Finding};

use super::mounts;
use foreread_cli::output::{Failure, Printer, plain};
use foreread_cli::table::{self, or_dash};
use foreread_cli::terminal::wrap_command;

pub(super) fn print(
    out: &mut Printer,
    examination: &Examination,
    measured: Option<&WriteCost>,
    has_stacks: bool,
) -> Result<(), Failure> {
    let has_devices = !examination.devices.is_empty() || examination.mounts.is_empty();
    if has_devices {
        table::print(out, HEADING, examination.devices.iter().map(row))?;
    }
    mounts::print(out, &examination.mounts, has_devices)?;
    if has_stacks {
        mounts::print_stacks(out, examination)?;
    }
    let notes = examination
        .devices
        .iter()
        .flat_map(|device| device.notes.iter().map(|note| format!("{}: {note}", device.device)));
    let mut notes: Vec<_> = notes.collect();
    notes.extend(mounts::notes(&examination.mounts));
    notes.extend(examination.notes.iter().cloned());
    if !notes.is_empty() {
        writeln!(out)?;
        for note in notes {
            out.paragraph("", &plain(&note))?;
        }
    }
    if let Some(cost) = measured {
        print_measured(out, cost)?;
    }
    print_findings(out, &examination.findings)
}

pub(super) fn print_findings(out: &mut Printer, findings: &[Finding]) -> Result<(), Failure> {
    if findings.is_empty() {
        writeln!(out, "\nNo findings.")?;
    }
    findings.iter().try_for_each(|finding| print_finding(out, finding))
}

/// Returns exit code 1 if there are findings.
pub(super) fn exit(findings: &[Finding]) -> Result<(), Failure> {
    match findings.len() {
        0 => Ok(()),
        1 => Err(Failure::Check("1 finding".to_owned())),
        count => Err(Failure::Check(format!("{count} findings"))),
    }
}

/// Prints one line per finding, for scripts.
pub(super) fn check(out: &mut Printer, findings: &[Finding]) -> Result<(), Failure> {
    for finding in findings {
        let first = finding.mend.first().map_or("(no command)", String::as_str);
        let confidence = format!("{:?}", finding.confidence).to_lowercase();
        writeln!(
            out,
            "{}\t{}\t{confidence}\t{}",
            plain(&finding.device),
            finding.check,
            plain(first)
        )?;
    }
    Ok(())
}

pub(super) fn row(device: &Examined) -> [String; 8] {
    let kib = |kib: u64| Exact(ByteCount(kib.saturating_mul(1024))).to_string();
    [
        plain(&device.device),
        rough(device.bytes),
        plain(&device.kind),
        or_dash(device.read_ahead_kb),
        or_dash(device.kernel_kb),
        or_dash(device.size_rule_kb.map(kib)),
        or_dash(device.scheduler.as_deref().map(plain)),
        match device.findings {
            0 => "-".to_owned(),
            count => count.to_string(),
        },
    ]
}

fn print_finding(out: &mut Printer, finding: &Finding) -> Result<(), Failure> {
    writeln!(out, "\n{}: {}", plain(&finding.device), finding.check)?;
    out.paragraph("  what      ", &plain(&finding.what))?;
    out.paragraph("  why       ", &plain(&finding.why))?;
    let mut label = "  evidence  ";
    for evidence in &finding.evidence {
        out.paragraph(label, &plain(evidence))?;
        label = "            ";
    }
    label = "  mend      ";
    if finding.mend.is_empty() {
        out.paragraph(label, "(no command can, or the system does not say enough to write one)")?;
    }
    for command in &finding.mend {
        let command = plain(command);
        // Without a known width, prints one long line.
        match out.width() {
            None => writeln!(out, "{label}{command}")?,
            Some(width) => {
                for line in wrap_command(label, &command, width) {
                    writeln!(out, "{line}")?;
                }
            }
        }
        label = "      or    ";
    }
    out.paragraph("  how sure  ", finding.confidence.text())
}

fn print_measured(out: &mut Printer, cost: &WriteCost) -> Result<(), Failure> {
    writeln!(
        out,
        "\n{} in writes of 4096, fsync, to a loop device:\n",
        Exact(ByteCount(cost.bytes))
    )?;
    let heading = ["sectors", "block", "requests", "expected", "MB/s"];
    let row = |side: SizeCost| {
        [
            side.sectors.to_string(),
            side.block_bytes.to_string(),
            side.requests.to_string(),
            side.expected_requests.to_string(),
            format!("{:.0}", side.mb_per_s),
        ]
    };
    table::print(out, heading, [cost.whole, cost.odd].map(row))?;
    writeln!(out)?;
    let line = format!(
        "The odd size takes {:.1} times as many requests and {:.1} times as long.",
        cost.times_as_many(),
        cost.times_as_long()
    );
    out.paragraph("", &line)
}

/// Returns the same as one line, for stderr with JSON.
pub(super) fn measured_in_one_line(cost: &WriteCost) -> String {
    format!(
        "measured: {} requests and {:.0} MB/s with blocks of {}, {} requests and {:.0} MB/s with \
         blocks of {}",
        cost.whole.requests,
        cost.whole.mb_per_s,
        cost.whole.block_bytes,
        cost.odd.requests,
        cost.odd.mb_per_s,
        cost.odd.block_bytes
    )
}

/// Formats a size like a disk's: `238.5G`.
fn rough(bytes: u64) -> String {
    let mut value = bytes as f64;
    for letter in ["", "K", "M", "G", "T"] {
        if value < 1024.0 {
            let digits = usize::from(value < 100.0 && value.fract() != 0.0 && !letter.is_empty());
            return format!("{value:.digits$}{letter}");
        }
        value /= 1024.0;
    }
    format!("{value:.0}P")
}

pub(super) const HEADING: [&str; 8] =
    ["device", "size", "what", "read_ahead_kb", "kernel", "size rule", "scheduler", "findings"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_as_one_knows_it() {
        let rows = [
            (512, "512"),
            (516_096, "504K"),
            (64_000_000, "61.0M"),
            (256 << 30, "256G"),
            (1_000_204_886_016, "932G"),
            (2 << 40, "2T"),
            (u64::MAX, "16384P"),
        ];
        for (bytes, text) in rows {
            assert_eq!(rough(bytes), text);
        }
    }
}
