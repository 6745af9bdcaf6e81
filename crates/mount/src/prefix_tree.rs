//! The objects below a prefix of a store as a tree of files; feature `objects`.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use foreread::{Engine, OpenOptions};
use foreread_object::{ListedName, ListedVersion, Prefix};

use crate::tree::{FileTree, TreeFile, TreeName, TreePage};

/// The objects below a prefix, as files of an engine. A file is opened without a request: its
/// listing has its version.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use foreread_mount::{PrefixTree, PreparedTree, TreeSettings};
/// use foreread_object::{StoreOptions, Stores};
///
/// let engine = foreread::Engine::builder().build()?;
/// let stores = Stores::new(StoreOptions::default());
/// let prefix = stores.prefix("s3://bucket/tables/")?;
/// let tree = Arc::new(PrefixTree::new(prefix, &engine, foreread::OpenOptions::new()));
/// PreparedTree::new(tree, "/mnt".as_ref(), TreeSettings::default())?.mount()?.run()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct PrefixTree {
    prefix: Prefix,
    engine: Engine,
    options: OpenOptions,
}

impl PrefixTree {
    /// Creates the tree of a prefix, whose files are opened by `engine` with `options`.
    #[must_use]
    pub fn new(prefix: Prefix, engine: &Engine, options: OpenOptions) -> Self {
        Self { prefix, engine: engine.clone(), options }
    }
}

impl FileTree for PrefixTree {
    fn list(&self, directory: &str, page: Option<String>) -> io::Result<TreePage> {
        let page = self.prefix.page(directory, false, page)?;
        let left_out = |name: String| {
            let name = name.escape_default();
            format!("{name}: no request can express this key, and is left out")
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
        // The listed name ends with a slash.
        name.pop();
        return TreeName { name, file: None };
    };
    let modified = meta.last_modified.timestamp();
    let version = meta.e_tag.unwrap_or_default().into();
    TreeName { name, file: Some(TreeFile { size: meta.size, modified, version }) }
}
