//! `foreread mount`: mounts an ext4 image or a bucket prefix through foreread's cache.
//!
//! Read-only. The mount is removed when the command is told to end.
//!
//! docs/guide/ext4.md describes its read-ahead, docs/guide/objects.md prefixes.

mod args;
mod control;
mod plan;
#[cfg(feature = "objects")]
mod prefix;

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use foreread::{Engine, OpenOptions};
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_files::SocketFile;
use foreread_mount::{MountError, MountSettings, PreparedMount, UnmountOutcome, Unmounter};

pub(crate) use self::args::MountArgs;
use self::control::Control;
use self::plan::{ImageMount, MountPlan, MountSource};
use crate::args::itable_readahead::itable_readahead_text;
use crate::read_recording::ReadRecording;
use foreread_cli::output::{Failure, refusal};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::signals::on_signals;
use foreread_cli::store;

pub(crate) fn run(args: MountArgs) -> Result<(), Failure> {
    let plan = args.plan()?;
    match &plan.source {
        MountSource::Image(image) => mount_image(&plan, image),
        #[cfg(feature = "objects")]
        MountSource::Prefix(prefix) => prefix::mount_prefix(&plan, prefix),
    }
}

/// Refuses two of the files that this command makes to be one.
fn reserve(plan: &MountPlan, control: Option<&Path>) -> Result<(), Failure> {
    let mut outputs = CommandOutputs::beside(&[]);
    let paths = [("--control", control), ("--record", plan.recording.path())];
    let mut given = paths.into_iter().filter_map(|(option, path)| Some((option, path?)));
    given.try_for_each(|(option, path)| outputs.reserve(option, path))
}

fn mount_image(plan: &MountPlan, source: &ImageMount) -> Result<(), Failure> {
    let ImageMount { target, itable, control, .. } = source;
    reserve(plan, control.as_deref())?;
    let (engine, image, recording) = opened(plan, source)?;
    let saver = plan.remember.keep(&engine, Some(&image));
    let saver = saver.map_err(|error| {
        Failure::WrongUse(format!("cannot start a thread: {}", refusal(&error)))
    })?;
    let device = image.clone();
    let name = target.target.display().to_string();
    let settings = MountSettings {
        image_range: Some(target.image_range(&image)?),
        journal: target.journal,
        name: name.clone(),
        itable: *itable,
        max_window: kernel_window(&engine),
        memory: plan.memory.0,
        allow_other: plan.allow_other,
        log: Box::new(move |line| say(&format!("{name}: {line}"))),
        ..MountSettings::default()
    };
    let how = match image.direct_io_unavailable() {
        Some(why) => format!("buffered ({why})"),
        None if target.url().is_some() => "by range requests".to_owned(),
        None => "direct".to_owned(),
    };
    let ready =
        PreparedMount::new(image, &plan.dir, settings).map_err(|error| refused(plan, &error))?;
    // In front of the mount, which would keep the socket's folder waiting for ourselves.
    let control = control
        .as_deref()
        .map(|path| Control::start(path, &engine, device, &ready, &target.target, plan.memory));
    let control = control.transpose()?;
    let stopper = Arc::default();
    let left = LeftBehind { socket: control.as_ref().map(Control::file), recording };
    let mount = mounted(plan, left.clone(), &stopper, || {
        let mount = ready.mount()?;
        let stopper = mount.stopper();
        Ok((mount, stopper))
    })?;
    say(&format!(
        "mounted {} ({}) on {}; inode_readahead_blks {}, memory {}, \
         {how}, {}",
        target.target.display(),
        Exact(ByteCount(mount.superblock().size())),
        plan.dir.display(),
        itable_readahead_text(*itable),
        Exact(plan.memory),
        engine.io_backend(),
    ));
    let over = mount.run();
    // The unmounting thread holds the lock until it has printed the outcome.
    drop(stopper.lock());
    left.recording.finish();
    drop((control, saver));
    over.map_err(|error| Failure::Check(format!("{}: {error}", plan.dir.display())))
}

/// Builds the engine, and begins the recording of `target`.
fn built(plan: &MountPlan, target: &Path) -> Result<(Engine, ReadRecording), Failure> {
    let builder = Engine::builder().memory(plan.memory.0);
    let builder = plan.window.give(builder.prefault(plan.prefault));
    let (builder, recording) = plan.recording.start(target, plan.remember.give(builder))?;
    let built = builder.build().map_err(|error| Failure::WrongUse(error.to_string()))?;
    Ok((built, recording))
}

