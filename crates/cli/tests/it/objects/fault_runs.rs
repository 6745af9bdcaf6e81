//! A real server behind a proxy whose answers go wrong at random: right bytes, or one clear error.
//!
//! `./dev faults RUNS [SEED]` makes more runs than the test does.

use std::time::Duration;

use foreread::{Engine, File};
use foreread_object::{StoreOptions, Stores};

use crate::images::pattern;
use crate::objects::fault_proxy::{FaultProxy, Wrong};
use crate::objects::weed::weed;

const LEN: usize = (4 << 20) + 777;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// What a run has come to.
#[derive(Debug, Default)]
struct Ends {
    right: u64,
    failed: u64,
    faults: u64,
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn a_real_server_behind_faults_brings_right_bytes_or_one_error() {
    let Some(weed) = weed("a_real_server_behind_faults_brings_right_bytes_or_one_error") else {
        return;
    };
    let right = pattern(LEN);
    let other: Vec<u8> = right.iter().map(|byte| byte ^ 0x5a).collect();
    weed.put("faults/object", &right);
    weed.put("faults/other", &other);
    let paths = ("/tests/faults/object", "/tests/faults/other");
    let proxy = FaultProxy::start(weed.port(), paths.0, paths.1);
    let url = format!("http://127.0.0.1:{}{}", proxy.port(), paths.0);
    let options = StoreOptions {
        retries: 2,
        first_pause: Duration::from_millis(1),
        deadline: Duration::from_millis(250),
        ..StoreOptions::default()
    };
    let stores = Stores::new(options);
    let (runs, seed) = (from_environment("OBJECT_FAULTS", 60), from_environment("SEED", 1));
    let (mut random, mut ends) = (Random(seed), Ends::default());
    let mut opened: Option<(Engine, File)> = None;
    for run in 0..runs {
        // With 1 MiB of memory most reads miss; now and then nothing is cached.
        if run % 50 == 0 || opened.is_none() {
            proxy.set([]);
            let engine = Engine::builder().memory(1 << 20).build().unwrap();
            // Retries if the machine was busy for longer than the deadline.
            let object = (0..100).find_map(|_| stores.open(&url).ok()).expect("it is there");
            let file = engine.open_source(object).unwrap();
            opened = Some((engine, file));
        }
        let (_, file) = opened.as_ref().expect("it was opened");
        let faults: Vec<Wrong> = (0..random.below(6)).map(|_| wrong(&mut random)).collect();
        ends.faults += faults.len() as u64;
        proxy.set(faults.iter().copied());
        for _ in 0..4 {
            let start = random.below(LEN - 70_000);
            let mut got = vec![0; 1 + random.below(70_000)];
            let what = format!("run {run}, SEED={seed}, {faults:?}, {} at {start}", got.len());
            match file.read_at(&mut got, start as u64) {
                Ok(len) => {
                    assert!(got[..len] == right[start..start + len], "{what}: other bytes");
                    assert_eq!(len, got.len(), "{what}");
                    ends.right += 1;
                }
                Err(error) => {
                    let error = error.to_string();
                    let is_clear = error.contains(&url) && error.lines().count() == 1;
                    assert!(is_clear && error.len() < 1000, "{what}: {error}");
                    ends.failed += 1;
                }
            }
        }
    }
    proxy.set([]);
    let (engine, file) = opened.expect("there were runs");
    let mut got = vec![0; LEN];
    let is_read = (0..100).any(|_| file.read_at(&mut got, 0).is_ok_and(|len| len > 0));
    assert!(is_read && got[..4096] == right[..4096], "without faults it reads");
    drop(file);
    // A frame that is lost hangs here.
    while engine.frames().is_ok_and(|(idle, all)| idle < all) {
        std::thread::yield_now();
    }
    println!("{runs} runs, SEED={seed}: {ends:?}, {:?}", stores.counters());
    assert!(ends.right > 0 && ends.failed > 0 && ends.faults > 0, "{ends:?}");
}

/// One fault; the slow ones take a deadline each, and are rare.
fn wrong(random: &mut Random) -> Wrong {
    let wrong = Wrong::ALL[random.below(Wrong::ALL.len())];
    if wrong == Wrong::TooSlow && random.below(4) > 0 { Wrong::Cut } else { wrong }
}
