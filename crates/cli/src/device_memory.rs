//! What `serve` and `mount` keep of a device from one run to the next.
//!
//! In:    where to keep it, the target.
//! Out:   the device's name, an engine that remembers it; records written now and then.
//! Never: a run that fails because of a record: one line says what is wrong with it.
//!
//! The name is the identity that `tune --remember` has for the device. A device without one (NBD,
//! a network file system) is known by its name and size, or by what was mounted: the first
//! requests find out if it is another one.

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

/// Whether and where what is learnt of a device is kept.
#[derive(Clone, Debug, Args)]
pub(crate) struct RememberArgs {
    /// Where to keep what is learnt of the device, for the next run: one small text file
    /// [default: devices in $STATE_DIRECTORY, else /var/lib/foreread/devices]
    ///
    /// The next run begins with windows of the right size instead of measuring the device for a
    /// second or more. Its first requests check it: of a device that has changed, it is forgotten.
    /// A file of another program is never replaced (docs/files.md).
    #[arg(long, value_name = "DIR", conflicts_with = "no_remember")]
    remember: Option<PathBuf>,

    /// Neither use nor keep what was learnt of the device in an earlier run
    #[arg(long)]
    no_remember: bool,
}

impl RememberArgs {
    fn directory(&self) -> Option<PathBuf> {
        if self.no_remember {
            return None;
        }
        Some(self.remember.clone().unwrap_or_else(default_directory))
    }

    /// An engine that remembers devices, if that is wanted.
    pub(crate) fn give(&self, builder: EngineBuilder) -> EngineBuilder {
        match self.directory() {
            Some(directory) => builder.remember(directory),
            None => builder,
        }
    }

    /// Options with the name of the device of `target`, if it is to be remembered.
    pub(crate) fn name(&self, target: &Path, options: OpenOptions) -> OpenOptions {
        // A store has its name from its URL.
        let is_unnamed = self.no_remember || url_of(target).is_some();
        if is_unnamed { options } else { with_device_name(target, options) }
    }

    /// Says in one line if a record cannot be used, and saves records until the end of the result.
    pub(crate) fn keep(&self, engine: &Engine, file: Option<&File>) -> io::Result<LearntSaver> {
        let record = file.map(|file| file.device().record());
        if self.no_remember {
            return Ok(LearntSaver { stop: None, over: None });
        }
        let (stop, stopped) = channel::<()>();
        let (ended, over) = channel::<()>();
        let (engine, is_asked_for) = (engine.clone(), self.remember.is_some());
        // One line is enough: what cannot be read is not written either.
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

/// Where it is kept unless another directory is named.
pub(crate) fn default_directory() -> PathBuf {
    let state = env::var("STATE_DIRECTORY").ok();
    let state = state.as_deref().and_then(|list| list.split(':').next());
    let state = state.filter(|first| !first.is_empty()).unwrap_or(STATE);
    Path::new(state).join("devices")
}

/// Saves what is learnt, once a minute and when it is dropped. The drop waits for that, but not
/// for longer than [`LAST_SAVE`]: the directory may lie on a device that hangs.
#[derive(Debug)]
pub(crate) struct LearntSaver {
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

/// Options with the name of the device of `target`. Where `tune --remember` has set a window,
/// learning begins with that.
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

/// Users without the right to write the system's directory have not asked for it.
fn is_no_permission(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// The name of a whole device.
fn name_of(sys: &SystemRoot, device: &BlockDevice) -> String {
    let weak = |_| format!("{}-{}", device.name, device.size.0);
    identity(sys, &device.name).map_or_else(weak, |identity| identity.id)
}

/// What was mounted where the target is: `nfs4-server:/export`.
fn mounted(sys: &SystemRoot, target: &Path) -> Option<String> {
    let path = fs::canonicalize(target).ok()?;
    let mounts = sys.mounts();
    let MountEntry { kind, source, .. } = MountEntry::around(&mounts, path)?;
    Some(format!("{kind}-{source}"))
}

/// The window that `tune --remember` has set for a device.
fn tuned_window(sys: &SystemRoot, device: &BlockDevice) -> Option<u64> {
    let known = recall(sys, &device.name)?;
    let setting = known.settings.iter().find(|setting| setting.attribute == READ_AHEAD_KB)?;
    let kib: u64 = setting.value.parse().ok()?;
    // Where learning begins is a power of two; no larger than what was measured.
    kib.checked_ilog2().map(|log| 1024 << log.min(20))
}

fn warn(line: &str) {
    use std::io::Write as _;
    // The line is lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}

/// Where foreread keeps its state.
const STATE: &str = "/var/lib/foreread";

/// How long a process that ends waits for its last record.
const LAST_SAVE: Duration = Duration::from_secs(2);

/// What is lost if the process is killed.
const SAVE_EVERY: Duration = Duration::from_secs(60);
