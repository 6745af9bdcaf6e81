//! What an engine learnt of a device is where the next one begins.
//!
//! In:    a file on a device that is slowed down, read by one engine after the other.
//! Out:   a record of the device; what becomes of records that are not one.
//! Never: how much time it saves: `./dev bench streams` measures that.

use std::fs;
use std::path::{Path, PathBuf};

use foreread::LearntDevice;
use foreread::Pages;
use foreread::lab::Delay;
use foreread::{DeviceRecord, Engine, File, OpenOptions};

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let file = fs::File::create(directory.path().join("data")).expect("a file");
        file.set_len(LEN).expect("a file of zeros");
        Self { directory }
    }

    fn records(&self) -> PathBuf {
        self.directory.path().join("state/devices")
    }

    fn record(&self) -> PathBuf {
        self.records().join("disk-7-delay-latency-2ms-parallel-1.learnt")
    }

    fn engine(&self) -> Engine {
        Engine::builder().memory(64 << 20).remember(self.records()).build().expect("an engine")
    }

    fn open(&self, engine: &Engine) -> File {
        let delay: Delay = "latency=2ms,parallel=1".parse().expect("a delay");
        let options = OpenOptions::new().device_name("disk/7").delay(delay);
        engine.open_with(self.directory.path().join("data"), &options).expect("a file")
    }

    /// An engine reads the file, and ends.
    fn run(&self) -> DeviceRecord {
        let engine = self.engine();
        let file = self.open(&engine);
        let mut to = vec![0; 64 << 10];
        for offset in (0..LEN).step_by(to.len()) {
            file.read_exact_at(&mut to, offset).expect("it is read");
        }
        file.device().record()
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("a record")
}

const LEN: u64 = 48 << 20;

#[test]
fn the_next_engine_begins_with_what_this_one_learnt() {
    let place = Place::new();
    assert_eq!(place.run(), DeviceRecord::New);
    let record = text(&place.record());
    assert!(
        record.contains("\nversion = 1\n") && record.contains("\nper_request_ns = "),
        "{record}"
    );
    assert!(matches!(place.run(), DeviceRecord::Restored { .. }));
    assert_eq!(fs::read_dir(place.records()).expect("a directory").count(), 1);
}

#[test]
fn an_engine_begins_with_what_was_measured_without_one() {
    let place = Place::new();
    let name = "disk-7-delay-latency-2ms-parallel-1";
    let learnt = LearntDevice { window: Pages(256), cost: None };
    let path = foreread::write_device_record(place.records(), name, learnt).expect("it is written");
    assert_eq!(path, place.record());
    assert!(text(&path).contains("\nwindow_kib = 1024\n"), "{}", text(&path));
    let engine = place.engine();
    assert!(matches!(place.open(&engine).device().record(), DeviceRecord::Restored { .. }));
    // What no device can be like is refused, and what is there stays.
    let wrong = LearntDevice { window: Pages(255), ..learnt };
    let error = foreread::write_device_record(place.records(), name, wrong).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(text(&path).contains("\nwindow_kib = 1024\n"));
}

#[test]
fn a_long_run_can_save_while_files_are_open() {
    let place = Place::new();
    let engine = place.engine();
    let file = place.open(&engine);
    engine.save_learnt().expect("there is nothing to save");
    assert!(!place.records().exists());
    let mut to = vec![0; 64 << 10];
    for offset in (0..LEN).step_by(to.len()) {
        file.read_exact_at(&mut to, offset).expect("it is read");
    }
    engine.save_learnt().expect("it is written");
    let first = text(&place.record());
    engine.save_learnt().expect("nothing has changed");
    assert_eq!(text(&place.record()), first);
    // Another process had the device at the same time, and was the last.
    let other = first.replace("saved = ", "saved = 1");
    fs::write(place.record(), &other).expect("it is written");
    drop((file, engine));
    assert!(matches!(place.run(), DeviceRecord::Restored { .. }));
}

#[test]
fn an_invalid_record_is_ignored_and_kept_if_foreign() {
    let place = Place::new();
    place.run();
    let record = text(&place.record());
    let cut = &record[..record.len() - 1];
    let lie = record.replace("min_parallel = ", "min_parallel = -");
    for (bad, is_replaced) in
        [(cut, true), (&lie, true), ("0.15 ms, I think\n", false), (&"x".repeat(1 << 20), false)]
    {
        fs::write(place.record(), bad).expect("it is written");
        let DeviceRecord::Ignored { path, why } = place.run() else { panic!("{bad:.99}") };
        assert!(path == place.record() && !why.is_empty());
        let now = text(&place.record());
        assert_eq!(now != bad, is_replaced, "{now:.99}");
    }
    let engine = place.engine();
    let file = place.open(&engine);
    file.read_exact_at(&mut vec![0; 16 << 20], 0).expect("it is read");
    let line = file.device().record().to_string();
    assert!(line.contains("too large") && line.contains("remove it"), "{line}");
}

#[test]
fn a_directory_that_cannot_be_made_is_told_by_save() {
    let place = Place::new();
    let engine = Engine::builder().remember(place.directory.path().join("data/devices"));
    let engine = engine.build().expect("an engine");
    let file = place.open(&engine);
    let mut to = vec![0; 64 << 10];
    for offset in (0..LEN).step_by(to.len()) {
        file.read_exact_at(&mut to, offset).expect("it is read");
    }
    let line = engine.save_learnt().expect_err("data is a file").to_string();
    assert!(line.contains("data/devices/disk-7"), "{line}");
}

#[test]
fn without_a_directory_nothing_is_remembered() {
    let place = Place::new();
    let engine = Engine::builder().build().expect("an engine");
    assert_eq!(place.open(&engine).device().record(), DeviceRecord::Off);
    engine.save_learnt().expect("there is nothing to do");
    // Neither is what the kernel's cache answers.
    let engine = place.engine();
    let options = OpenOptions::new().device_name("disk").buffered(true);
    let file = engine.open_with(place.directory.path().join("data"), &options).expect("a file");
    assert_eq!(file.device().record(), DeviceRecord::Off);
}
