//! Unmounts and detaches a path, as root or by fusermount.

use std::path::Path;
use std::process::{Command, Stdio};

use foreread_files::trusted_path::helper_program;
use rustix::mount::{UnmountFlags, unmount};

/// Detaches a mount (`MNT_DETACH`): it lives on while it is in use.
pub fn detach(directory: &Path) {
    try_detach(directory);
}

/// Detaches a mount. Returns true on success.
pub(crate) fn try_detach(directory: &Path) -> bool {
    unmount(directory, UnmountFlags::DETACH).is_ok() || helped("-uz", directory)
}

/// Unmounts by fusermount, which an unprivileged user has mounted with.
pub(crate) fn helped(how: &str, directory: &Path) -> bool {
    ["fusermount3", "fusermount"].iter().any(|helper| {
        let Ok(program) = helper_program(helper) else { return false };
        let mut command = Command::new(program);
        let done = command.arg(how).arg("--").arg(directory).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    })
}
