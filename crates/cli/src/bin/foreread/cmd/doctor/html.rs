//! The page of `doctor --html`.
//!
//! Lists the devices, then each finding with its reason, evidence and commands.

use foreread_report::{ReportBlock, ReportPage, ReportSection, ReportTable, TableRow};
use foreread_tune::doctor::{Examination, Finding};

use super::mounts;
use super::report::{HEADING, row};

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
