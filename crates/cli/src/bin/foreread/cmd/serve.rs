//! `foreread serve`: exports a file, device or object over NBD through foreread's cache.
//!
//! On exit, all writes are flushed, and sockets and pid files removed. By default it only listens
//! locally.
//!
//! docs/guide/serve.md has its guarantees, counters and tunables.

mod args;
mod command;
mod container_note;
mod export_range;
mod listen_addresses;
mod plan;

use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use foreread::{Engine, OpenError, OpenErrorKind, OpenOptions};
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_files::kept_file::NewFile;
use foreread_files::{CommandInput, PidFile, PrivateDirectory, SOCKET_PATH_MAX};
use foreread_serve::metrics::{self, Metrics};
use foreread_serve::{CounterReader, Export, Overlay, ServeError, Server, ServerLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use self::args::ServeArgs;
use self::command::RunningCommand;
use self::container_note::note_container;
use self::export_range::{described, export_range};
use self::listen_addresses::ListenAddresses;
use self::plan::{ServePlan, ServeSource};
use crate::control::served::Served;
use crate::read_recording::ReadRecording;
use foreread_cli::args::max_window::MaxWindow;
use foreread_cli::clock::clock;
use foreread_cli::image::byte_range::RangeChoice;
use foreread_cli::output::{Failure, cannot};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::signals::on_signal;
use foreread_cli::write_claim::WriteClaim;

pub(crate) fn run(args: ServeArgs) -> Result<(), Failure> {
    serve(&args.plan()?)
}

fn serve(plan: &ServePlan) -> Result<(), Failure> {
    refuse_one_file_twice(plan)?;
    let connections = raise_open_files(plan)?;
    let private = private_folder(plan)?;
    let OpenedTarget { engine, file, overlay, recording, new_file } = opened(plan)?;
    let range = export_range(plan, &file, overlay.as_ref())?;
    let saver = plan.remember.keep(&engine, Some(&file)).map_err(cannot("start a thread"))?;
    // Held until the process ends.
    let _claim = claimed(plan)?;
    // Never dropped: dropping the last handle waits for requests in flight, and a device may never
    // complete them.
    let served = ManuallyDrop::new(Served {
        engine: engine.clone(),
        file: file.clone(),
        written: overlay.as_ref().map_or(&file, Overlay::written_file).clone(),
        losses: overlay.as_ref().map(Overlay::losses).cloned(),
        target: described(plan),
        bytes: range.end - range.start,
        export: plan.export.clone(),
        read_only: plan.read_only,
        memory: plan.memory,
        started: clock(),
    });
    for (name, value) in &plan.tunables {
        served.set(name, value).map_err(|why| Failure::WrongUse(format!("--set {why}")))?;
    }
    let export = Export {
        name: plan.export.clone(),
        file,
        range,
        read_only: plan.read_only,
        description: served.target.clone(),
    };
    let limits = limits(plan, connections);
    let written = overlay.as_ref().map(Overlay::written);
    let mut server = match overlay {
        Some(overlay) => Server::with_overlay(engine, export, limits, overlay),
        None => Server::new(engine, export, limits),
    };
    let place = listen(plan, private.as_ref(), &mut server)?;
    let stopper = server.stopper();
    let meter = server.counter_reader();
    let control = (Served::clone(&served), meter.clone());
    server.on_control(Box::new(move |text| control.0.answer(text, &control.1)));
    let metrics = match plan.metrics {
        Some(addr) => Some(serve_metrics(addr, Served::clone(&served), meter)?),
        None => None,
    };
    let stop = stopper.clone();
    on_signal(move || stop.stop()).map_err(cannot("catch signals"))?;
    let pid_file = pid_file(plan)?;
    new_file.into_iter().for_each(NewFile::keep);
    ready(&served, &place, plan, (metrics.as_ref(), written));
    let command = plan.command.as_deref().map(|line| {
        RunningCommand::start(line, &place, &plan.export, move || stopper.stop())
            .map_err(cannot("run a shell"))
    });
    let command = command.transpose()?;

    let over = server.run();
    recording.finish();
    let code = command.map(|command| command.finish(COMMAND_GRACE)).transpose();
    drop((metrics, pid_file, private, saver));
    over.map_err(|error| Failure::Check(error.to_string()))?;
    match code.map_err(cannot("wait for the command"))? {
        None | Some(0) => Ok(()),
        Some(code) => Err(Failure::Command(code)),
    }
}

/// Claims the files that are written: two servers would have two caches of them.
fn claimed(plan: &ServePlan) -> Result<Option<WriteClaim>, Failure> {
    if plan.read_only || matches!(plan.source, ServeSource::Object { .. }) {
        return Ok(None);
    }
    WriteClaim::new(&plan.target, "or serve it with --read-only").map(Some)
}

/// Returns the limits of the server.
fn limits(plan: &ServePlan, connections: usize) -> ServerLimits {
    ServerLimits {
        connections,
        requests: plan.requests as usize,
        exit_timeout: plan.exit_timeout,
        ..ServerLimits::default()
    }
}

/// Refuses two of the files that this command makes to be one: the trace, which comes last, would
/// be lost.
fn refuse_one_file_twice(plan: &ServePlan) -> Result<(), Failure> {
    let mut outputs = CommandOutputs::beside(&[]);
    let paths = [
        ("--overlay", plan.overlay()),
        ("--unix", plan.unix.as_deref()),
        ("--pid-file", plan.pid_file.as_deref()),
        ("--record", plan.recording.path()),
    ];
    let mut given = paths.into_iter().filter_map(|(option, path)| Some((option, path?)));
    given.try_for_each(|(option, path)| outputs.reserve(option, path))
}

/// Creates the file of --pid-file, if requested.
fn pid_file(plan: &ServePlan) -> Result<Option<PidFile>, Failure> {
    let create = |path: &Path| {
        let inputs = [CommandInput { name: "TARGET", path: &plan.target }];
        let refused = |error| Failure::WrongUse(format!("--pid-file {error}"));
        PidFile::create(path, &inputs).map_err(refused)
    };
    plan.pid_file.as_deref().map(create).transpose()
}

/// Raises the limit of open files to two for each connection, and returns the number of connections
/// of each listener for which that is enough. Without the descriptors, a control request could not
/// be accepted either.
///
/// # Errors
///
/// If this process may not open the files that it needs without any client.
fn raise_open_files(plan: &ServePlan) -> Result<usize, Failure> {
    let listeners = if plan.unix.is_some() && plan.tcp.is_some() { 2 } else { 1 };
    let wanted = 2 * listeners * u64::from(plan.connections) + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
    let Some(files) = getrlimit(Resource::Nofile).current.filter(|files| *files < wanted) else {
        return Ok(plan.connections as usize);
    };
    if files < FILES_MIN {
        return Err(Failure::WrongUse(format!(
            "this process may open {files} files, and serve needs {FILES_MIN}: raise the limit \
             (ulimit -n)"
        )));
    }
    let connections = (files.saturating_sub(OTHER_FILES) / (2 * listeners)).max(1);
    let wanted = plan.connections;
    let _ = writeln!(
        io::stderr(),
        "foreread: --connections {wanted}: {connections} at most, as this process may open {files} \
         files; raise the hard limit (ulimit -Hn) for more"
    );
    Ok(usize::try_from(connections).unwrap_or(usize::MAX))
}

/// Creates a directory for the private socket of --run.
fn private_folder(plan: &ServePlan) -> Result<Option<PrivateDirectory>, Failure> {
    if plan.unix.is_some() || plan.tcp.is_some() {
        return Ok(None);
    }
    // Only this user may enter it.
    let folder = PrivateDirectory::new();
    let folder = folder.map_err(|error| Failure::WrongUse(format!("--run: {error}")))?;
    if folder.path().join(PRIVATE_SOCKET).as_os_str().len() > SOCKET_PATH_MAX {
        return Err(Failure::WrongUse(format!(
            "--run: TMPDIR is too long for a socket's path ({SOCKET_PATH_MAX} bytes); set it to a \
             shorter one, or give --unix"
        )));
    }
    Ok(Some(folder))
}

/// The opened target, before it is served.
struct OpenedTarget {
    engine: Engine,
    file: foreread::File,
    overlay: Option<Overlay>,
    recording: ReadRecording,
    /// New overlay file, removed if the command is refused.
    new_file: Option<NewFile>,
}

fn opened(plan: &ServePlan) -> Result<OpenedTarget, Failure> {
    let builder =
        Engine::builder().memory(plan.memory.0).policy(plan.policy).dirty_age(plan.dirty_age);
    let builder = builder.prefault(plan.prefault);
    let builder = plan.remember.give(plan.window.give(builder));
    let (builder, recording) = plan.recording.start(&plan.target, builder)?;
    let engine = builder.build().map_err(|error| Failure::WrongUse(error.to_string()))?;
    let options = OpenOptions::new().write(!plan.read_only);
    let options = plan.remember.name(&plan.target, options);
    match &plan.source {
        ServeSource::Object { store, overlay } => {
            // The plan is that of a URL, which is text.
            let url = plan.target.to_str().expect("a URL is text");
            let opened = store.client()?.open_identified(&engine, url, &options);
            let (file, identity) = opened.map_err(Failure::WrongUse)?;
            let overlay = overlay.as_deref().map(|path| {
                let overlay = Overlay::open(&engine, file.clone(), &identity, path);
                overlay.map_err(|error| Failure::WrongUse(format!("--overlay {error}")))
            });
            let mut overlay = overlay.transpose()?;
            let new_file = overlay.as_mut().and_then(Overlay::take_new_file);
            Ok(OpenedTarget { engine, file, overlay, recording, new_file })
        }
        ServeSource::File { delay } => {
            let opened = engine.open_with(&plan.target, &options.delay(*delay));
            let file = opened.map_err(|error| not_opened(&engine, plan, &error))?;
            if plan.range == RangeChoice::Whole {
                note_container(&plan.target);
            }
            Ok(OpenedTarget { engine, file, overlay: None, recording, new_file: None })
        }
    }
}

/// Returns the engine's error, with alternatives if only writing is refused.
fn not_opened(engine: &Engine, plan: &ServePlan, error: &OpenError) -> Failure {
    let line = error.to_string();
    // The file is writable, but no thread could be created.
    let has_no_thread = matches!(&error.kind, OpenErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock);
    if has_no_thread || plan.read_only || engine.open(&plan.target).is_err() {
        return Failure::WrongUse(line);
    }
    // Replaces advice for programs by flags.
    let by_program = [", or open it for reading", ", or open the file for reading"];
    let line = by_program.iter().find_map(|end| line.strip_suffix(end)).unwrap_or(&line);
    Failure::WrongUse(format!("{line}, or serve it with --read-only"))
}

fn listen(
    plan: &ServePlan,
    private: Option<&PrivateDirectory>,
    server: &mut Server,
) -> Result<ListenAddresses, Failure> {
    let refused = |error: ServeError| Failure::WrongUse(error.to_string());
    let unix =
        plan.unix.clone().or_else(|| private.map(|folder| folder.path().join(PRIVATE_SOCKET)));
    if let Some(path) = &unix {
        server.unix(path).map_err(refused)?;
    }
    // Clients may run in another directory.
    let unix = unix.map(|path| std::path::absolute(&path).unwrap_or(path));
    let tcp = plan.tcp.map(|addr| server.tcp(addr)).transpose().map_err(refused)?;
    Ok(ListenAddresses { unix, tcp })
}

fn serve_metrics(
    addr: SocketAddr,
    served: Served,
    meter: CounterReader,
) -> Result<Metrics, Failure> {
    let page = move || {
        let stats = served.stats(&meter);
        metrics::page(&stats.expect("a thread of the process that made the engine asks"))
    };
    Metrics::serve(addr, page)
        .map_err(|error| Failure::WrongUse(format!("--metrics {addr}: {error}; give another port")))
}

/// Prints one line that the server is ready, with its addresses.
fn ready(
    served: &Served,
    place: &ListenAddresses,
    plan: &ServePlan,
    (metrics, written): (Option<&Metrics>, Option<u64>),
) {
    let Served { engine, file, target, bytes, .. } = served;
    let mut line = format!("serving {target} ({})", Exact(ByteCount(*bytes)));
    line += if plan.read_only { ", read-only" } else { "" };
    for uri in place.uris(&plan.export) {
        line += &format!(" at {uri}");
    }
    let how = match file.direct_io_unavailable() {
        Some(why) => format!("buffered ({why})"),
        None if matches!(plan.source, ServeSource::Object { .. }) => "by range requests".to_owned(),
        None => "direct".to_owned(),
    };
    let window = match plan.window {
        MaxWindow::Auto => "as learnt".to_owned(),
        MaxWindow::Size(_) => engine
            .max_window()
            .map_or_else(|_| "unknown".to_owned(), |bytes| Exact(ByteCount(bytes)).to_string()),
    };
    line += &format!(
        "; memory {}, window {window}, {}, {how}, {}",
        Exact(plan.memory),
        scheduler(file),
        engine.io_backend()
    );
    if let (Some(overlay), Some(written)) = (plan.overlay(), written) {
        let written = Exact(ByteCount(written));
        let buffered = served.written.direct_io_unavailable();
        let buffered = buffered.map_or_else(String::new, |why| format!(", buffered: {why}"));
        line += &format!(", overlay {} ({written} written{buffered})", overlay.display());
    }
    if let ServeSource::File { delay: Some(delay) } = plan.source {
        line += &format!(", slowed down: {delay}");
    }
    if let Some(metrics) = metrics {
        line += &format!("; metrics at http://{}/metrics", metrics.addr());
    }
    if place.tcp.is_some_and(|addr| !addr.ip().is_loopback()) {
        line += "; open to other machines, without password or encryption";
    }
    // The line is lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}

/// Returns the name of the scheduler of a file.
fn scheduler(file: &foreread::File) -> String {
    let settings = file.device().scheduler_settings().unwrap_or_default();
    settings.into_iter().next().map_or_else(String::new, |(_, name)| name)
}

/// Name of the private socket of --run.
const PRIVATE_SOCKET: &str = "nbd";
/// Time after SIGTERM until the command is killed.
const COMMAND_GRACE: Duration = Duration::from_secs(5);
/// Other file descriptors: the target, rings, listeners, two for each of sixteen control requests
/// and of sixteen TCP clients of hosts with few connections, and a reserve.
const OTHER_FILES: u64 = 128;
/// Descriptors of the target, the rings, the listeners and one client, and a reserve.
const FILES_MIN: u64 = 32;
