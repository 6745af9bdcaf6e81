//! Identifies a device by attributes that survive a change of its name.
//!
//! In:    sysfs, or a test's copy; for an md array on an old kernel also udev's database.
//! Out:   [`Identity`]: match keys for a udev rule that match this device and no other.
//! Never: a kernel name, a wildcard, a size, a model: two devices can share each of them.
//!
//! ```text
//!   nvme      ATTR{wwid}                    mmc     ATTR{device/cid}
//!   scsi, ata ATTR{device/wwid}             loop    ATTR{loop/backing_file}
//!   virtio    ATTR{serial}                  dm      ATTR{dm/uuid}
//!   usb       ATTRS{idVendor}, {idProduct}, {serial} of its usb device, and ATTR{device/wwid}
//!   md        ATTR{md/uuid}, before Linux 6.0 the property MD_UUID that mdadm's rules set
//! ```
//!
//! Keys use `ATTR`, not `ATTRS`, if the attribute is the device's own. The boot areas of an eMMC
//! are child disks of the main one, and `ATTRS` would match them, too.

mod refusal;

use crate::sysfs::{BlockDevice, BlockDeviceKind, SystemRoot};
use crate::udev::{UdevDevice, literal};

pub use refusal::NoIdentity;

/// Stable identity of a device.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// Match keys of a rule with their exact values: `("ATTR{wwid}", "eui.0025385b")`.
    pub keys: Vec<(String, String)>,
    /// Short form, used in file names.
    pub id: String,
}

/// Returns the identity of a whole device, by its kernel name.
///
/// # Errors
///
/// If it has none, if another device here shares it, or if a udev rule cannot express it.
pub fn identity(sys: &SystemRoot, device: &str) -> Result<Identity, NoIdentity> {
    let missing = || NoIdentity::NotThere { device: device.to_owned() };
    let devices: Vec<_> = sys.devices().into_iter().filter(is_whole).collect();
    let this = devices.iter().find(|it| it.name == device).ok_or_else(missing)?;
    let identity = alone(sys, this)?;
    let twins = devices.iter().filter(|it| it.name != device && identity.is_of(sys, it));
    let twins: Vec<_> = twins.collect();
    if twins.is_empty() {
        return Ok(identity);
    }
    let above =
        this.holders.iter().find(|holder| twins.iter().all(|twin| twin.holders.contains(holder)));
    Err(NoIdentity::Twins {
        device: device.to_owned(),
        others: twins.into_iter().map(|twin| twin.name.clone()).collect(),
        above: above.cloned(),
    })
}

/// Returns the identity of a device, even if other devices share it.
pub(crate) fn alone(sys: &SystemRoot, this: &BlockDevice) -> Result<Identity, NoIdentity> {
    let device = || this.name.clone();
    let (kind, keys) =
        keys(sys, this).map_err(|why| NoIdentity::Nothing { device: device(), why })?;
    if let Some((key, value)) = keys.iter().find(|(_, value)| literal(value).is_none()) {
        let (key, value) = (key.clone(), value.clone());
        return Err(NoIdentity::NotLiteral { device: device(), key, value });
    }
    Ok(Identity { id: readable_id(kind, &keys), keys })
}

impl Identity {
    /// Returns the devices that a rule with these keys matches here: one, none, or copies of one.
    #[must_use]
    pub fn devices(&self, sys: &SystemRoot) -> Vec<BlockDevice> {
        let is_of = |device: &BlockDevice| is_whole(device) && self.is_of(sys, device);
        sys.devices().into_iter().filter(is_of).collect()
    }

    fn is_of(&self, sys: &SystemRoot, device: &BlockDevice) -> bool {
        let has_node = sys.number(device.folder.join("hidden")) != Some(1);
        let pairs = crate::udev::parse(&self.asks());
        let target = UdevDevice::block(sys, device);
        let answer = pairs.first().map(|rule| target.answers("change", &rule.pairs));
        has_node && answer == Some(crate::udev::RuleMatch::Yes)
    }

    /// Returns the match keys in the syntax of a rule.
    #[must_use]
    pub fn asks(&self) -> String {
        let ask = |(key, value): &(String, String)| {
            format!("{key}==\"{}\"", literal(value).unwrap_or_default())
        };
        self.keys.iter().map(ask).collect::<Vec<_>>().join(", ")
    }
}

fn is_whole(device: &BlockDevice) -> bool {
    !matches!(device.kind, BlockDeviceKind::Partition { .. })
}

type Keys = Vec<(String, String)>;

