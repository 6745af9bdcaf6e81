//! `blkid` on a stick of 505 KiB: the effect of read-ahead on two small reads.

use foreread_core::geometry::{DEFAULT_WINDOW, LimitRule, readahead_limit, scaled_down};
use foreread_core::prefetch::Policy;
use foreread_core::sched::Op;
use foreread_core::units::Nanos;

use crate::device::DeviceParams;
use crate::policy;
use crate::record::RecordMode;
use crate::scenario::{PolicyName, RuleName, Scenario};
use crate::seeds::table::{SeedCell, SeedProgress, SeedTable, SeedVerdict};
use crate::size::Size;
use crate::workload::Workload;
use crate::workload::sequential::AdviceName;

/// A way to read the stick, and the pages implied by the policy's rules.
#[derive(Clone, Copy)]
struct BlkidCase {
    name: &'static str,
    policy: Policy,
    change: CaseChange,
    /// Pages that the device reads: see the notes.
    pages: u64,
    /// Pages that the reader waits for.
    waited: u64,
    /// KiB given in the seed's text.
    told_kib: Option<f64>,
}

#[derive(Clone, Copy)]
enum CaseChange {
    None,
    /// Window limited by the device size, on a device with this largest command.
    Limit(Size),
    Random,
    Lseek,
}

const SMALL: CaseChange = CaseChange::Limit(Size(foreread_core::units::ByteCount(4096)));
const LARGE: CaseChange = CaseChange::Limit(Size(foreread_core::units::ByteCount(64 << 10)));

const fn way(name: &'static str, policy: Policy, change: CaseChange, pages: [u64; 2]) -> BlkidCase {
    let [pages, waited] = pages;
    BlkidCase { name, policy, change, pages, waited, told_kib: None }
}

const fn told(way: BlkidCase, told_kib: f64) -> BlkidCase {
    BlkidCase { told_kib: Some(told_kib), ..way }
}

const WAYS: [BlkidCase; 11] = [
    told(way("128K, linux-2.6.28", policy::LINUX_2_6_28, CaseChange::None, [28, 12]), 48.0),
    told(way("128K, linux-2.6.31", policy::LINUX_2_6_31, CaseChange::None, [28, 12]), 48.0),
    told(way("128K, linux-6", Policy::Linux6, CaseChange::None, [28, 12]), 48.0),
    way("limited, linux-2.6.28", policy::LINUX_2_6_28, LARGE, [6, 5]),
    way("limited, linux-2.6.31", policy::LINUX_2_6_31, LARGE, [6, 5]),
    way("limited, linux-6, commands of 4K", Policy::Linux6, SMALL, [5, 5]),
    way("limited, linux-6, commands of 64K", Policy::Linux6, LARGE, [8, 5]),
    way("RANDOM, linux-2.6.28", policy::LINUX_2_6_28, CaseChange::Random, [5, 5]),
    way("RANDOM, linux-2.6.31", policy::LINUX_2_6_31, CaseChange::Random, [5, 5]),
    way("RANDOM, linux-6", Policy::Linux6, CaseChange::Random, [5, 5]),
    way("lseek rule, linux-2.6.31", policy::LINUX_2_6_31, CaseChange::Lseek, [9, 9]),
];

