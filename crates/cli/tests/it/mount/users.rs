//! Access by other users than the one that has mounted.
//!
//! In:    a filled image, users with other numbers.
//! Out:   what each may do with each file and learn of it: as on the kernel's own mount.
//! Never: a way past a mode, an owner or an ACL.

use std::path::Path;

use crate::common::{Command, Need, needs, output};
use crate::images::{ABLE, Mounted, fill, folder, make};
use crate::mount::mounted::{Mount, can_compare, can_fuse};

/// The Python that all users may run.
const PYTHON: &str = "/usr/bin/python3";

/// Says of each file below the directory it runs in what one may do, and which attributes it has.
const LOOKS: &str = r#"
import errno, os

def said(question, *arguments):
    try:
        return question(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

def names(path):
    found = said(lambda: os.listxattr(path, follow_symlinks=False))
    return sorted(found) if isinstance(found, list) else found

for folder, folders, files in os.walk("."):
    for name in folders + files:
        path = os.path.join(folder, name)
        if os.path.islink(path) or "/many/" in path:
            continue
        may = [said(os.access, path, how) for how in (os.R_OK, os.W_OK, os.X_OK)]
        first = said(lambda: open(path, "rb").read(1)) if os.path.isfile(path) else None
        print(path, may, first, names(path))
        for attribute in "user.small", "trusted.third", "security.fourth", "system.posix_acl_access":
            print(path, attribute, said(lambda: os.getxattr(path, attribute)))
"#;

/// What a user finds below a directory.
fn looked(at: &Path, user: u32) -> Vec<String> {
    // By way of a directory that is open: the ones above are ours alone.
    let look = format!(
        "cd \"$0\" && exec setpriv --reuid {user} --regid {user} --clear-groups {PYTHON} -c \"$1\""
    );
    let mut sh = Command::new("sh");
    sh.args(["-c", &look]).arg(at).arg(LOOKS);
    let mut lines: Vec<_> = output(&mut sh).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn others_may_what_modes_owners_and_acls_let_them() {
    let test = "others_may_what_modes_owners_and_acls_let_them";
    let tools = [PYTHON, "setpriv"];
    if !can_compare(test) || !tools.into_iter().all(|tool| needs(Need::Tool(tool), test)) {
        return;
    }
    let folder = folder();
    let image = make(folder.path(), 64, &[]);
    let mounted = Mounted::new(&image, "rw");
    fill(&mounted.0, ABLE);

    let kernel = mounted.into_read_only();
    let mount = Mount::new(&image, &["--allow-other"]);
    // Root; a user that an ACL names; the owner of a file; a user that owns nothing.
    for user in [0, 1000, 70_000, 65_534] {
        let (theirs, ours) = (looked(&kernel.0, user), looked(&mount.dir, user));
        assert!(theirs.len() > 300, "{user}: {}", theirs.len());
        let differs = theirs.iter().zip(&ours).find(|(theirs, ours)| theirs != ours);
        assert_eq!(differs, None, "user {user}");
        assert_eq!(theirs.len(), ours.len());
    }
    assert_eq!(mount.end(), "");
}

#[test]
fn others_do_not_come_unless_they_are_let() {
    let test = "others_do_not_come_unless_they_are_let";
    if !can_fuse(test) || !needs(Need::Tool("setpriv"), test) {
        return;
    }
    let folder = folder();
    let mount = Mount::new(&make(folder.path(), 16, &[]), &[]);
    let come = "cd \"$0\" && exec setpriv --reuid 1000 --regid 1000 --clear-groups ls lost+found";
    let ls = Command::new("sh").args(["-c", come]).arg(&mount.dir).output().unwrap();
    assert!(!ls.status.success());
    assert!(String::from_utf8_lossy(&ls.stderr).contains("Permission denied"), "{ls:?}");
    assert_eq!(mount.end(), "");
}
