//! `foreread mount` of a prefix: its objects as files.
//!
//! No request is sent if the listing suffices.

use std::sync::Arc;

use foreread::OpenOptions;
use foreread_core::sizes::Exact;
use foreread_mount::{ItableReadahead, PrefixTree, PreparedTree, TreeSettings};

use super::{LeftBehind, MountArgs, built, kernel_window, mounted, refused, say};
use foreread_cli::output::{Failure, refusal};
use foreread_cli::store;

pub(super) fn run(args: &MountArgs, url: &str) -> Result<(), Failure> {
    let of_image = [
        (args.control.is_some(), "--control"),
        (args.target.ignore_journal, "--ignore-journal"),
        (args.target.offset.is_some(), "--offset"),
        (args.target.partition.is_some(), "--partition"),
        (args.inode_readahead_blks != ItableReadahead::Adaptive, "--inode-readahead-blks"),
    ];
    if let Some((_, flag)) = of_image.into_iter().find(|(is_given, _)| *is_given) {
        let line = format!("{url}: {flag} is valid for images only, not for a prefix");
        return Err(Failure::WrongUse(line));
    }
    let (engine, recording) = built(args)?;
    let prefix = args.target.store.client()?.prefix(url)?;
    let saver = args.remember.keep(&engine, None);
    let saver = saver.map_err(|error| {
        Failure::WrongUse(format!("cannot start a thread: {}", refusal(&error)))
    })?;
    let options = OpenOptions::new().device_name(store::device_name(prefix.device_name()));
    let settings = TreeSettings {
        name: url.to_owned(),
        allow_other: args.allow_other,
        max_window: kernel_window(&engine),
        lifetime: args.list_lifetime,
        listing_memory: usize::try_from(args.list_memory.0).unwrap_or(usize::MAX),
        log: Box::new(say),
        ..TreeSettings::default()
    };
    let tree = Arc::new(PrefixTree::new(prefix, &engine, options));
    let ready = PreparedTree::new(tree, &args.dir, settings);
    let ready = ready.map_err(|error| refused(args, &error))?;
    let names = ready.names();
    let stopper = Arc::default();
    let left = LeftBehind { socket: None, recording };
    let mount = mounted(args, left.clone(), &stopper, || {
        let mount = ready.mount()?;
        let stopper = mount.stopper();
        Ok((mount, stopper))
    })?;
    say(&format!(
        "mounted {url} ({names} names) on {}; memory {}, names {}, by range requests, {}",
        args.dir.display(),
        Exact(args.memory),
        Exact(args.list_memory),
        engine.io_backend(),
    ));
    let over = mount.run();
    // The thread that unmounts holds it until it has said how.
    drop(stopper.lock());
    left.recording.finish();
    drop(saver);
    over.map_err(|error| Failure::Check(format!("{}: {error}", args.dir.display())))
}
