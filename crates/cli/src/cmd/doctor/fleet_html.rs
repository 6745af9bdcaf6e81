//! The page of `doctor merge --html`.
//!
//! In:    a fleet.
//! Out:   one page of HTML without scripts, images or addresses of others.
//! Never: a word of a report that could become markup.

use std::fmt::Write as _;

use foreread_tune::fleet::{ClassFinding, Fleet, FleetMachine, MachineClass};

/// Whether a file begins as such a page.
pub(super) fn is_ours(head: &[u8]) -> bool {
    head.starts_with(HEAD.as_bytes())
}

/// The page.
pub(super) fn page(fleet: &Fleet) -> String {
    let mut text = HEAD.to_owned();
    let with = |is: fn(&FleetMachine) -> bool| fleet.machines.iter().filter(|it| is(it)).count();
    let _ = writeln!(
        text,
        "<h1>foreread doctor: {} machines</h1>\n<p>{} with findings, {} with outliers, {} classes \
         of the same hardware.</p>",
        fleet.machines.len(),
        with(|machine| !machine.findings.is_empty()),
        with(|machine| !machine.outliers.is_empty()),
        fleet.classes.len()
    );
    machines(&mut text, fleet);
    for one in &fleet.classes {
        class(&mut text, fleet, one);
    }
    text + "</body></html>\n"
}

fn machines(text: &mut String, fleet: &Fleet) {
    let heading = ["machine", "class", "kernel", "devices", "mounts", "outliers", "findings"];
    let _ = writeln!(text, "<table><tr>{}</tr>", cells("th", &heading.map(str::to_owned)));
    for machine in &fleet.machines {
        let kernel = machine.kernel.clone().unwrap_or_default();
        let row = [
            machine.host.clone(),
            machine.class.clone(),
            kernel,
            machine.devices.to_string(),
            machine.mounts.to_string(),
            machine.outliers.len().to_string(),
            machine.findings.join(", "),
        ];
        let mark = if machine.findings.is_empty() { "" } else { " class=\"found\"" };
        let _ = writeln!(text, "<tr{mark}>{}</tr>", cells("td", &row));
    }
    *text += "</table>\n";
}

fn class(text: &mut String, fleet: &Fleet, class: &MachineClass) {
    let _ = writeln!(
        text,
        "<h2>Class {}: {} machines</h2>\n<p>{}</p>\n<p>{}</p>",
        escaped(&class.name),
        class.hosts.len(),
        escaped(&class.hardware),
        escaped(&class.hosts.join(", "))
    );
    let members = || fleet.machines.iter().filter(|machine| machine.class == class.name);
    if members().any(|machine| !machine.outliers.is_empty()) {
        let heading = ["outlier", "setting", "value", "usual here"].map(str::to_owned);
        let _ = writeln!(text, "<table><tr>{}</tr>", cells("th", &heading));
        for machine in members() {
            for outlier in &machine.outliers {
                let row = [
                    machine.host.clone(),
                    outlier.setting.clone(),
                    outlier.value.clone(),
                    outlier.usual.clone(),
                ];
                let _ = writeln!(text, "<tr>{}</tr>", cells("td", &row));
            }
        }
        *text += "</table>\n";
    }
    for finding in &class.findings {
        finding_of(text, finding, class.hosts.len());
    }
}

fn finding_of(text: &mut String, finding: &ClassFinding, members: usize) {
    let _ = writeln!(
        text,
        "<h3>{}: {}</h3>\n<p>{} of {members}: {}</p>",
        escaped(&finding.device),
        escaped(&finding.check),
        finding.hosts.len(),
        escaped(&finding.hosts.join(", "))
    );
    for command in &finding.mend {
        let _ = writeln!(text, "<pre>{}</pre>", escaped(command));
    }
    if !finding.is_same {
        *text += "<p>The commands differ from machine to machine; these are of the first.</p>\n";
    }
}

fn cells<const COLUMNS: usize>(tag: &str, row: &[String; COLUMNS]) -> String {
    row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect()
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text = text.replace('"', "&quot;").replace('\'', "&#39;");
    text.replace(|c: char| c.is_control(), "?")
}

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<title>foreread doctor merge</title>\n<style>\n\
body{font:15px/1.4 sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}\n\
table{border-collapse:collapse;margin:1em 0}\n\
th,td{border-bottom:1px solid #ccc;padding:.3em .8em;text-align:left;vertical-align:top}\n\
.found td:first-child{border-left:4px solid #c60}\n\
pre{background:#f4f4f4;padding:.5em;overflow-x:auto}\n\
</style></head><body>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_markup() {
        let machine = FleetMachine {
            file: String::new(),
            host: "<script>x</script>".to_owned(),
            kernel: None,
            class: "A".to_owned(),
            devices: 0,
            mounts: 0,
            findings: Vec::new(),
            outliers: Vec::new(),
        };
        let page = page(&Fleet { machines: vec![machine], ..Fleet::default() });
        assert!(page.contains("&lt;script&gt;x") && !page.contains("<script"), "{page}");
        assert!(is_ours(page.as_bytes()) && page.ends_with("</html>\n"));
        assert!(!page.contains("http"), "it needs nothing else");
    }
}