/// Returns the kind of identity and its keys, or the reason why there is none.
fn keys(sys: &SystemRoot, device: &BlockDevice) -> Result<(&'static str, Keys), &'static str> {
    let target = UdevDevice::block(sys, device);
    let own = |name: &str| {
        let value = target.attribute(name).filter(|value| !value.trim().is_empty())?;
        Some((format!("ATTR{{{name}}}"), value))
    };
    let one = |kind, key: Option<_>, why| key.map(|key| (kind, vec![key])).ok_or(why);
    match &device.kind {
        BlockDeviceKind::Partition { .. } => {
            Err("it is a partition; settings belong to the whole disk")
        }
        BlockDeviceKind::Mapped { .. } => {
            one("dm", own("dm/uuid"), "it was made without a UUID (dmsetup -u)")
        }
        BlockDeviceKind::Raid { .. } => {
            let property = target.property("MD_UUID").filter(|uuid| !uuid.is_empty());
            let property = || property.map(|uuid| ("ENV{MD_UUID}".to_owned(), uuid.to_owned()));
            let why = "neither md/uuid nor udev's database has its UUID";
            one("md", own("md/uuid").or_else(property), why)
        }
        BlockDeviceKind::Loop { backing } => match backing.as_deref() {
            None | Some("") => Err("no file is bound to it"),
            Some(path) if path.ends_with(" (deleted)") => Err("its file has been deleted"),
            Some(_) => one("loop", own("loop/backing_file"), "no file is bound to it"),
        },
        BlockDeviceKind::Disk => disk(sys, device, &target, own),
    }
}

fn disk(
    sys: &SystemRoot,
    device: &BlockDevice,
    target: &UdevDevice<'_>,
    own: impl Fn(&str) -> Option<(String, String)>,
) -> Result<(&'static str, Keys), &'static str> {
    if device.name.starts_with("zram") || device.name.starts_with("ram") {
        return Err("it is memory, and lost at each boot");
    }
    if sys.number(device.folder.join("device/type")) == Some(SCSI_CD) {
        return Err("it is a drive with removable discs");
    }
    if let Some(wwid) = own("wwid") {
        return Ok(("nvme", vec![wwid]));
    }
    if let Some(cid) = own("device/cid") {
        return Ok(("mmc", vec![cid]));
    }
    let wwid = own("device/wwid");
    if let Some(usb) = target.parent_with(&["idVendor", "idProduct"]) {
        let text = |name: &str| Some((format!("ATTRS{{{name}}}"), sys.text(usb.join(name))?));
        return match text("serial") {
            Some((_, serial)) if is_made_up(&serial) => match wwid.filter(is_world_wide) {
                Some(wwid) => Ok(("usb", vec![wwid])),
                None => Err("many sticks have the same serial number"),
            },
            Some(serial) => {
                let parts = ["idVendor", "idProduct"].into_iter().filter_map(text);
                // A USB bridge keeps its serial number when its disk is replaced.
                Ok(("usb", parts.chain([serial]).chain(wwid).collect()))
            }
            None => wwid
                .filter(is_world_wide)
                .map_or(Err("this stick has no serial number"), |wwid| Ok(("usb", vec![wwid]))),
        };
    }
    if let Some(wwid) = wwid {
        if is_no_name(&wwid.1) {
            return Err("many disks have the same wwid");
        }
        return Ok(("scsi", vec![wwid]));
    }
    let serial = own("serial").ok_or("it states no serial number")?;
    if is_made_up(&serial.1) {
        return Err("its serial number is not unique");
    }
    Ok(("virtio", vec![serial]))
}

/// SCSI type number of optical drives.
const SCSI_CD: u64 = 5;

/// Returns whether a WWID is unique worldwide. Behind USB only a registered name is; others are
/// derived from model names.
fn is_world_wide((_, wwid): &(String, String)) -> bool {
    wwid.starts_with("naa.") || wwid.starts_with("eui.")
}

/// Returns whether a WWID is a placeholder such as `naa.5000000000000000`: made up after the format
/// digit.
fn is_no_name(wwid: &str) -> bool {
    wwid.strip_prefix("naa.").is_some_and(|name| name.get(1..).is_none_or(is_made_up))
}

/// Returns whether a serial number is the placeholder of a vendor that does not number its devices:
/// `0000000000`, `123456789ABC`.
fn is_made_up(serial: &str) -> bool {
    const COUNTED: [&str; 2] =
        ["0123456789ABCDEF0123456789ABCDEF", "123456789012345678901234567890"];
    let serial = serial.trim().to_ascii_uppercase();
    let first = serial.chars().next().unwrap_or('0');
    serial.chars().all(|c| c == first) || COUNTED.iter().any(|counted| counted.contains(&serial))
}

/// Returns a readable part and a hash of all keys: `usb-4C530001230712117-6f1d20c3b5a49e87`.
pub(crate) fn readable_id(kind: &str, keys: &[(String, String)]) -> String {
    /// Long enough to recognise a serial number.
    const READABLE_MAX: usize = 32;
    let value = keys.iter().rfind(|(key, _)| !key.contains("wwid")).or(keys.last());
    let value = value.map_or("", |(_, value)| value.as_str());
    let words = value.split(|c: char| !c.is_ascii_alphanumeric());
    let readable = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    // The end of a path or a name is more specific than its beginning.
    let from = readable.len().saturating_sub(READABLE_MAX);
    let readable = readable[from..].trim_matches('-');
    let text = keys.iter().map(|(key, value)| format!("{key}={value}\n")).collect::<String>();
    format!("{kind}-{readable}-{:016x}", fnv1a(text.as_bytes()))
}

/// Returns the 64-bit FNV-1a hash, implemented here because file names depend on it.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_that_number_nothing() {
        for serial in ["0000000000", "123456789ABC", "0123456789abcdef", "1234567890", "", "1"] {
            assert!(is_made_up(serial), "{serial}");
        }
        for serial in ["4C530001230712117423", "rootfs", "QM00001", "1235"] {
            assert!(!is_made_up(serial), "{serial}");
        }
    }

    #[test]
    fn placeholders_are_no_registered_names() {
        assert!(is_no_name("naa.5000000000000000") && is_no_name("naa."));
        assert!(!is_no_name("naa.5000c500a1b2c3d4") && !is_no_name("t10.ATA     X    1"));
    }

    #[test]
    fn an_id_is_a_name_of_a_file() {
        let keys = |value: &str| vec![("ATTR{loop/backing_file}".to_owned(), value.to_owned())];
        let odd = readable_id("loop", &keys("/srv/../a disk/\u{fc}ber [1].img"));
        assert!(odd.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{odd}");
        assert!(odd.starts_with("loop-srv-a-disk-ber-1-img-"), "{odd}");
        assert!(readable_id("loop", &keys(&"x/".repeat(4000))).len() < 80);
        assert_ne!(readable_id("loop", &keys("/a b")), readable_id("loop", &keys("/a-b")));
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c, "the published value");
    }
}
