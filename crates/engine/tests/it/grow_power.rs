//! Power cuts of a disk with a cache, while a file on it grows, shrinks and is appended to by
//! several threads: what was acknowledged is there, and the length is one that the file had.

#![allow(clippy::cast_possible_truncation, reason = "a small file")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use crate::growing;
use crate::recorded;
use crate::support;

use foreread::testing::VolatileDisk;
use foreread::{Engine, File, IoBackend, OpenOptions, WriteMode};
use growing::{Books, Crew, Note};
use recorded::{Recorded, recorded};
use support::{Watchdog, wait_until_idle};

const CUTS: u64 = 200;
const THREADS: u32 = 4;

fn engine() -> Recorded {
    recorded(Engine::builder().memory(1 << 20).io_backend(IoBackend::Threads))
}

fn open(engine: &Engine, device: &Arc<VolatileDisk>, mode: WriteMode) -> File {
    let options = OpenOptions::new().write(true).write_mode(mode).volatile(Arc::clone(device));
    engine.open_with("a file of a test", &options).expect("threads know it")
}

#[test]
fn what_was_acknowledged_survives_200_power_cuts() {
    let _watchdog = Watchdog::new("what_was_acknowledged_survives_200_power_cuts");
    let device = VolatileDisk::file(Vec::new());
    let engine = engine();
    let (books, is_over) = (Mutex::new(Books::new()), AtomicBool::new(false));
    let known = || books.lock().expect("a thread that panics ends the test").clone();
    let note = |note: Note| books.lock().expect("a thread that panics ends the test").note(note);
    let crew = Crew {
        files: [WriteMode::WriteBack, WriteMode::Fua].map(|mode| open(&engine, &device, mode)),
        epoch: RwLock::new(0),
        note: &note,
        first_seq: 0,
        is_over: &|| is_over.load(Ordering::SeqCst),
    };
    let (mut lost, mut shorter) = (0, 0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let crew = &crew;
            scope.spawn(move || crew.work(thread, u64::from(thread) + 1));
        }
        // However a cut ends, the threads do.
        let _over = Over(&is_over);
        for seed in 0..CUTS {
            // Some work between one cut and the next.
            let sectors = device.sectors_written() + 40;
            device.wait_written(sectors);
            let before = known();
            let bytes = device.cut(seed);
            let after = known();
            before.check(&after, &bytes, &format!("cut {seed}"));
            let newest = device.newest();
            lost += u64::from(newest != bytes);
            shorter += u64::from(newest.len() != bytes.len());
            if seed % 20 == 0 {
                begin_again(&bytes);
            }
        }
    });
    assert!(lost > CUTS / 2, "{lost} cuts found something not durable");
    assert!(shorter > CUTS / 10, "{shorter} cuts found another length than the newest");
    let known = known();
    assert!(known.last_epoch() > 10, "{} changes of length", known.last_epoch());
    assert!(known.acknowledged > 10 * CUTS, "{} acknowledgements", known.acknowledged);
    crew.files[0].sync_data().expect("the device is fine");
    assert_eq!(device.cut(0), device.newest(), "all is durable now");
    drop(crew);
    wait_until_idle(&engine);
}

/// After the cut a new engine finds the same file, and goes on at its end.
fn begin_again(bytes: &[u8]) {
    let (device, engine) = (VolatileDisk::file(bytes.to_vec()), engine());
    let file = open(&engine, &device, WriteMode::Fua);
    assert_eq!(file.len(), bytes.len() as u64);
    let mut got = vec![0xff; bytes.len()];
    assert_eq!(file.read_at(&mut got, 0).expect("bytes"), got.len());
    assert!(got == bytes);
    assert_eq!(file.append(&[7; 5000]).expect("room"), bytes.len() as u64);
    let want = [bytes, &[7; 5000]].concat();
    assert!(device.cut(1) == want, "a FUA write makes the length durable, too");
}

/// Ends the threads also when a check panics.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
