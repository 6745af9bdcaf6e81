//! Mounts with their own window: sets, remembers and follows them.
//!
//! The udev rule is only written if the path of this program is known.

use std::path::PathBuf;

use foreread_tune::remember::{self, MOUNT_RULE, RememberedMount};
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::TunedMount;

use super::date;
use super::outcome::MeasuredDevice;
use super::plan::SetPlan;
use foreread_cli::output::{Failure, Printer};

/// Returns the path of this program for a udev rule. Root will run it, so no other user may be able
/// to replace it.
pub(super) fn program() -> Result<PathBuf, String> {
    let path = std::env::current_exe().map_err(|error| format!("--remember: {error}"))?;
    if remember::is_plain_path(&path) {
        let why = remember::replaceable_program(&SystemRoot::here(), &path);
        return why.map_or(Ok(path), |why| Err(format!("--remember: {why}")));
    }
    Err(format!(
        "--remember: {} cannot stand in a udev rule; install foreread at a path of letters, digits \
         and ._-+",
        path.display()
    ))
}

/// Sets the window of a mount, and notes it first: until the mount goes, or for each time it is
/// mounted.
pub(super) fn apply(
    sys: &SystemRoot,
    set: SetPlan,
    one: &MeasuredDevice,
    mount: &TunedMount,
    settings: &[DeviceSetting],
) -> Result<Vec<String>, Failure> {
    let Some(window) = settings.first() else { return Ok(Vec::new()) };
    let read_ahead_kb: u64 = window.value.parse().map_err(|_| {
        Failure::Check(format!("{}: {} is not a window", mount.point, window.value))
    })?;
    let before = one.before.iter().find(|was| was.attribute == window.attribute);
    let known = RememberedMount {
        id: RememberedMount::id_of(mount),
        mount: mount.point.clone(),
        fs: mount.fs.clone(),
        source: mount.source.clone(),
        date: date::today(),
        report: one.report.clone(),
        read_ahead_kb,
        before_kb: before.and_then(|was| was.value.parse().ok()),
        is_until_unmount: !set.remembers(),
        bdi: mount.bdi.clone(),
    };
    let program =
        if set.remembers() { program().map_err(Failure::WrongUse)? } else { PathBuf::new() };
    let is_new = before.is_none_or(|was| was.value != window.value);
    let mut notes = Vec::new();
    if set.remembers() || is_new {
        remember::remember_mount(sys, known, &program).map_err(|(path, error)| {
            Failure::Check(format!("{}: {error}; nothing was set", path.display()))
        })?;
    }
    if set.remembers() {
        notes.push(format!(
            "remembered; {MOUNT_RULE} sets it each time it is mounted, by running {}",
            program.display()
        ));
    }
    window
        .set(sys)
        .map_err(|error| Failure::Check(format!("{} cannot be set: {error}", window.attribute)))?;
    Ok(notes)
}

/// Sets the remembered windows of current mounts.
pub(super) fn follow(
    sys: &SystemRoot,
    bdi: Option<&str>,
    out: &mut Printer,
) -> Result<(), Failure> {
    let mut failed = 0;
    for followed in remember::follow(sys, bdi) {
        let line = match &followed.result {
            Ok(kib) => format!("{}: read_ahead_kb {} -> {kib}", followed.mount, followed.from_kb),
            Err(why) => {
                failed += 1;
                format!("{}: cannot be set: {why}", followed.mount)
            }
        };
        out.entry("", &line)?;
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::Check("one window could not be set".to_owned())),
        failed => Err(Failure::Check(format!("{failed} windows could not be set"))),
    }
}