pub(super) fn table(progress: SeedProgress<'_>) -> SeedTable {
    progress("000 blkid");
    let mut cells = Vec::new();
    let mut right = 0;
    for way in &WAYS {
        let BlkidFigures { pages, busy_s, wait_s, waited_kib } = way.run();
        let kib = match way.told_kib {
            Some(seed) => SeedCell::new(way.name, "waited for, KiB", seed, waited_kib),
            None => SeedCell::ours_only(way.name, "waited for, KiB", waited_kib),
        };
        cells.push(kib);
        cells.push(SeedCell::ours_only(way.name, "read, pages", pages as f64));
        cells.push(SeedCell::ours_only(way.name, "busy s", busy_s));
        cells.push(SeedCell::ours_only(way.name, "wait s", wait_s));
        let waits_right = (waited_kib - 4.0 * way.waited as f64).abs() < 0.001;
        right += usize::from(pages == way.pages && waits_right);
    }
    let told = cells.iter().filter(|cell| cell.seed.is_some());
    let as_told = told.clone().all(|cell| {
        cell.error_percent.expect("a cell with a published figure has an error").abs() < 0.01
    });
    let why = format!(
        "{right} of {} ways read and wait as the rules say; the seed's 48 kB is what the reader \
         waits for",
        WAYS.len()
    );
    let verdict = SeedVerdict { holds: right == WAYS.len() && as_told, why };
    let title = "blkid on 505 KiB at 15 kB/s: 1 KiB from 0, then 16 KiB from 1536".into();
    let notes = NOTES.map(String::from).to_vec();
    SeedTable { seed: "000", table: "000_blkid", title, cells, notes, verdict }
}

const NOTES: [&str; 5] = [
    "128K: windows 0+4-3, 4+8-8 at page 1, and 12+16-16 at page 4, which carries the second \
     window's marker: 28 pages. The seed counts the first two, 48 KiB; the third is sent as well, \
     but the reader does not wait for it. It keeps the stick busy for another 4.4 s.",
    "limited: the size allows a window of one page. linux-2.6.28 reads pages 0 to 4 one by one, \
     and one page ahead; linux-2.6.31 starts with two pages, because its window would hit its own \
     marker.",
    "limited, linux-6: a read larger than the window may be as large as a command of the device; \
     with commands of 64K the 16 KiB are one request, 1+4-2, whose marker triggers three more \
     pages.",
    "RANDOM is the advice that blkid has given since then; the lseek rule is the one proposed in \
     the thread. It avoids the first window but not the second.",
    "No parameter is fitted: 15 kB/s is the reported rate.",
];

struct BlkidFigures {
    pages: u64,
    busy_s: f64,
    wait_s: f64,
    waited_kib: f64,
}

impl BlkidCase {
    fn run(&self) -> BlkidFigures {
        let mut scenario = Scenario::built_in(include_str!("../../../scenarios/000-blkid.toml"));
        scenario.cache.policy = PolicyName(self.policy);
        let stick = scenario.device.get_mut("stick").expect("the built-in scenario has this entry");
        let DeviceParams::Flash(chips) = &mut stick.model.get_mut().model else {
            panic!("it is flash")
        };
        let Workload::Blkid(blkid) = scenario.process[0].run.get_mut() else {
            panic!("it is blkid")
        };
        match self.change {
            CaseChange::None => {}
            CaseChange::Limit(max_command) => {
                let limit = readahead_limit(chips.capacity.0, LimitRule::Published);
                let window = Size(scaled_down(DEFAULT_WINDOW, limit));
                scenario.cache.max_window = Some(window.into());
                chips.max_command = max_command;
            }
            CaseChange::Random => blkid.advice = AdviceName::Random,
            CaseChange::Lseek => scenario.cache.rules = vec![RuleName::Lseek],
        }
        let kb_per_s = chips.mb_per_s * 1e3;
        let mut building = scenario
            .build(RecordMode::Hash)
            .expect("the scenario is part of the program and was checked");
        // Another process keeps the run alive until the read-ahead arrives.
        building.run.spawn("rest", async move |process| process.until(Nanos(REST_NS)).await);
        building.run.go(Nanos(u64::MAX));
        let ran = building.run.end();
        let (stick, wait_s) = (&ran.devices[0], ran.processes[0].seconds(ran.end));
        BlkidFigures {
            pages: stick.bytes(Op::Read).pages_up().0,
            busy_s: stick.busy_seconds(ran.end),
            wait_s,
            waited_kib: wait_s * kb_per_s * 1e3 / 1024.0,
        }
    }
}

/// Longer than reading the whole stick.
const REST_NS: u64 = 60_000_000_000;
