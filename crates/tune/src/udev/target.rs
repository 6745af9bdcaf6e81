//! Tests whether a rule concerns a device, from sysfs and udev's database.
//!
//! No program is run and no file system probed: a match that depends on them cannot be told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::pattern::matches;
use super::rule::RulePair;
use crate::sysfs::{BlockDevice, SystemRoot};

/// Result of a rule's match keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleMatch {
    /// All match.
    Yes,
    /// At least one does not match.
    No,
    /// Some cannot be evaluated, and the others match.
    CannotTell,
}

impl RuleMatch {
    /// Combines two results.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::CannotTell, _) | (_, Self::CannotTell) => Self::CannotTell,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }

    fn of(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }
}

/// A device as seen by rules.
#[derive(Clone, Debug)]
pub struct UdevDevice<'a> {
    sys: &'a SystemRoot,
    subsystem: &'static str,
    kernel: String,
    folder: PathBuf,
    /// The device and its parents, as absolute paths of its system.
    line: Vec<PathBuf>,
    /// Properties for `ENV`, if udev has ever seen the device.
    properties: Option<BTreeMap<String, String>>,
    own: Vec<(&'static str, String)>,
}

impl<'a> UdevDevice<'a> {
    /// Creates the view of a whole block device.
    #[must_use]
    pub fn block(sys: &'a SystemRoot, device: &BlockDevice) -> Self {
        let (major, minor) = device.number;
        let own = vec![
            ("DEVTYPE", "disk".to_owned()),
            ("SUBSYSTEM", "block".to_owned()),
            ("DEVNAME", device.node().display().to_string()),
            ("MAJOR", major.to_string()),
            ("MINOR", minor.to_string()),
        ];
        Self {
            sys,
            subsystem: "block",
            kernel: device.name.clone(),
            folder: device.folder.clone(),
            line: line(sys, &device.folder),
            properties: properties(sys, device.number),
            own,
        }
    }

    /// Creates the view of a block device's bdi: a separate device for udev, with the same
    /// `read_ahead_kb`.
    #[must_use]
    pub fn bdi(sys: &'a SystemRoot, device: &BlockDevice) -> Self {
        let folder = device.folder.join("bdi");
        Self {
            sys,
            subsystem: "bdi",
            kernel: format!("{}:{}", device.number.0, device.number.1),
            line: line(sys, &folder),
            folder,
            properties: None,
            own: vec![("SUBSYSTEM", "bdi".to_owned())],
        }
    }

    /// Returns the text of one of its attributes.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.sys.text(self.folder.join(name))
    }

    /// Returns a property from udev's database.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&str> {
        let own = self.own.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str());
        own.or_else(|| Some(self.properties.as_ref()?.get(name)?.as_str()))
    }

    /// Returns the nearest of the device and its parents that has all these attributes.
    #[must_use]
    pub fn parent_with(&self, attributes: &[&str]) -> Option<PathBuf> {
        let has = |folder: &&PathBuf| {
            attributes.iter().all(|name| self.sys.text(folder.join(name)).is_some())
        };
        self.line.iter().find(has).cloned()
    }

    /// Evaluates the match keys of a rule for `action`. Its actions are ignored.
    #[must_use]
    pub fn answers(&self, action: &str, pairs: &[RulePair]) -> RuleMatch {
        let asks = pairs.iter().filter(|pair| pair.is_match());
        let (of_parents, own): (Vec<_>, Vec<_>) = asks.partition(|pair| {
            matches!(pair.key.as_str(), "KERNELS" | "SUBSYSTEMS" | "DRIVERS" | "ATTRS")
        });
        let own = own.into_iter().map(|pair| self.answer(action, pair));
        let own = own.fold(RuleMatch::Yes, RuleMatch::and);
        // One device in the chain has to match them all.
        let is_so = |folder: &PathBuf| of_parents.iter().all(|pair| self.parent(folder, pair));
        own.and(RuleMatch::of(of_parents.is_empty() || self.line.iter().any(is_so)))
    }

    fn answer(&self, action: &str, pair: &RulePair) -> RuleMatch {
        let is = |text: &str| RuleMatch::of(matches(&pair.value, text) == (pair.operator == "=="));
        match pair.key.as_str() {
            "ACTION" => is(action),
            "KERNEL" => is(&self.kernel),
            "SUBSYSTEM" => is(self.subsystem),
            // Without the attribute neither == nor != matches.
            "ATTR" => self.whole(&self.folder, &pair.of).map_or(RuleMatch::No, |text| is(&text)),
            "ENV" => match self.property(&pair.of) {
                Some(value) => is(value),
                // Names with a dot are not stored, and an unseen device may have any property.
                None if pair.of.starts_with('.') || self.properties.is_none() => {
                    RuleMatch::CannotTell
                }
                None => is(""),
            },
            "TEST" if !pair.value.contains(['$', '%', '*', '?', '[']) => {
                let path = self.sys.path(self.folder.join(&pair.value));
                RuleMatch::of(path.exists() == (pair.operator == "=="))
            }
            _ => RuleMatch::CannotTell,
        }
    }

    /// Returns an attribute with its trailing blanks; the pattern decides whether they count.
    fn whole(&self, folder: &Path, name: &str) -> Option<String> {
        let text = self.sys.whole_text(folder.join(name))?;
        Some(text.trim_end_matches('\n').to_owned())
    }

    fn parent(&self, folder: &Path, pair: &RulePair) -> bool {
        let link = |name: &str| {
            let target = std::fs::read_link(self.sys.path(folder.join(name))).ok()?;
            Some(target.file_name()?.to_string_lossy().into_owned())
        };
        let text = match pair.key.as_str() {
            "KERNELS" => folder.file_name().map(|name| name.to_string_lossy().into_owned()),
            "SUBSYSTEMS" => link("subsystem"),
            "DRIVERS" => Some(link("driver").unwrap_or_default()),
            _ => self.whole(folder, &pair.of),
        };
        text.is_some_and(|text| matches(&pair.value, &text) == (pair.operator == "=="))
    }
}

