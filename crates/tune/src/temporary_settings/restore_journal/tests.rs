//! The journals of killed runs, and of runs whose device is gone.

use super::*;

#[test]
fn what_a_killed_run_has_left_is_named() {
    let root = tempfile::tempdir().expect("a folder");
    let sys = SystemRoot::at(root.path());
    let setting = |kib| DeviceSetting::read_ahead_kb("sda", kib);
    let file = sys.path(setting(0).file());
    fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
    fs::write(&file, "128\n").expect("it is written");
    let mut notes = RestoreJournal::new(&sys, "sda").expect("notes");
    notes.before(&sys, &setting(64)).expect("it is noted");
    fs::write(&file, "64\n").expect("it is written");
    assert_eq!(left_behind(&sys), [], "its run is alive");
    drop(notes);
    assert_eq!(left_behind(&sys), [setting(128)]);
    fs::write(&file, "256\n").expect("it is written");
    assert_eq!(left_behind(&sys), [], "it was set by other means since");
    fs::write(&file, "128\n").expect("it is written");
    assert_eq!(left_behind(&sys), [], "it is as before");
}

/// `doctor` opened whatever had the name of a journal, and waited for the writer of a pipe.
#[test]
fn a_pipe_in_place_of_a_journal_is_skipped() {
    let root = tempfile::tempdir().expect("a folder");
    let sys = SystemRoot::at(root.path());
    fs::create_dir_all(sys.path(FOLDER)).expect("it is made");
    let pipe = sys.path(FOLDER).join("held-sda.notes");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    let (done, left) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(left_behind(&sys)));
    assert_eq!(left.recv_timeout(Duration::from_secs(60)).expect("it does not block"), []);
}

/// The name of a backing device is given to the next mount: a killed run's notes set back the
/// window of another file system.
#[test]
fn another_mount_with_the_same_name_keeps_its_window() {
    let root = tempfile::tempdir().expect("a folder");
    let sys = SystemRoot::at(root.path());
    let attribute = "/sys/class/bdi/0:52/read_ahead_kb".to_owned();
    let setting = |kib: &str| DeviceSetting {
        device: "0:52".to_owned(),
        attribute: attribute.clone(),
        value: kib.to_owned(),
    };
    let file = sys.path(&attribute);
    let folder = file.parent().expect("a folder");
    fs::create_dir_all(folder).expect("it is made");
    fs::write(&file, "15360\n").expect("it is written");
    let mut notes = RestoreJournal::new(&sys, "0:52").expect("notes");
    notes.before(&sys, &setting("128")).expect("it is noted");
    // Its number must not be free while the next one is made.
    fs::rename(folder, sys.path("/gone")).expect("it goes");
    fs::create_dir_all(folder).expect("it is made");
    fs::write(&file, "128\n").expect("it is written");
    assert!(notes.before(&sys, &setting("64")).is_err(), "it is another one");
    drop(notes);
    let restored = restore_all(&sys);
    assert_eq!(restored, Restored::default());
    assert_eq!(sys.number(&attribute), Some(128));
}
