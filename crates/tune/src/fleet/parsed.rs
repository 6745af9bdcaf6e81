//! Parses the `doctor --json` report of one machine. Reports in another format version are
//! rejected.

use serde::Deserialize;

/// Report of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineReport {
    /// File of the report.
    pub file: String,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Hardware: product, disks, kinds of mounts with their own window.
    pub hardware: String,
    /// Settings by name: `sda read_ahead_kb`.
    pub settings: Vec<SettingValue>,
    /// Number of devices.
    pub devices: usize,
    /// Number of mounts.
    pub mounts: usize,
    /// Findings.
    pub findings: Vec<ParsedFinding>,
}

/// A setting of a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingValue {
    /// Name: `sda read_ahead_kb`.
    pub name: String,
    /// Value of the setting.
    pub value: String,
}

/// The parts of a finding that a fleet needs.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct ParsedFinding {
    /// Device or mount.
    pub device: String,
    /// Name of the check.
    pub check: String,
    /// Commands that fix it.
    pub mend: Vec<String>,
}

#[derive(Deserialize)]
struct Envelope {
    version: u64,
    command: String,
    data: Vec<ParsedFinding>,
    #[serde(default)]
    machine: Vec<ParsedMachine>,
    #[serde(default)]
    devices: Vec<ParsedDevice>,
    #[serde(default)]
    mounts: Vec<ParsedMount>,
}

#[derive(Deserialize)]
struct ParsedMachine {
    host: Option<String>,
    kernel: Option<String>,
    product: Option<String>,
    virtual_machine: Option<String>,
}

#[derive(Deserialize)]
struct ParsedDevice {
    device: String,
    bytes: u64,
    kind: String,
    maker: Option<String>,
    read_ahead_kb: Option<u64>,
    scheduler: Option<String>,
}

#[derive(Deserialize)]
struct ParsedMount {
    mount: String,
    fs: String,
    read_ahead_kb: Option<u64>,
}

/// Parses a report.
///
/// # Errors
///
/// One line, with the file, if the text is not a report.
pub fn parse(file: &str, text: &str) -> Result<MachineReport, String> {
    let none = |why: String| format!("{file}: is not the output of doctor --json: {why}");
    let read: Envelope = serde_json::from_str(text).map_err(|error| none(error.to_string()))?;
    if read.command != "doctor" {
        return Err(none(format!("it is of {}", read.command)));
    }
    if read.version != VERSION {
        return Err(format!(
            "{file}: has format version {}, but this foreread reads version {VERSION}; use the \
             same foreread on all machines",
            read.version
        ));
    }
    let machine = read.machine.into_iter().next().ok_or_else(|| {
        format!(
            "{file}: has no machine: it was written by an older foreread; run doctor --json \
                 again"
        )
    })?;
    let mut settings = Vec::new();
    let mut set = |name: String, value: Option<String>| {
        settings.extend(value.map(|value| SettingValue { name, value }));
    };
    for device in &read.devices {
        let name = |what: &str| format!("{} {what}", device.device);
        if !device.kind.starts_with("partition") {
            set(name("read_ahead_kb"), device.read_ahead_kb.map(|kib| kib.to_string()));
            set(name("scheduler"), device.scheduler.clone());
        }
    }
    for mount in &read.mounts {
        let name = format!("{} read_ahead_kb", mount.mount);
        set(name, mount.read_ahead_kb.map(|kib| kib.to_string()));
    }
    let kernel = machine.kernel.clone();
    set("kernel".to_owned(), kernel);
    let stem = || file.rsplit('/').next().unwrap_or(file).trim_end_matches(".json").to_owned();
    Ok(MachineReport {
        host: machine.host.clone().unwrap_or_else(stem),
        kernel: machine.kernel.clone(),
        hardware: hardware(&machine, &read.devices, &read.mounts),
        settings,
        devices: read.devices.len(),
        mounts: read.mounts.len(),
        findings: read.data,
        file: file.to_owned(),
    })
}

/// Describes the hardware: `PowerEdge R640; 2 x disk 447G SAMSUNG; nfs4`.
fn hardware(machine: &ParsedMachine, devices: &[ParsedDevice], mounts: &[ParsedMount]) -> String {
    let product = machine.product.clone().or_else(|| machine.virtual_machine.clone());
    let mut disks: Vec<String> = devices
        .iter()
        .filter(|device| !device.kind.starts_with("partition") && device.kind != "loop")
        .map(|device| {
            // Names of maps differ between machines.
            let kind = device.kind.split(' ').next().unwrap_or_default();
            let maker = device.maker.iter().map(|maker| format!(" {maker}")).collect::<String>();
            format!("{kind} {}G{maker}", device.bytes >> 30)
        })
        .collect();
    disks.sort();
    let mut words: Vec<String> = vec![product.unwrap_or_else(|| "(not named)".to_owned())];
    words.extend(counted(&disks));
    let mut kinds: Vec<String> = mounts.iter().map(|mount| mount.fs.clone()).collect();
    kinds.sort();
    kinds.dedup();
    words.push(kinds.join(" "));
    words.join("; ")
}

/// Groups repeated items: `a a b` becomes `2 x a`, `b`.
fn counted(sorted: &[String]) -> Vec<String> {
    let groups = sorted.chunk_by(|a, b| a == b);
    let text = |group: &[String]| match group.len() {
        1 => group[0].clone(),
        count => format!("{count} x {}", group[0]),
    };
    groups.map(text).collect()
}

const VERSION: u64 = 1;
