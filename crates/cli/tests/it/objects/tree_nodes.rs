//! The memory of a mounted tree, with a tree that is made up.

use std::fs;
use std::io;
use std::sync::Arc;

use foreread_mount::{FileTree, PreparedTree, TreeFile, TreeName, TreePage, TreeSettings};
use tempfile::TempDir;

use crate::common::{Need, looks_until, needs, scratch};

/// A directory of so many empty files.
struct ManyFiles(usize);

impl FileTree for ManyFiles {
    fn list(&self, _: &str, _: Option<String>) -> io::Result<TreePage> {
        let file = || TreeFile { size: 0, modified: 1, version: "1".into() };
        let names = (0..self.0).map(|n| TreeName { name: n.to_string(), file: Some(file()) });
        Ok(TreePage { names: names.collect(), ..TreePage::default() })
    }

    fn open(&self, path: &str, _: &TreeFile) -> io::Result<foreread::File> {
        panic!("{path} is empty, and has nothing to be read")
    }
}

/// The kernel is told to forget the oldest; it does so unless they are in use.
#[test]
fn names_that_the_kernel_remembers_are_bounded() {
    let test = "names_that_the_kernel_remembers_are_bounded";
    if !needs(Need::Fuse, test) || !needs(Need::Root, test) {
        return;
    }
    let folder = TempDir::new_in(scratch()).unwrap();
    let settings = TreeSettings { nodes: 500, ..TreeSettings::default() };
    let ready = PreparedTree::new(Arc::new(ManyFiles(4000)), folder.path(), settings).unwrap();
    assert_eq!(ready.names(), 4000);
    let mount = ready.mount().unwrap();
    let (usage, stopper) = (mount.usage(), mount.stopper());
    let running = std::thread::spawn(move || mount.run());
    let held = fs::File::open(folder.path().join("7")).unwrap();
    for number in 0..4000 {
        assert_eq!(fs::metadata(folder.path().join(number.to_string())).unwrap().len(), 0);
    }
    assert!(usage.nodes() > 0);
    assert!(looks_until(|| usage.nodes() <= 500), "{} nodes", usage.nodes());
    assert_eq!(held.metadata().unwrap().len(), 0, "one that is in use stays");
    drop(held);
    assert_eq!(fs::read(folder.path().join("7")).unwrap(), b"");
    let _ = stopper.stop();
    running.join().unwrap().unwrap();
}