/// Returns the folder of a device, then its parents, as absolute paths of the system without links.
fn line(sys: &SystemRoot, folder: &Path) -> Vec<PathBuf> {
    let Ok(root) = sys.path("/").canonicalize() else { return Vec::new() };
    let mut line = Vec::new();
    // The second is above the first, except in a tree copied without its links.
    for start in [folder.to_owned(), folder.join("device")] {
        let Ok(start) = sys.path(start).canonicalize() else { continue };
        let inside = start.ancestors().filter_map(|path| path.strip_prefix(&root).ok());
        for path in inside.map(|path| Path::new("/").join(path)) {
            if path.components().count() > 2 && !line.contains(&path) {
                line.push(path);
            }
        }
    }
    line
}

fn properties(sys: &SystemRoot, number: (u32, u32)) -> Option<BTreeMap<String, String>> {
    let text = sys.text(format!("/run/udev/data/b{}:{}", number.0, number.1))?;
    let pairs = text.lines().filter_map(|line| line.strip_prefix("E:")?.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::parse;
    use super::*;

    fn stick() -> (tempfile::TempDir, SystemRoot) {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let usb = "/sys/devices/pci0/usb1/1-2";
        let disk = format!("{usb}/1-2:1.0/host3/target3:0:0/3:0:0:0/block/sdb");
        for (path, text) in [
            (format!("{usb}/idVendor"), "0781\n"),
            (format!("{usb}/serial"), "4C53\n"),
            (format!("{disk}/dev"), "8:16\n"),
            (format!("{disk}/queue/rotational"), "1\n"),
            ("/run/udev/data/b8:16".to_owned(), "S:disk/x\nE:ID_BUS=usb\n"),
        ] {
            fs::create_dir_all(sys.path(&path).parent().expect("a folder")).expect("it is made");
            fs::write(sys.path(path), text).expect("it is written");
        }
        symlink("../../../../bus/usb", sys.path(usb).join("subsystem")).expect("a link");
        fs::create_dir_all(sys.path("/sys/block")).expect("it is made");
        let target = format!("..{}", disk.strip_prefix("/sys").expect("it is below"));
        symlink(target, sys.path("/sys/block/sdb")).expect("a link");
        (root, sys)
    }

    #[test]
    fn what_a_rule_asks_of_a_device() {
        let (_root, sys) = stick();
        let device = sys.device("sdb").expect("it is there");
        let target = UdevDevice::block(&sys, &device);
        let answer = |text: &str| target.answers("add", &parse(text)[0].pairs);
        for text in [
            "ACTION==\"add|change\", KERNEL==\"sd[a-z]\", SUBSYSTEM==\"block\", RUN+=\"x\"",
            "ENV{DEVTYPE}==\"disk\", ENV{ID_BUS}==\"usb\", ENV{ID_X}==\"\", ENV{ID_X}!=\"y\"",
            "SUBSYSTEMS==\"usb\", ATTRS{idVendor}==\"0781\", ATTRS{serial}==\"4C53\"",
            "ATTR{queue/rotational}!=\"0\", TEST==\"queue\", TEST!=\"dm\", KERNELS==\"1-2\"",
        ] {
            assert_eq!(answer(text), RuleMatch::Yes, "{text}");
        }
        for text in [
            "ACTION==\"remove\"",
            "ATTR{nonexistent}!=\"x\"",
            // Each is somewhere in the line, but no one device has both.
            "KERNELS==\"usb1\", ATTRS{idVendor}==\"0781\"",
            "PROGRAM==\"/bin/true\", KERNEL==\"sda\"",
            "ENV{ID_BUS}!=\"usb\"",
        ] {
            assert_eq!(answer(text), RuleMatch::No, "{text}");
        }
        for text in ["PROGRAM==\"/bin/true\"", "ENV{.HIDDEN}==\"1\"", "TEST==\"/run/%k\""] {
            assert_eq!(answer(text), RuleMatch::CannotTell, "{text}");
        }
    }
}
