//! File systems of which a part cannot be read, or not as it is written: encrypted files, names
//! whose case does not matter.
//!
//! In:    images with the features, whose inodes get the flags by hand.
//! Out:   everything else as it is; for what is encrypted an error of its own.
//! Never: encrypted bytes in place of contents or names.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use foreread_ext4::{Error, Ext4, Journal};

use crate::common::{Command, output};
use crate::images::{can_make, folder, make};

const ENCRYPTED: u32 = 0x800;
const CASEFOLDED: u32 = 0x4000_0000;

/// An image of `names`, which are files with their names in them.
fn image(folder: &Path, feature: &str, names: &[String]) -> PathBuf {
    let tree = folder.join("tree");
    std::fs::create_dir_all(tree.join("dir")).unwrap();
    for name in names {
        std::fs::write(tree.join(name), name).unwrap();
    }
    std::os::unix::fs::symlink("file", tree.join("link")).unwrap();
    let features = format!("^metadata_csum,^has_journal,{feature}");
    let tree = tree.to_str().unwrap();
    make(folder, 16, &["-b", "1024", "-O", &features, "-d", tree])
}

fn open(image: &Path) -> Ext4<File> {
    Ext4::open(File::open(image).unwrap(), Journal::Refuse).expect("an image")
}

fn set_flags(image: &Path, path: &str, flags: u32) {
    let fs = open(image);
    let inode = fs.resolve_link(path.as_bytes()).unwrap();
    let (at, _) = fs.inode_place(inode.number).unwrap();
    let file = File::options().write(true).open(image).unwrap();
    file.write_all_at(&(inode.flags | flags).to_le_bytes(), at + 0x20).unwrap();
}

/// A file system with one encrypted directory was refused as a whole.
#[test]
fn what_is_not_encrypted_is_read_and_the_rest_says_that_it_is() {
    if !can_make("what_is_not_encrypted_is_read_and_the_rest_says_that_it_is") {
        return;
    }
    // Without the feature the flag means the same, as in Linux: no contents are made up.
    for feature in ["encrypt", "^dir_nlink"] {
        let folder = folder();
        let names = ["file", "plain", "dir/inside"].map(str::to_owned);
        let image = image(folder.path(), feature, &names);
        let inside = open(&image).resolve(b"dir/inside").unwrap().number;
        for path in ["file", "dir", "link"] {
            set_flags(&image, path, ENCRYPTED);
        }
        let fs = open(&image);
        let mut bytes = [0; 5];
        let plain = fs.resolve(b"plain").unwrap();
        assert_eq!(fs.read_at(&plain, 0, &mut bytes).unwrap(), 5);
        assert_eq!(&bytes, b"plain");
        let file = fs.resolve(b"file").unwrap();
        assert_eq!((file.size, file.is_encrypted()), (4, true));
        assert!(matches!(fs.read_at(&file, 0, &mut bytes), Err(Error::Encrypted)));
        let link = fs.resolve_link(b"link").unwrap();
        assert!(matches!(fs.read_link(&link), Err(Error::Encrypted)));
        let dir = fs.resolve(b"dir").unwrap();
        assert!(matches!(fs.lookup(&dir, b"inside"), Err(Error::Encrypted)));
        let names: Vec<_> = fs.read_dir(&dir).unwrap().collect();
        assert!(matches!(names[..], [Err(Error::Encrypted)]), "{names:?}");
        // What has a number but no name that can be read is there.
        assert_eq!(fs.inode(inside).unwrap().size, 10);
        let walk = fs.walk(&fs.root().unwrap()).unwrap();
        let (met, errors): (Vec<_>, Vec<_>) = walk.partition(|met| met.inode.is_ok());
        assert_eq!(met.len(), 5, "file, plain, dir, link, lost+found");
        assert!(matches!(&errors[..], [one] if one.path == b"dir"), "{errors:?}");
    }
}

/// A file system in which one directory does not distinguish case was refused as a whole.
#[test]
fn names_are_found_whatever_their_case_where_case_does_not_matter() {
    if !can_make("names_are_found_whatever_their_case_where_case_does_not_matter") {
        return;
    }
    let folder = folder();
    let mut names: Vec<String> = (0..600).map(|n| format!("dir/Some Name {n}")).collect();
    names.push("dir/\u{c9}t\u{e9}".to_owned());
    names.push("File".to_owned());
    let image = image(folder.path(), "casefold", &names);
    set_flags(&image, "dir", CASEFOLDED);
    let all_found = |is_indexed: bool| {
        let fs = open(&image);
        let dir = fs.resolve(b"dir").unwrap();
        assert_eq!(dir.is_indexed(), is_indexed);
        assert_eq!(fs.read_dir(&dir).unwrap().filter_map(Result::ok).count(), 601);
        for n in 0..600 {
            let found = |name: String| fs.lookup(&dir, name.as_bytes()).unwrap();
            let number = found(format!("Some Name {n}")).expect("as it is written");
            assert_eq!(found(format!("sOME nAME {n}")), Some(number));
        }
        let ete = |name: &str| fs.lookup(&dir, name.as_bytes()).unwrap();
        assert!(ete("\u{c9}t\u{e9}").is_some());
        assert_eq!(ete("\u{e9}T\u{c9}"), ete("\u{c9}t\u{e9}"));
        assert_eq!(ete("Some Name 600"), None);
        // The root distinguishes case.
        assert!(matches!(fs.resolve(b"file"), Err(Error::NotFound)));
        assert!(fs.resolve(b"File").is_ok());
    };
    all_found(false);
    // Makes an index, by the hashes of folded names. It ends with 1 for what it has changed.
    let _ = output(Command::new("e2fsck").arg("-fyD").arg(&image));
    all_found(true);
}
