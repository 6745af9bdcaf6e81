//! What a server learnt of its device is where the next one begins.
//!
//! In:    servers of one file, on a device that is slowed down.
//! Out:   a record in the directory that was given, and none in the system's.
//! Never: a server that does not start because of a record.

use std::fs;
use std::path::Path;

use crate::serve::server::foreread;

/// Serves the file, reads it, and stops; returns what was said on stderr.
fn served(directory: &Path, flags: &[&str]) -> String {
    let file = directory.join("disk");
    fs::File::create(&file).unwrap().set_len(24 << 20).unwrap();
    let read = "import socket, struct, os\n\
                s = socket.socket(socket.AF_UNIX); s.connect(os.environ['unixsocket'])\n\
                f = s.makefile('rwb'); f.read(18); f.write(struct.pack('>I', 1))\n\
                f.write(b'IHAVEOPT' + struct.pack('>II', 1, 0)); f.flush(); f.read(134)\n\
                for at in range(0, 24 << 20, 1 << 16):\n\
                \x20   f.write(struct.pack('>IHHQQI', 0x25609513, 0, 0, 7, at, 1 << 16)); f.flush()\n\
                \x20   assert len(f.read(16 + (1 << 16))) == 16 + (1 << 16)\n";
    let mut command = foreread(&["serve"]);
    command.arg(&file).args(["--read-only", "--delay", "latency=2ms,parallel=1"]).args(flags);
    command.args(["--run", "python3 -c \"$READ\""]).env("READ", read);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn the_record_is_where_it_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let records = directory.path().join("records");
    let flags = ["--remember", records.to_str().unwrap()];
    let only = || {
        let entries: Vec<_> =
            fs::read_dir(&records).unwrap().map(|it| it.unwrap().path()).collect();
        let [record] = &entries[..] else { panic!("{entries:?}") };
        record.clone()
    };
    served(directory.path(), &["--no-remember"]);
    assert!(!records.exists());
    served(directory.path(), &flags);
    let record = only();
    assert!(fs::read_to_string(&record).unwrap().contains("\nwindow_kib = "));
    // One line says what is wrong with it, and it is written anew.
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, &text[..text.len() - 3]).unwrap();
    let said = served(directory.path(), &flags);
    assert_eq!(said.lines().filter(|line| line.contains("it is truncated")).count(), 1, "{said}");
    assert!(only() == record && fs::read_to_string(&record).unwrap().ends_with('\n'));
    // What another program wrote stays.
    fs::write(&record, "a diary\n").unwrap();
    let said = served(directory.path(), &flags);
    assert_eq!(
        said.lines().filter(|line| line.contains("move the file away")).count(),
        1,
        "{said}"
    );
    assert_eq!(fs::read_to_string(&record).unwrap(), "a diary\n");
}
