//! `foreread mount` of a prefix: its objects as files.
//!
//! No request is sent if the listing suffices.

use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use foreread::{Engine, OpenOptions};
use foreread_core::sizes::Exact;
use foreread_mount::{
    FileTree, ItableReadahead, PreparedTree, TreeFile, TreeName, TreePage, TreeSettings,
};
use foreread_object::{ListedName, ListedVersion, Prefix};

use super::{LeftBehind, MountArgs, built, kernel_window, mounted, refused, say};
use crate::output::{Failure, refusal};
use crate::store;

/// The objects below a prefix, as files of an engine.
#[derive(Debug)]
struct PrefixTree {
    prefix: Prefix,
    engine: Engine,
    options: OpenOptions,
}

pub(super) fn run(args: &MountArgs, url: &str) -> Result<(), Failure> {
    let of_image = [
        (args.control.is_some(), "--control"),
        (args.target.ignore_journal, "--ignore-journal"),
        (args.target.offset.is_some(), "--offset"),
        (args.target.partition.is_some(), "--partition"),
        (args.inode_readahead_blks != ItableReadahead::Adaptive, "--inode-readahead-blks"),
    ];
    if let Some((_, flag)) = of_image.into_iter().find(|(is_given, _)| *is_given) {
        let line = format!("{url}: {flag} is for images, and a prefix is none");
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
    let tree = Arc::new(PrefixTree { prefix, engine: engine.clone(), options });
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

impl FileTree for PrefixTree {
    fn list(&self, directory: &str, page: Option<String>) -> io::Result<TreePage> {
        let page = self.prefix.page(directory, false, page)?;
        let left_out = |name: String| {
            let name = name.escape_default();
            format!("{name}: no request can ask for this key, so it is left out")
        };
        Ok(TreePage {
            names: page.names.into_iter().map(tree_name).collect(),
            left_out: page.unreadable.into_iter().map(left_out).collect(),
            next: page.next,
        })
    }

    fn open(&self, path: &str, file: &TreeFile) -> io::Result<foreread::File> {
        let since = Duration::from_secs(file.modified.unsigned_abs());
        let before = UNIX_EPOCH.checked_sub(since);
        let after = UNIX_EPOCH.checked_add(since);
        let listed = ListedVersion {
            size: file.size,
            modified: if file.modified < 0 { before } else { after }.unwrap_or(UNIX_EPOCH),
            e_tag: (!file.version.is_empty()).then(|| file.version.to_string()),
        };
        let object = self.prefix.open(path, &listed)?;
        self.engine.open_source_with(object, &self.options).map_err(io::Error::other)
    }
}

fn tree_name(ListedName { mut name, meta }: ListedName) -> TreeName {
    let Some(meta) = meta else {
        // It ends with a slash.
        name.pop();
        return TreeName { name, file: None };
    };
    let modified = meta.last_modified.timestamp();
    let version = meta.e_tag.unwrap_or_default().into();
    TreeName { name, file: Some(TreeFile { size: meta.size, modified, version }) }
}
