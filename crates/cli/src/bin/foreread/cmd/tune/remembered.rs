//! Lists, verifies and forgets remembered settings.
//!
//! Only `forget` changes anything.

use std::io::Write as _;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_tune::remember::{self, MountVerification, Remembered, RememberedMount, Verification};
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use serde::Serialize;

use super::remembered_mounts;
use super::remembered_stores::{self, RememberedStore};
use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;

/// Prints the remembered settings.
pub(super) fn list(sys: &SystemRoot, is_json: bool, out: &mut Printer) -> Result<(), Failure> {
    let listed = remember::list(sys);
    let mut notes: Vec<_> = listed.unreadable.iter().map(ToString::to_string).collect();
    notes.extend(remember::applied(sys).iter().map(|applied| {
        let (device, now, was) =
            (&applied.device, words(&applied.settings), words(&applied.before));
        format!("{device}: {now} until the next boot, before {was}; foreread tune forget {device}")
    }));
    let mounts = remember::mounts_remembered(sys);
    let (until_unmount, kept): (Vec<_>, Vec<_>) =
        mounts.mounts.iter().partition(|mount| mount.is_until_unmount);
    notes.extend(mounts.unreadable.iter().map(|(file, why)| format!("{}: {why}", file.display())));
    notes.extend(until_unmount.iter().map(|known| {
        let RememberedMount { mount, read_ahead_kb, .. } = known;
        format!("{mount}: read_ahead_kb={read_ahead_kb} until it is unmounted; foreread tune forget {mount}")
    }));
    let (stores, broken) = remembered_stores::remembered();
    notes.extend(broken.iter().map(|store| {
        format!("{}; measure again, or foreread tune forget {}", store.why, store.store)
    }));
    if is_json {
        let devices = listed.remembered.iter().map(serde_json::to_value);
        let all = devices.chain(kept.iter().map(serde_json::to_value));
        let all = all.chain(stores.iter().map(serde_json::to_value));
        let all: Result<Vec<_>, _> = all.collect();
        out.json("tune --list", all.map_err(|error| Failure::Check(error.to_string()))?)?;
    } else if listed.remembered.is_empty() && kept.is_empty() && stores.is_empty() {
        out.entry("", "nothing is remembered; foreread tune DEVICE --remember does that")?;
    } else {
        let rows = listed.remembered.iter().map(|known| cells(sys, known));
        let rows = rows.chain(kept.iter().map(|known| remembered_mounts::cells(sys, known)));
        let rows = rows.chain(stores.iter().map(RememberedStore::cells));
        table::print(out, ["name", "device", "measured", "plateau", "sets", "before"], rows)?;
    }
    out.notes(&notes)
}

fn cells(sys: &SystemRoot, known: &Remembered) -> [String; 6] {
    let devices = known.identity.devices(sys);
    let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    let device =
        if names.is_empty() { format!("{} (absent)", known.device) } else { names.join(" ") };
    let mut of_rule = known.before.clone();
    of_rule.retain(|was| known.settings.iter().any(|setting| setting.attribute == was.attribute));
    let plateau = known.report.plateau_kib.map(|kib| Exact(ByteCount(kib << 10)));
    [
        known.identity.id.clone(),
        device,
        known.date.clone(),
        table::or_dash(plateau),
        words(&known.settings),
        words(&of_rule),
    ]
}

