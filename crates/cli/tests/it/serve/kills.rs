//! The kill test: what was flushed is there after `kill -9`, wherever that hits.
//!
//! ```text
//!   client   write write FLUSH write FUA-write zero FLUSH write write ..
//!   answers    ok    ok    ok    ok      ok      ok   |  ?
//!                                                   kill
//!   file     each sector: as flushed, or as one later write of it has left it, whole
//! ```
//!
//! The moment is a count of answers, from a seed. Requests of two connections are on their way
//! then, so it hits whatever the server does.

use std::fs;
use std::path::{Path, PathBuf};

use foreread_serve::client::Session;
use rustix::fs::{Advice, FallocateFlags};
use rustix::io::Errno;

use crate::serve::disk::{Ask, Disk, Kind, SECTOR};
use crate::serve::overlays::Overlaid;
use crate::serve::server::Place;

#[test]
fn what_was_flushed_survives_20_kills() {
    survives(1, 20);
}

#[test]
#[ignore = "half a minute; ./dev test runs it"]
fn what_was_flushed_survives_200_kills() {
    survives(2, 200);
}

/// The overlay of an object that is all zeroes.
#[test]
fn what_was_flushed_into_an_overlay_survives_8_kills() {
    let disk = Overlaid::new(&vec![0; DISK]);
    let mut run = Run::new(Place::new(), disk.url.clone(), 3);
    run.overlaid = Some(disk);
    run.until_kills(8);
}

fn survives(seed: u64, kills: u64) {
    let place = Place::new();
    let path = place.path("disk");
    fs::write(&path, vec![0; DISK]).unwrap();
    Run::new(place, path, seed).until_kills(kills);
}

fn check(run: &Run, kills: u64) {
    let Disk { flushed, lost, .. } = run.disk;
    // It is a test of nothing if all was lost each time, or nothing was ever on its way.
    assert!(flushed > kills * 10, "{flushed} writes were flushed in {kills} kills");
    assert!(lost > kills / 4, "{lost} writes were lost in {kills} kills");
}
struct Run {
    place: Place,
    path: PathBuf,
    /// If it is an object with an overlay.
    overlaid: Option<Overlaid>,
    disk: Disk,
    random: Random,
    kills: u64,
}

impl Run {
    fn new(place: Place, path: PathBuf, seed: u64) -> Self {
        let (disk, random) = (Disk::new(SECTORS), Random(seed));
        Self { place, path, overlaid: None, disk, random, kills: 0 }
    }

    fn until_kills(&mut self, kills: u64) {
        while self.kills < kills {
            self.until_a_kill();
        }
        check(self, kills);
    }

    fn until_a_kill(&mut self) {
        let flags = self.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let server = match &self.overlaid {
            Some(overlaid) => overlaid.serve(&flags),
            None => self.place.serve(&self.path, &flags),
        };
        let mut sessions = [server.session(), server.session()];
        let mut waiting = [0_usize; 2];
        let mut answers_left = self.random.below(250);
        while answers_left > 0 {
            let most = 1 + self.random.index(24);
            while waiting.iter().sum::<usize>() < most {
                let at = self.random.index(2);
                self.ask(&mut sessions[at]);
                waiting[at] += 1;
            }
            let at = usize::from(waiting[1] > waiting[0]);
            let done = self.answers(&mut sessions[at]);
            waiting[at] -= done;
            answers_left = answers_left.saturating_sub(done as u64);
        }
        server.kill();
        self.kills += 1;
        let context = format!("kill {} with {flags:?}", self.kills);
        let found = match &self.overlaid {
            Some(overlaid) => {
                settled(&overlaid.overlay);
                overlaid.contents()
            }
            None => settled(&self.path),
        };
        self.disk.look_after_a_kill(&found, &context);
    }

    fn ask(&mut self, session: &mut Session) {
        let kind = match self.random.below(20) {
            0..10 => Kind::Write { fua: false },
            10 => Kind::Write { fua: true },
            11..13 => Kind::Zero { fua: self.random.below(3) == 0 },
            13 => Kind::Flush,
            _ => Kind::Read,
        };
        // Most are smaller than a page, or are no whole pages.
        let sectors = match self.random.below(4) {
            0 => 1 + self.random.below(256),
            1 => 8 * (1 + self.random.below(4)),
            _ => 1 + self.random.below(12),
        };
        let start = self.random.below(SECTORS - sectors + 1);
        let Ask { request, payload } = self.disk.ask(kind, start..start + sectors);
        session.send(&[(request, &payload)]).unwrap();
    }

    fn answers(&mut self, session: &mut Session) -> usize {
        let disk = &mut self.disk;
        session.receive(|cookie, answer| disk.answered(cookie, answer)).unwrap()
    }

    fn flags(&mut self) -> Vec<String> {
        let memory = ["1M", "2M", "8M"][self.random.index(3)];
        let age = ["1ms", "20ms", "3600s"][self.random.index(3)];
        let scheduler = ["scheduler=deadline", "scheduler=noop"][self.random.index(2)];
        let mut flags = vec!["--memory", memory, "--dirty-age", age, "--set", scheduler];
        if self.random.below(4) == 0 && self.overlaid.is_none() {
            flags.extend(["--delay", "latency=300us,parallel=2"]);
        }
        if self.random.below(3) == 0 {
            flags.extend(["--set", "dirty_limit=65536"]);
        }
        flags.into_iter().map(str::to_owned).collect()
    }
}

/// What is in the file once the kernel is done: it may still write for a process that is gone, and
/// what came after we have looked would be a surprise later.
fn settled(path: &Path) -> Vec<u8> {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    // It changes nothing, and file systems wait for what goes around their page cache first.
    let len = file.metadata().unwrap().len();
    match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, len) {
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(errno) => panic!("{errno}"),
    }
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    fs::read(path).unwrap()
}

/// `SplitMix` (Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::serve::disk::mix(self.0) % limit
    }

    fn index(&mut self, limit: u32) -> usize {
        usize::try_from(self.below(limit.into())).unwrap()
    }
}

/// Four times the smallest memory.
const DISK: usize = 4 << 20;
const SECTORS: u64 = (DISK / SECTOR) as u64;
