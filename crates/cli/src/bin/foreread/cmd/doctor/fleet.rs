//! `foreread doctor merge`: many machines in one table.
//!
//! An unreadable file is an error.

use std::io::{Read as _, Write as _};

use foreread_files::{CommandInput, regular};
use foreread_tune::fleet::{self, Fleet, MachineClass};

use super::html;
use super::plan::MergePlan;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer, plain};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::table::{self, or_dash};

/// Compares the machines of these files.
pub(super) fn merge(plan: &MergePlan, out: &mut Printer) -> Result<(), Failure> {
    let inputs: Vec<_> =
        plan.files.iter().map(|path| CommandInput { name: "FILE", path }).collect();
    let mut outputs = CommandOutputs::beside(&inputs);
    let page = HtmlFile::prepare(plan.html.as_deref(), plan.is_json, &mut outputs)?;
    let mut reports = Vec::new();
    for path in &plan.files {
        let name = path.display().to_string();
        let text = text_of(path).map_err(|error| Failure::WrongUse(format!("{name}: {error}")))?;
        reports.push(fleet::parse(&name, &text).map_err(Failure::WrongUse)?);
    }
    let fleet = fleet::compare(reports);
    if let Some(page) = page {
        page.write(html::fleet_page(&fleet))?;
    }
    if plan.is_json {
        out.json("doctor merge", &fleet.machines)?;
    } else {
        print(out, &fleet)?;
    }
    out.notes(&fleet.notes)?;
    let count = fleet.machines.iter().filter(|machine| !machine.findings.is_empty()).count();
    match count {
        0 => Ok(()),
        count => Err(Failure::Check(format!(
            "{count} of {} machines have findings",
            fleet.machines.len()
        ))),
    }
}

/// Reads a regular file of plausible size.
fn text_of(path: &std::path::Path) -> std::io::Result<String> {
    // Opening a pipe without a writer would block.
    let file = regular::open(path)?;
    let mut text = String::new();
    file.take(REPORT_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > REPORT_MAX {
        return Err(std::io::Error::other("is larger than any report of doctor --json"));
    }
    Ok(text)
}

fn print(out: &mut Printer, fleet: &Fleet) -> Result<(), Failure> {
    let rows = fleet.machines.iter().map(|machine| {
        let count = |count: usize| if count == 0 { "-".to_owned() } else { count.to_string() };
        [
            plain(&machine.host),
            machine.class.clone(),
            or_dash(machine.kernel.as_deref().map(plain)),
            machine.devices.to_string(),
            machine.mounts.to_string(),
            count(machine.outliers.len()),
            count(machine.findings.len()),
        ]
    });
    table::print(out, HEADING, rows)?;
    for class in &fleet.classes {
        print_class(out, fleet, class)?;
    }
    Ok(())
}

fn print_class(out: &mut Printer, fleet: &Fleet, class: &MachineClass) -> Result<(), Failure> {
    let noun = if class.hosts.len() == 1 { "machine" } else { "machines" };
    writeln!(out, "\nclass {}: {} {noun}", class.name, class.hosts.len())?;
    out.paragraph("  hardware  ", &plain(&class.hardware))?;
    let members = fleet.machines.iter().filter(|machine| machine.class == class.name);
    for machine in members {
        for outlier in &machine.outliers {
            let line = format!(
                "{}: {} is {}, usual here is {}",
                machine.host, outlier.setting, outlier.value, outlier.usual
            );
            out.paragraph("  outlier   ", &plain(&line))?;
        }
    }
    for finding in &class.findings {
        let of = format!("{} of {}", finding.hosts.len(), class.hosts.len());
        let line =
            format!("{} {} ({of}: {})", finding.device, finding.check, names(&finding.hosts));
        out.paragraph("  finding   ", &plain(&line))?;
        for command in finding.mend.iter().take(1) {
            writeln!(out, "    mend    {}", plain(command))?;
        }
        if !finding.is_same {
            out.paragraph("            ", "(the commands differ: see doctor on each machine)")?;
        }
    }
    Ok(())
}

/// Formats the first names, and the number of others.
fn names(hosts: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown = hosts.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match hosts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A machine with many thousand devices has some MiB.
const REPORT_MAX: u64 = 256 << 20;

const HEADING: [&str; 7] =
    ["machine", "class", "kernel", "devices", "mounts", "outliers", "findings"];

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe without a writer was waited for.
    #[test]
    fn what_is_no_regular_file_is_no_report() {
        let error = text_of(std::path::Path::new("/dev/null")).expect_err("it is refused");
        assert_eq!(error.to_string(), "is not a regular file");
    }
}
