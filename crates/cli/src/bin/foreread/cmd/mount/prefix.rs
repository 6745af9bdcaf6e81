//! `foreread mount` of a prefix: its objects as files.
//!
//! No request is sent if the listing suffices.

use std::path::Path;
use std::sync::Arc;

use foreread::OpenOptions;
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_mount::{PrefixTree, PreparedTree, TreeSettings};

use super::plan::{MountPlan, PrefixMount};
use super::{LeftBehind, built, kernel_window, mounted, refused, reserve, say};
use foreread_cli::output::{Failure, refusal};
use foreread_cli::store;

/// Mounts the objects below a prefix.
pub(super) fn mount_prefix(plan: &MountPlan, source: &PrefixMount) -> Result<(), Failure> {
    let PrefixMount { url, store, list_lifetime } = source;
    reserve(plan, None)?;
    let (engine, recording) = built(plan, Path::new(url))?;
    let prefix = store.client()?.prefix(url)?;
    // A name is smaller than the pages of most objects.
    let list_memory = ByteCount(plan.memory.0 / 2);
    let saver = plan.remember.keep(&engine, None);
    let saver = saver.map_err(|error| {
        Failure::WrongUse(format!("cannot start a thread: {}", refusal(&error)))
    })?;
    let options = OpenOptions::new().device_name(store::device_name(prefix.device_name()));
    let settings = TreeSettings {
        name: url.clone(),
        allow_other: plan.allow_other,
        max_window: kernel_window(&engine),
        lifetime: *list_lifetime,
        listing_memory: usize::try_from(list_memory.0).unwrap_or(usize::MAX),
        log: Box::new(say),
        ..TreeSettings::default()
    };
    let tree = Arc::new(PrefixTree::new(prefix, &engine, options));
    let ready = PreparedTree::new(tree, &plan.dir, settings);
    let ready = ready.map_err(|error| refused(plan, &error))?;
    let names = ready.names();
    let stopper = Arc::default();
    let left = LeftBehind { socket: None, recording };
    let mount = mounted(plan, left.clone(), &stopper, || {
        let mount = ready.mount()?;
        let stopper = mount.stopper();
        Ok((mount, stopper))
    })?;
    say(&format!(
        "mounted {url} ({names} names) on {}; memory {}, names {}, by range requests, {}",
        plan.dir.display(),
        Exact(plan.memory),
        Exact(list_memory),
        engine.io_backend(),
    ));
    let over = mount.run();
    // The thread that unmounts holds it until it has said how.
    drop(stopper.lock());
    left.recording.finish();
    drop(saver);
    over.map_err(|error| Failure::Check(format!("{}: {error}", plan.dir.display())))
}
