//! The note that a disk image in a format, or an archive, is served as it is.
//!
//! Only prints a note on stderr, and sends no request to a store.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use foreread_ext4::{ForeignFormat, HEAD_LEN};

use foreread_cli::store;

/// Clients of a server that interprets formats, such as qemu-nbd, see the disk inside; here they
/// get the bytes of the file.
pub(super) fn note_container(target: &Path) {
    if store::url_of(target).is_some() {
        return;
    }
    let mut head = vec![0; HEAD_LEN];
    let read = File::open(target).and_then(|file| file.read_at(&mut head, 0));
    let Ok(len) = read else { return };
    let format = ForeignFormat::of_head(&head[..len]).filter(|format| format.is_container);
    let Some(ForeignFormat { name, remedy, .. }) = format else { return };
    // The line is lost if stderr is closed.
    let _ = writeln!(
        io::stderr(),
        "foreread: {}: is {name}, and clients get its bytes as they are; to serve the contents, \
         {remedy}",
        target.display()
    );
}
