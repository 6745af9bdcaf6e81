//! Metrics of an examination, for the textfile collector of Prometheus' node_exporter.
//!
//! The file is replaced atomically, as the collector may read it at any time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use foreread_tune::doctor::Examination;

use foreread_cli::output::Failure;
use foreread_cli::output_file::{CommandOutputs, OutputFile};

/// Creates the file before anything is examined.
pub(super) fn created(
    path: &Path,
    outputs: &mut CommandOutputs<'_>,
) -> Result<OutputFile, Failure> {
    let is_ours = |head: &[u8]| head.starts_with(FIRST.as_bytes());
    outputs.prepare("--prometheus", path, is_ours)
}

pub(super) fn write(file: OutputFile, examination: &Examination) -> Result<(), Failure> {
    let text = metrics(examination);
    file.write(|file| file.write_all(text.as_bytes()))
}

fn metrics(examination: &Examination) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{FIRST}The number of findings of foreread doctor.");
    let _ = writeln!(text, "# TYPE foreread_doctor_findings gauge");
    let _ = writeln!(text, "foreread_doctor_findings {}", examination.findings.len());
    let mut open = |name: &str, help: &str| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    };
    open("foreread_doctor_finding", "A finding of foreread doctor.");
    let mut series = BTreeSet::new();
    for finding in &examination.findings {
        let confidence = format!("{:?}", finding.confidence).to_lowercase();
        series.insert(format!(
            "foreread_doctor_finding{{target=\"{}\",check=\"{}\",confidence=\"{confidence}\"}} 1",
            escaped(&finding.device),
            finding.check
        ));
    }
    // The collector refuses a file that has a series twice; a check can find two things on one.
    for line in &series {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(
        text,
        "# HELP foreread_read_ahead_kb The read-ahead window in force.\n\
         # TYPE foreread_read_ahead_kb gauge"
    );
    for device in &examination.devices {
        // A partition has its disk's.
        if let Some(kib) = device.read_ahead_kb.filter(|_| !device.kind.starts_with("partition")) {
            let name = escaped(&device.device);
            let _ = writeln!(text, "foreread_read_ahead_kb{{target=\"{name}\"}} {kib}");
        }
    }
    for mount in &examination.mounts {
        if let Some(kib) = mount.read_ahead_kb {
            let name = escaped(&mount.mount);
            let _ = writeln!(text, "foreread_read_ahead_kb{{target=\"{name}\"}} {kib}");
        }
    }
    text
}

/// Escapes backslash, quote and line feed in the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

const FIRST: &str = "# HELP foreread_doctor_findings ";

#[cfg(test)]
mod tests {
    use foreread_tune::doctor::{Confidence, Finding};

    use super::*;

    #[test]
    fn a_finding_is_a_metric_with_its_labels() {
        let finding = Finding {
            device: "/mnt/a \"b\"\\c".to_owned(),
            check: "mount-read-ahead-off",
            what: String::new(),
            why: String::new(),
            evidence: Vec::new(),
            mend: Vec::new(),
            confidence: Confidence::Cited,
        };
        let examination =
            Examination { findings: vec![finding.clone(), finding], ..Examination::default() };
        let text = metrics(&examination);
        assert!(text.contains("\nforeread_doctor_findings 2\n"), "{text}");
        let line = "foreread_doctor_finding{target=\"/mnt/a \\\"b\\\"\\\\c\",\
                    check=\"mount-read-ahead-off\",confidence=\"cited\"} 1\n";
        assert_eq!(text.matches(line).count(), 1, "{text}");
        let names: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(names.len(), 3, "{text}");
    }
}
