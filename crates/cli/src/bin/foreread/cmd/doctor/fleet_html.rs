//! The page of `doctor merge --html`.
//!
//! Lists the machines, then each class with its outliers and commands.

use foreread_report::{ReportBlock, ReportPage, ReportSection, ReportTable, TableRow};
use foreread_tune::fleet::{ClassFinding, Fleet, FleetMachine, MachineClass};

/// The page.
pub(super) fn page(fleet: &Fleet) -> ReportPage {
    let with = |is: fn(&FleetMachine) -> bool| fleet.machines.iter().filter(|it| is(it)).count();
    let headline = format!(
        "{} of {} machines have findings, {} have outliers; {} classes of the same hardware.",
        with(|machine| !machine.findings.is_empty()),
        fleet.machines.len(),
        with(|machine| !machine.outliers.is_empty()),
        fleet.classes.len()
    );
    let mut page = ReportPage::new("foreread doctor merge", &headline);
    page.notes.clone_from(&fleet.notes);
    let mut all = ReportSection::new("Machines");
    all.blocks.push(ReportBlock::Table(machines(fleet)));
    page.sections.push(all);
    page.sections.extend(fleet.classes.iter().map(|one| class(fleet, one)));
    page
}

fn machines(fleet: &Fleet) -> ReportTable {
    let heading = ["machine", "class", "kernel", "devices", "mounts", "outliers", "findings"];
    let mut table = ReportTable::new("Marked: machines with findings.", &heading);
    let row = |machine: &FleetMachine| TableRow {
        cells: vec![
            machine.host.clone(),
            machine.class.clone(),
            machine.kernel.clone().unwrap_or_default(),
            machine.devices.to_string(),
            machine.mounts.to_string(),
            machine.outliers.len().to_string(),
            machine.findings.join(", "),
        ],
        is_marked: !machine.findings.is_empty(),
    };
    table.rows = fleet.machines.iter().map(row).collect();
    table
}

fn class(fleet: &Fleet, class: &MachineClass) -> ReportSection {
    let heading = format!("Class {}: {} machines", class.name, class.hosts.len());
    let mut section = ReportSection::new(&heading);
    section.blocks.push(ReportBlock::Paragraph(class.hardware.clone()));
    section.blocks.push(ReportBlock::Paragraph(class.hosts.join(", ")));
    let mut outliers =
        ReportTable::new("Outliers.", &["outlier", "setting", "value", "usual here"]);
    for machine in fleet.machines.iter().filter(|machine| machine.class == class.name) {
        for outlier in &machine.outliers {
            let cells = [&machine.host, &outlier.setting, &outlier.value, &outlier.usual];
            outliers.push(cells.map(String::clone));
        }
    }
    if !outliers.rows.is_empty() {
        section.blocks.push(ReportBlock::Table(outliers));
    }
    for finding in &class.findings {
        section.blocks.extend(finding_of(finding, class.hosts.len()));
    }
    section
}

fn finding_of(finding: &ClassFinding, members: usize) -> Vec<ReportBlock> {
    let hosts = finding.hosts.join(", ");
    let mut blocks = vec![
        ReportBlock::Heading(format!("{}: {}", finding.device, finding.check)),
        ReportBlock::Paragraph(format!("{} of {members}: {hosts}", finding.hosts.len())),
    ];
    blocks.extend(finding.mend.iter().cloned().map(ReportBlock::Code));
    if !finding.is_same {
        let text = "The commands differ from machine to machine; these are of the first.";
        blocks.push(ReportBlock::Paragraph(text.to_owned()));
    }
    blocks
}
