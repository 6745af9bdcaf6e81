//! The pages of `doctor --html` and `doctor merge --html`.

use foreread_report::{ReportBlock, ReportPage, ReportSection, ReportTable, TableRow};
use foreread_tune::doctor::{Examination, Finding};
use foreread_tune::fleet::{ClassFinding, Fleet, FleetMachine, MachineClass};

use super::mounts;
use super::report::{HEADING, row};

/// Returns the page of a system: the devices, then each finding with its reason, evidence and
/// commands.
pub(super) fn page(examination: &Examination) -> ReportPage {
    let mut page = ReportPage::new("foreread doctor", &headline(examination));
    page.notes.clone_from(&examination.notes);
    let mut section = ReportSection::new("Devices");
    let mut table = ReportTable::new("Marked: devices with findings.", &HEADING);
    table.rows = examination
        .devices
        .iter()
        .map(|device| TableRow { cells: row(device).to_vec(), is_marked: device.findings > 0 })
        .collect();
    section.blocks.push(ReportBlock::Table(table));
    if !examination.mounts.is_empty() {
        let caption = "Mounts, and where their windows come from. Marked: mounts with findings.";
        let mut table = ReportTable::new(caption, &mounts::HEADING);
        table.rows = examination
            .mounts
            .iter()
            .map(|one| TableRow { cells: mounts::row(one).to_vec(), is_marked: one.findings > 0 })
            .collect();
        section.blocks.push(ReportBlock::Table(table));
        let notes = mounts::notes(&examination.mounts);
        section.blocks.extend(notes.into_iter().map(ReportBlock::Paragraph));
    }
    for device in &examination.devices {
        let notes = device.notes.iter().map(|note| format!("{}: {note}", device.device));
        section.blocks.extend(notes.map(ReportBlock::Paragraph));
    }
    page.sections.push(section);
    page.sections.extend(examination.findings.iter().map(finding));
    page
}

/// Returns the number of findings and the first command.
fn headline(examination: &Examination) -> String {
    let devices = examination.devices.len();
    let Some(first) = examination.findings.first() else {
        return format!("No findings on {devices} devices: nothing has to be done.");
    };
    let count = examination.findings.len();
    let what = format!("{count} findings on {devices} devices");
    let begin = format!("{what}; begin with {}, {}", first.device, first.check);
    match first.mend.first() {
        Some(command) => format!("{begin}: {command}"),
        None => format!("{begin}."),
    }
}

fn finding(finding: &Finding) -> ReportSection {
    let mut section = ReportSection::new(&format!("{}: {}", finding.device, finding.check));
    let blocks = &mut section.blocks;
    blocks.push(ReportBlock::Paragraph(finding.what.clone()));
    blocks.push(ReportBlock::Paragraph(finding.why.clone()));
    blocks.extend(finding.evidence.iter().cloned().map(ReportBlock::Paragraph));
    if finding.mend.is_empty() {
        let text = "No command can mend it, or the system does not say enough to write one.";
        blocks.push(ReportBlock::Paragraph(text.to_owned()));
    }
    blocks.extend(finding.mend.iter().cloned().map(ReportBlock::Code));
    blocks.push(ReportBlock::Paragraph(finding.confidence.text().to_owned()));
    section
}

/// Returns the page of a comparison of machines: the machines, then each class with its outliers
/// and commands.
pub(super) fn fleet_page(fleet: &Fleet) -> ReportPage {
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
