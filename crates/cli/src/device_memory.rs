//! Remembers what `serve` and `mount` learn about a device across runs.
//!
//! A bad record never fails a command; it is reported in one line.
//!
//! A record has the identity that `tune --remember` uses for the device. A device without one (NBD,
//! a network file system) is named by its name and size, or by the mounted source; the first
//! requests detect if it has changed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{env, fs, io};

use clap::Args;
use foreread::{DeviceRecord, Engine, EngineBuilder, File, OpenOptions};
use foreread_tune::identity::identity;
use foreread_tune::remember::recall;
use foreread_tune::setting::READ_AHEAD_KB;
use foreread_tune::sysfs::{BlockDevice, MountEntry, SystemRoot};

use crate::block_device::device_at;
use crate::store::url_of;

/// Options for remembered devices.
#[derive(Clone, Debug, Args)]
pub struct RememberArgs {
    /// Directory for what is learnt about the device, one small text file per device [default:
    /// devices in $STATE_DIRECTORY, else /var/lib/foreread/devices]
    ///
    /// The next run starts with the right window sizes instead of measuring the device for a second
    /// or more. Its first requests check the record; the record of a device that has changed is
    /// dropped. Files of other programs are never replaced (docs/guide/files.md).
    #[arg(long, value_name = "DIR", conflicts_with = "no_remember")]
    remember: Option<PathBuf>,

    /// Neither load nor store what was learnt about the device
    #[arg(long)]
    no_remember: bool,
}

impl RememberArgs {
    /// Resolves the options.
    pub fn resolve(self) -> DeviceMemory {
        match self.remember {
            _ if self.no_remember => DeviceMemory::Off,
            Some(directory) => DeviceMemory::Given(directory),
            None => DeviceMemory::Default,
        }
    }
}

/// Directory for what is learnt about devices.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DeviceMemory {
    /// Nothing is loaded or stored.
    Off,
    /// The system's directory; without permission to write there, nothing is stored.
    Default,
    /// A directory of the user's choice.
    Given(PathBuf),
}

impl DeviceMemory {
    fn directory(&self) -> Option<PathBuf> {
        match self {
            Self::Off => None,
            Self::Default => Some(default_directory()),
            Self::Given(directory) => Some(directory.clone()),
        }
    }

    /// Makes the engine remember devices, unless disabled.
    pub fn give(&self, builder: EngineBuilder) -> EngineBuilder {
        match self.directory() {
            Some(directory) => builder.remember(directory),
            None => builder,
        }
    }

    /// Adds the device name of `target` to the options, unless disabled.
    pub fn name(&self, target: &Path, options: OpenOptions) -> OpenOptions {
        // Stores are named by their URL.
        let is_unnamed = *self == Self::Off || url_of(target).is_some();
        if is_unnamed { options } else { with_device_name(target, options) }
    }

    /// Reports an unusable record, and saves records until the returned saver is dropped.
    pub fn keep(&self, engine: &Engine, file: Option<&File>) -> io::Result<LearntSaver> {
        let record = file.map(|file| file.device().record());
        if *self == Self::Off {
            return Ok(LearntSaver { stop: None, over: None });
        }
        let (stop, stopped) = channel::<()>();
        let (ended, over) = channel::<()>();
        let (engine, is_asked_for) = (engine.clone(), matches!(self, Self::Given(_)));
        // A record that cannot be read is not written either: one line is enough.
        let ignored = record.filter(|record| matches!(record, DeviceRecord::Ignored { .. }));
        let mut has_warned = ignored.is_some();
        if let Some(record) = ignored {
            warn(&record.to_string());
        }
        let save = move || {
            let _ended = ended;
            loop {
                let is_over =
                    stopped.recv_timeout(SAVE_EVERY) == Err(RecvTimeoutError::Disconnected);
                if let Err(error) = engine.save_learnt()
                    && !std::mem::replace(&mut has_warned, true)
                    && (is_asked_for || !is_no_permission(&error))
                {
                    warn(&format!("what was learnt of the device is not kept: {error}"));
                }
                if is_over {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("save".into()).spawn(save)?;
        Ok(LearntSaver { stop: Some(stop), over: Some(over) })
    }
}

/// Returns the default directory.
pub fn default_directory() -> PathBuf {
    let state = env::var("STATE_DIRECTORY").ok();
    let state = state.as_deref().and_then(|list| list.split(':').next());
    let state = state.filter(|first| !first.is_empty()).unwrap_or(STATE);
    Path::new(state).join("devices")
}

/// Saves records once a minute and when dropped. The drop waits at most `LAST_SAVE`, as the
/// directory may be on a device that hangs.
#[derive(Debug)]
pub struct LearntSaver {
    stop: Option<Sender<()>>,
    /// Disconnected when the last record is written.
    over: Option<Receiver<()>>,
}

impl Drop for LearntSaver {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(over) = self.over.take() {
            let _ = over.recv_timeout(LAST_SAVE);
        }
    }
}

/// Adds the device name of `target` to the options. Learning starts at the window set by `tune
/// --remember`, if any.
pub(crate) fn with_device_name(target: &Path, options: OpenOptions) -> OpenOptions {
    let sys = SystemRoot::here();
    let device = device_at(target).ok().and_then(|(number, _)| {
        let pair = (rustix::fs::major(number), rustix::fs::minor(number));
        sys.whole(&sys.device_numbered(pair.0, pair.1)?)
    });
    match device {
        Some(device) => {
            let window = tuned_window(&sys, &device);
            options.device_name(name_of(&sys, &device)).starting_window(window)
        }
        None => match mounted(&sys, target) {
            Some(name) => options.device_name(name),
            None => options,
        },
    }
}

/// Returns true for a permission error: unprivileged users did not ask for the system's directory.
fn is_no_permission(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Returns the name of a whole device.
fn name_of(sys: &SystemRoot, device: &BlockDevice) -> String {
    let weak = |_| format!("{}-{}", device.name, device.size.0);
    identity(sys, &device.name).map_or_else(weak, |identity| identity.id)
}

/// Returns the source of the mount of the target: `nfs4-server:/export`.
fn mounted(sys: &SystemRoot, target: &Path) -> Option<String> {
    let path = fs::canonicalize(target).ok()?;
    let mounts = sys.mounts();
    let MountEntry { kind, source, .. } = MountEntry::around(&mounts, path)?;
    Some(format!("{kind}-{source}"))
}

/// Returns the window that `tune --remember` set for a device.
fn tuned_window(sys: &SystemRoot, device: &BlockDevice) -> Option<u64> {
    let known = recall(sys, &device.name)?;
    let setting = known.settings.iter().find(|setting| setting.attribute == READ_AHEAD_KB)?;
    let kib: u64 = setting.value.parse().ok()?;
    // Learning starts at a power of two, no larger than measured.
    kib.checked_ilog2().map(|log| 1024 << log.min(20))
}

fn warn(line: &str) {
    use std::io::Write as _;
    // The line is lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}

/// State directory of foreread.
const STATE: &str = "/var/lib/foreread";

/// Time limit of the last save.
const LAST_SAVE: Duration = Duration::from_secs(2);

/// Save interval: learning since the last save is lost if the process is killed.
const SAVE_EVERY: Duration = Duration::from_secs(60);
