//! The single udev rule for all remembered mounts.
//!
//! Its program path contains nothing that udev would split, and only root can replace the program.

use std::io;
use std::path::Path;

use foreread_files::trusted_path::{TrustedUse, replaceable};

use super::file;
use crate::sysfs::SystemRoot;

/// Path of the rule. It sorts late, after those of nfs-utils and others.
pub const MOUNT_RULE: &str = "/etc/udev/rules.d/98-foreread-mounts.rules";

const WRITTEN_BY: &str = "# Written by foreread on";

pub(super) fn write(sys: &SystemRoot, date: &str, program: &Path) -> io::Result<()> {
    if !is_plain_path(program) {
        return Err(io::Error::other(format!(
            "{} has characters that a udev rule cannot contain; install foreread elsewhere",
            program.display()
        )));
    }
    if let Some(why) = replaceable_program(sys, program) {
        return Err(io::Error::other(why));
    }
    let is_ours = |head: &[u8]| head.starts_with(WRITTEN_BY.as_bytes());
    file::write_whole(sys, Path::new(MOUNT_RULE), &text(date, program), is_ours)
}

fn text(date: &str, program: &Path) -> String {
    let date = date.replace(|c: char| c.is_control() || !c.is_ascii(), " ");
    format!(
        "{WRITTEN_BY} {date}. To undo it: foreread tune forget MOUNT\n\
         # The backing device of a mount is new each time it is mounted; this asks foreread for\n\
         # its window, which is in /var/lib/foreread/mounts. Block devices are left alone.\n\
         ACTION==\"add\", SUBSYSTEM==\"bdi\", KERNEL==\"0:*|*-*\", RUN+=\"{} tune follow $kernel\"\n",
        program.display()
    )
}

/// Returns whether udev takes a path literally: absolute, without blanks, quotes and percents.
#[must_use]
pub fn is_plain_path(path: &Path) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    path.is_absolute() && path.to_str().is_some_and(|text| text.chars().all(is_plain))
}

/// Returns the reason why root must not run a program at each mount: another user can replace it,
/// or it is missing. None if only root can replace it, or if it belongs to a copy of a system.
#[must_use]
pub fn replaceable_program(sys: &SystemRoot, program: &Path) -> Option<String> {
    if !sys.is_here() {
        return None;
    }
    let by_others = match replaceable(program, TrustedUse::Program) {
        Ok(None) => return None,
        Ok(Some(by_others)) => by_others,
        Err(error) => return Some(format!("{}: {error}", program.display())),
    };
    Some(format!(
        "a udev rule runs {} as root at each mount, and {by_others}; install it where only root \
         can write, and run it there: {}",
        program.display(),
        install_command(program)
    ))
}

/// Returns the command that installs a program into the first usual directory that only root can
/// change.
fn install_command(program: &Path) -> String {
    let is_safe = |directory: &&str| {
        matches!(replaceable(Path::new(directory), TrustedUse::Program), Ok(None))
    };
    let directory = ["/usr/local/bin", "/usr/bin"].into_iter().find(is_safe).unwrap_or("/usr/bin");
    format!("sudo install -o root -g root -m 755 {} {directory}/foreread", program.display())
}

/// Returns the defect of the rule, if it has one.
pub(super) fn finding(sys: &SystemRoot) -> Option<String> {
    let Some(text) = sys.whole_text(MOUNT_RULE) else {
        return Some(format!("{MOUNT_RULE} is gone: remember it again, or forget it"));
    };
    if text.trim().is_empty() {
        return Some(format!("{MOUNT_RULE} is turned off (empty, or /dev/null)"));
    }
    let program = text.split("RUN+=\"").nth(1).and_then(|rest| rest.split(' ').next());
    match program {
        Some(program) if sys.path(program).is_file() => {
            let why = replaceable_program(sys, Path::new(program));
            why.map(|why| format!("{MOUNT_RULE}: {why}"))
        }
        Some(program) => Some(format!("{MOUNT_RULE} runs {program}, which does not exist")),
        None => Some(format!("{MOUNT_RULE} was edited since it was written")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udev::{matches, parse};

    #[test]
    fn the_rule_is_one_that_udev_understands() {
        let text = text("2026-03-01", Path::new("/usr/bin/foreread"));
        let rules = parse(&text);
        assert_eq!(rules.len(), 1, "{text}");
        let value = |key: &str| rules[0].pairs.iter().find(|pair| pair.key == key).unwrap();
        assert_eq!(value("RUN").value, "/usr/bin/foreread tune follow $kernel");
        let pattern = &value("KERNEL").value;
        for (name, is_meant) in [("0:52", true), ("cifs-3", true), ("8:0", false), ("253:1", false)]
        {
            assert_eq!(matches(pattern, name), is_meant, "{name}");
        }
    }

    #[test]
    fn a_path_that_udev_would_take_apart_is_refused() {
        for path in ["/opt/my programs/foreread", "/opt/100%/foreread", "foreread", "/a\"b"] {
            assert!(!is_plain_path(Path::new(path)), "{path}");
        }
        assert!(is_plain_path(Path::new("/usr/local/bin/foreread-1.0")));
    }

    /// The rule named a program in a home directory, which root ran at each mount and a user could
    /// replace.
    #[test]
    fn a_program_that_a_user_can_replace_is_refused() {
        let root = tempfile::tempdir().expect("a directory");
        let program = root.path().join("foreread");
        std::fs::write(&program, "").expect("it is written");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&program, all).expect("it is ours");
        let why = replaceable_program(&SystemRoot::here(), &program).expect("a reason");
        assert!(why.contains("sudo install -o root -g root -m 755"), "{why}");
        assert!(replaceable_program(&SystemRoot::here(), &root.path().join("none")).is_some());
        let copy = SystemRoot::at(root.path());
        assert_eq!(replaceable_program(&copy, Path::new("/foreread")), None);
    }
}
