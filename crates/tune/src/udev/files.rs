//! Lists udev's rules files in evaluation order, without those hidden by another file of the same
//! name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sysfs::SystemRoot;

/// Folders of rules, by priority: among files of one name, the first folder's is used.
pub const FOLDERS: [&str; 4] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
];

/// A rules file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleFile {
    /// File name, which determines the order: `99-local.rules`.
    pub name: String,
    /// File in use, as an absolute path of its system.
    pub path: PathBuf,
    /// Files of the same name that it hides.
    pub hides: Vec<PathBuf>,
    /// True if it only hides others: empty, or a link to `/dev/null`.
    pub is_mask: bool,
}

/// Returns all rules files in the order of evaluation: by name, regardless of their folder.
#[must_use]
pub fn rule_files(sys: &SystemRoot) -> Vec<RuleFile> {
    let mut files: BTreeMap<String, RuleFile> = BTreeMap::new();
    for folder in FOLDERS {
        let entries = fs::read_dir(sys.path(folder)).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            if !name.ends_with(".rules") {
                continue;
            }
            let path = Path::new(folder).join(&name);
            match files.get_mut(&name) {
                Some(file) => file.hides.push(path),
                None => {
                    let is_mask = is_mask(sys, &path);
                    let file = RuleFile { name: name.clone(), path, hides: Vec::new(), is_mask };
                    files.insert(name, file);
                }
            }
        }
    }
    files.into_values().collect()
}

fn is_mask(sys: &SystemRoot, path: &Path) -> bool {
    let here = sys.path(path);
    if fs::read_link(&here).is_ok_and(|target| target == Path::new("/dev/null")) {
        return true;
    }
    fs::metadata(&here).is_ok_and(|metadata| metadata.len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_folder_counts_and_names_order() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        for folder in FOLDERS {
            fs::create_dir_all(sys.path(folder)).expect("it is made");
        }
        for path in [
            "/usr/lib/udev/rules.d/60-a.rules",
            "/run/udev/rules.d/60-a.rules",
            "/etc/udev/rules.d/99-b.rules",
            "/usr/lib/udev/rules.d/99-c.rules",
            "/usr/local/lib/udev/rules.d/70-d.rules",
            "/etc/udev/rules.d/notes.txt",
        ] {
            fs::write(sys.path(path), "# a rule\n").expect("it is written");
        }
        let null = sys.path("/etc/udev/rules.d/99-c.rules");
        std::os::unix::fs::symlink("/dev/null", null).expect("a link");
        fs::write(sys.path("/run/udev/rules.d/70-d.rules"), "").expect("it is written");
        let files = rule_files(&sys);
        let short =
            |file: &RuleFile| (file.path.display().to_string(), file.hides.len(), file.is_mask);
        assert_eq!(
            files.iter().map(short).collect::<Vec<_>>(),
            [
                ("/run/udev/rules.d/60-a.rules".to_owned(), 1, false),
                ("/run/udev/rules.d/70-d.rules".to_owned(), 1, true),
                ("/etc/udev/rules.d/99-b.rules".to_owned(), 0, false),
                ("/etc/udev/rules.d/99-c.rules".to_owned(), 1, true),
            ]
        );
    }
}