/// Returns the largest read-ahead request of the kernel.
fn kernel_window(engine: &Engine) -> u64 {
    engine.max_window().map_or(KERNEL_WINDOW, |bytes| bytes.min(KERNEL_WINDOW))
}

fn opened(
    plan: &MountPlan,
    ImageMount { target: image, delay, .. }: &ImageMount,
) -> Result<(Engine, foreread::File, ReadRecording), Failure> {
    let (engine, recording) = built(plan, &image.target)?;
    let options = plan.remember.name(&image.target, OpenOptions::new().delay(*delay));
    let image = store::open(&engine, &image.target, &options, image.store)?;
    Ok((engine, image, recording))
}

/// Adds the image's name and the repair command to an error.
fn refused(plan: &MountPlan, error: &MountError) -> Failure {
    Failure::WrongUse(match (error, &plan.source) {
        (MountError::Image(error), MountSource::Image(image)) => image.target.says(error),
        (error, _) => error.to_string(),
    })
}

/// Resources that an exit without drop would leave behind.
#[derive(Clone)]
struct LeftBehind {
    socket: Option<SocketFile>,
    recording: ReadRecording,
}

/// Mounts, and unmounts on a signal.
///
/// ```text
///   reads the image  | mounts            | answers
///   a signal: ends   | waits until then  | unmounts
/// ```
fn mounted<M>(
    plan: &MountPlan,
    left: LeftBehind,
    stopper: &Arc<Mutex<Option<Unmounter>>>,
    mount: impl FnOnce() -> Result<(M, Unmounter), MountError>,
) -> Result<M, Failure> {
    let mut held = stopper.lock().unwrap_or_else(PoisonError::into_inner);
    stop_on_signals(Arc::clone(stopper), &plan.dir, left)?;
    let (mount, unmounter) = mount().map_err(|error| refused(plan, &error))?;
    *held = Some(unmounter);
    drop(held);
    Ok(mount)
}

/// Unmounts on the first signal. If files are open or the device does not answer, the second signal
/// exits without waiting.
fn stop_on_signals(
    stopper: Arc<Mutex<Option<Unmounter>>>,
    dir: &Path,
    left: LeftBehind,
) -> Result<(), Failure> {
    let dir = dir.display().to_string();
    let leave = move |code| {
        left.recording.finish();
        if let Some(socket) = &left.socket {
            socket.remove();
        }
        std::process::exit(code);
    };
    let mut is_unmounted = None;
    let stop = move || match is_unmounted {
        None => {
            let held = stopper.lock().unwrap_or_else(PoisonError::into_inner);
            // If there is none, mounting failed, and the main thread reports the error.
            let Some(stopper) = held.as_ref() else { return };
            let stopped = stopper.stop();
            is_unmounted = Some(matches!(stopped, UnmountOutcome::Unmounted { .. }));
            if let Some(line) = outcome(&stopped) {
                say(&format!("{dir}: {line}"));
            }
            if matches!(stopped, UnmountOutcome::Covered { .. } | UnmountOutcome::Failed { .. }) {
                // The kernel closes the connection when the process exits.
                leave(1);
            }
        }
        Some(done) => {
            if !done {
                say(&format!("{dir}: ended while in use"));
            }
            leave(i32::from(!done));
        }
    };
    on_signals(stop)
        .map_err(|error| Failure::WrongUse(format!("cannot catch signals: {}", refusal(&error))))
}

/// Describes the outcome of an unmount.
fn outcome(stopped: &UnmountOutcome) -> Option<String> {
    match stopped {
        UnmountOutcome::Unmounted { moved: None } => None,
        UnmountOutcome::Unmounted { moved: Some(to) } => {
            Some(format!("the mount was moved to {}; it is unmounted there", to.display()))
        }
        UnmountOutcome::InUse { also: None } => Some(
            "in use; unmounted as soon as nothing in it is open, or by another signal".to_owned(),
        ),
        UnmountOutcome::InUse { also: Some(path) } => {
            let path = path.display();
            Some(format!("in use: also mounted on {path}; umount {path}, or send another signal"))
        }
        UnmountOutcome::Covered { by } => Some(format!(
            "covered by another mount ({by}), so it cannot be unmounted; it has no server any more: \
             unmount the other one, then this one"
        )),
        UnmountOutcome::Failed { why } => Some(format!(
            "cannot be unmounted ({why}); it has no server any more: umount it, or fusermount3 -u"
        )),
    }
}

/// Size limit of a FUSE request of the kernel.
const KERNEL_WINDOW: u64 = 1 << 20;

fn say(line: &str) {
    // The line is lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}