/// Formats settings as `read_ahead_kb=1024 fifo_batch=1`.
pub(super) fn words(settings: &[DeviceSetting]) -> String {
    let word = |setting: &DeviceSetting| {
        let name = setting.attribute.rsplit('/').next().unwrap_or_default();
        format!("{name}={}", setting.value)
    };
    settings.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Checks that remembered settings are in force.
pub(super) fn verify(sys: &SystemRoot, is_json: bool, out: &mut Printer) -> Result<(), Failure> {
    let verdicts = remember::verify(sys);
    let mounts = remember::verify_mounts(sys);
    let (stores, broken) = remembered_stores::remembered();
    let of_stores = || {
        let good = stores.iter().map(|store| CheckedRecord::of_store(store.name(), None));
        let broken = broken.iter();
        good.chain(broken.map(|it| CheckedRecord::of_store(&it.store, Some(&it.why))))
    };
    if is_json {
        let devices = verdicts.iter().map(CheckedRecord::of);
        let all = devices.chain(mounts.iter().map(CheckedRecord::of_mount));
        out.json("tune verify", all.chain(of_stores()))?;
    } else if verdicts.is_empty() && mounts.is_empty() && of_stores().next().is_none() {
        writeln!(out, "nothing is remembered")?;
    }
    for verdict in verdicts.iter().filter(|_| !is_json) {
        let device = name_of(verdict);
        let state = if verdict.is_good() { "as remembered" } else { "NOT as remembered" };
        out.entry("", &format!("{device}: {state}"))?;
        for finding in &verdict.findings {
            out.entry("  ", &finding.to_string())?;
        }
    }
    if !is_json {
        remembered_mounts::print_verified(&mounts, out)?;
        of_stores().try_for_each(|store| store.print(out))?;
    }
    let wrong = verdicts.iter().filter(|verdict| !verdict.is_good()).count();
    let wrong = wrong + mounts.iter().filter(|mount| !mount.findings.is_empty()).count();
    let wrong = wrong + broken.len();
    match wrong {
        0 => Ok(()),
        1 => Err(Failure::Check("one device is not as remembered".into())),
        wrong => Err(Failure::Check(format!("{wrong} devices are not as remembered"))),
    }
}

fn name_of(verdict: &Verification) -> String {
    let known = verdict.device.as_ref().or(verdict.known_as.as_ref());
    known.map_or_else(|| verdict.id.clone(), |device| format!("{device} ({})", verdict.id))
}

/// A verdict as JSON.
#[derive(Serialize)]
struct CheckedRecord {
    name: String,
    device: Option<String>,
    ok: bool,
    findings: Vec<String>,
}

impl CheckedRecord {
    fn of(verdict: &Verification) -> Self {
        Self {
            name: verdict.id.clone(),
            device: verdict.device.clone(),
            ok: verdict.is_good(),
            findings: verdict.findings.iter().map(ToString::to_string).collect(),
        }
    }

    fn of_store(name: &str, why: Option<&str>) -> Self {
        let (name, findings) = (name.to_owned(), why.map(str::to_owned));
        let device = Some(name.clone());
        Self { name, device, ok: findings.is_none(), findings: findings.into_iter().collect() }
    }

    fn print(&self, out: &mut Printer) -> Result<(), Failure> {
        let state = if self.ok { "can be used" } else { "can NOT be used" };
        out.entry("", &format!("{}: {state}", self.name))?;
        self.findings.iter().try_for_each(|finding| out.entry("  ", finding))
    }

    fn of_mount(verdict: &MountVerification) -> Self {
        Self {
            name: verdict.id.clone(),
            device: verdict.is_mounted.then(|| verdict.mount.clone()),
            ok: verdict.findings.is_empty(),
            findings: verdict.findings.clone(),
        }
    }
}

/// Undoes it.
pub(super) fn forget(sys: &SystemRoot, name: &str, out: &mut Printer) -> Result<(), Failure> {
    if let Some(forgotten) = remembered_stores::forget(name, out) {
        return forgotten;
    }
    let of_mount = remember::forget_mount(sys, name).map_err(|(path, error)| {
        Failure::WrongUse(format!("{}: {error}; it is still remembered", path.display()))
    })?;
    if let Some(forgotten) = of_mount {
        return forgotten.to_string().lines().try_for_each(|line| out.entry("", line));
    }
    let forgotten =
        remember::forget(sys, name).map_err(|error| Failure::WrongUse(error.to_string()))?;
    forgotten.to_string().lines().try_for_each(|line| out.entry("", line))
}
