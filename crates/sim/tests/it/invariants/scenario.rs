//! A random scenario: devices, schedulers, a cache, files, and processes that do all that there is.
//!
//! In:    a seed for its shape, another for what its processes draw.
//! Out:   the run, and what the processes counted.
//! Never: a process that waits for ever: what does not end is a bug.

use std::rc::Rc;

use foreread_core::path::{Config, DeviceId};
use foreread_core::prefetch::Rules;
use foreread_core::sched::{Class, SchedulerKind};
use foreread_core::units::{ByteCount, Nanos, Pages, Sector};
use foreread_sim::device::{DeviceParams, Flash, Hdd, Pick};
use foreread_sim::policy;
use foreread_sim::process::Process;
use foreread_sim::record::RecordMode;
use foreread_sim::rng::Rng;
use foreread_sim::run::{RunOutcome, SimFile, SimRun};
use foreread_sim::size::Size;

use super::process::{Does, FORGOTTEN, Life, ProcessShape, Tally, index, pick};

/// A scenario.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) config: Config,
    pub(crate) devices: Vec<DeviceShape>,
    /// Settings change while requests are queued.
    pub(crate) turns_knobs: bool,
    files: Vec<FileShape>,
    processes: Vec<ProcessShape>,
}

#[derive(Clone, Debug)]
pub(crate) struct DeviceShape {
    pub(crate) model: DeviceParams,
    pub(crate) scheduler: SchedulerKind,
    /// Whether requests of all classes come to it.
    pub(crate) has_classes: bool,
}

/// A file: its device, its start in pages, its length in bytes.
#[derive(Clone, Copy, Debug)]
struct FileShape {
    device: usize,
    page: u64,
    len: u64,
}

impl Shape {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::named(seed, "shape");
        let policy = policy::ALL[index(&mut rng, policy::ALL.len())];
        let flag = |rng: &mut Rng| rng.below(4) == 0;
        let more = pick(&mut rng, [1, 1, 1, 1 << 20, 16 << 20]);
        let config = Config {
            // From the least that there can be: reads then wait for frames, and windows are cut.
            memory: ByteCount((1 << 20) + rng.below(more)),
            policy,
            max_window: Pages(pick(&mut rng, [1, 4, 32, 32, 100, 256])),
            rules: Rules {
                lseek: flag(&mut rng),
                snap_eof: flag(&mut rng),
                backwards: flag(&mut rng),
                ..Rules::default()
            },
        };
        let device_count = 1 + index(&mut rng, 2);
        let devices: Vec<_> = (0..device_count).map(|_| DeviceShape::new(&mut rng)).collect();
        let file = |at: u64, rng: &mut Rng| {
            let longest = pick(rng, [20_000, 400_000, FILE_BYTES - 100 * 4096]);
            FileShape {
                device: index(rng, device_count),
                page: at * (FILE_BYTES / 4096) + rng.below(100),
                len: 1 + rng.below(longest),
            }
        };
        let mut files: Vec<_> = (0..4).map(|at| file(at, &mut rng)).collect();
        // There is one with places enough, and one process that goes to any of them: else the run's
        // seed could mean nothing.
        files.push(FileShape { len: FILE_BYTES - 100 * 4096, ..file(4, &mut rng) });
        let last = files.len() - 1;
        let mut processes: Vec<_> =
            (0..4 + rng.below(12)).map(|_| ProcessShape::new(&mut rng, &devices, &files)).collect();
        let anywhere = ProcessShape { does: Does::ReadAnywhere, file: last, ..processes[0] };
        processes.push(ProcessShape { times: 20, largest: 8192, ..anywhere });
        Self { config, devices, turns_knobs: rng.below(5) == 0, files, processes }
    }

    /// Runs it until nothing is left to do.
    pub(crate) fn run(&self, seed: u64, keep: RecordMode) -> (RunOutcome, Rc<Tally>) {
        let mut run = SimRun::new(self.config, seed, keep).unwrap();
        let device = |(at, shape): (usize, &DeviceShape)| {
            run.device(&format!("disk{at}"), &shape.model, &shape.scheduler).unwrap()
        };
        let devices: Vec<DeviceId> = self.devices.iter().enumerate().map(device).collect();
        let file = |shape: &FileShape| {
            run.file(devices[shape.device], Sector(shape.page * 8), ByteCount(shape.len))
        };
        let files: Vec<SimFile> = self.files.iter().map(file).collect();
        let tally = Rc::new(Tally::default());
        for (at, shape) in self.processes.iter().enumerate() {
            let life = Life {
                shape: *shape,
                file: files[shape.file],
                len: self.files[shape.file].len,
                start: Sector(self.files[shape.file].page * 8),
                device: devices[self.files[shape.file].device],
                is_forgotten: shape.file == FORGOTTEN,
                tally: Rc::clone(&tally),
            };
            let name = format!("process{at}");
            let own = name.clone();
            run.spawn(&name, async move |process: Process| {
                process.set_class(life.shape.class);
                let rng = process.rng(&own);
                life.live(&process, rng).await;
            });
        }
        if self.turns_knobs {
            self.turn_knobs(&mut run, &devices);
        }
        run.go(Nanos(u64::MAX));
        // What was read ahead may still be on its way.
        run.spawn("the end", async |process: Process| process.pass_ns(10_000_000_000_000).await);
        run.go(Nanos(u64::MAX));
        (run.end(), tally)
    }

    fn turn_knobs(&self, run: &mut SimRun, devices: &[DeviceId]) {
        for (step, (name, value)) in (1..20).zip(KNOBS.into_iter().cycle()) {
            run.go(Nanos(step * 7_000_000));
            for (device, shape) in devices.iter().zip(&self.devices) {
                if matches!(shape.scheduler, SchedulerKind::Deadline(_)) {
                    run.set_scheduler(*device, name, value).unwrap();
                }
            }
        }
    }
}

impl DeviceShape {
    fn new(rng: &mut Rng) -> Self {
        let depth = pick(rng, [1, 1, 2, 4, 32, 64]);
        let max_command = Size(ByteCount(4096 * pick(rng, [8, 32, 256])));
        let capacity = Size(ByteCount(1 << 30));
        let model = if rng.below(2) == 0 {
            DeviceParams::Hdd(Hdd {
                capacity,
                rpm: 7200.0,
                outer_mb_per_s: 120.0,
                inner_mb_per_s: 60.0,
                seek_min_ms: 0.8,
                seek_max_ms: 15.0,
                seek_root_share: 0.7,
                overhead_us: 50.0,
                max_command,
                depth,
                in_controller: pick(rng, [0, 0, 3]),
                pick: pick(rng, [Pick::Oldest, Pick::Nearest]),
                age_weight: pick(rng, [0.0, 0.5]),
                read_buffer: Size(ByteCount(pick(rng, [0, 1 << 20]))),
                read_on: Size(ByteCount(pick(rng, [0, 64 << 10]))),
                write_buffer: rng.below(2) == 0,
                buffer_overruns: rng.below(4) == 0,
            })
        } else {
            DeviceParams::Flash(Flash {
                capacity,
                mb_per_s: 200.0,
                overhead_us: 80.0,
                max_command,
                channels: pick(rng, [1, 4]),
                depth,
                stall_us: 0.0,
                stall_size: Size(ByteCount(0)),
                jitter: 0.0,
            })
        };
        let name = pick(rng, ["noop", "deadline", "deadline", "deadline", "deadline", "other"]);
        let others: Vec<_> =
            SchedulerKind::NAMES.iter().filter(|name| **name != "deadline").collect();
        let name = if name == "other" { others[index(rng, others.len())] } else { name };
        let mut scheduler = SchedulerKind::from_name(name).expect("a name of theirs");
        let has_classes = rng.below(4) == 0;
        if name == "deadline" {
            let rule = pick(rng, ["2002", "4.x", "mq"]);
            let number = |from: &[u64], rng: &mut Rng| from[index(rng, from.len())].to_string();
            for (name, value) in [
                ("rule", rule.to_owned()),
                ("read_expire", number(&[0, 2, 10, 10, 50, 500], rng)),
                ("write_expire", number(&[0, 50, 5000], rng)),
                ("fifo_batch", number(&[0, 1, 4, 16, 64], rng)),
                ("seek_cost", number(&[1, 4, 16], rng)),
                ("writes_starved", pick(rng, ["0", "1", "2", "2", "5", "-1", "-3"]).to_owned()),
                ("front_merges", number(&[0, 1], rng)),
                ("quirks", number(&[0, 1], rng)),
                ("warm", number(&[0, 1], rng)),
                ("async_depth", number(&[0, 0, 4], rng)),
                ("writes_in_flight", number(&[0, 0, 1], rng)),
                ("reads_in_flight", number(&[0, 0, 0, 0, 2], rng)),
                ("read_drain", number(&[0, 0, 20], rng)),
            ] {
                scheduler.set(name, &value).expect("a setting of its own");
            }
        }
        Self { model, scheduler, has_classes }
    }

    /// The largest request.
    fn most_pages(&self) -> u64 {
        self.model.geometry().max_io.0
    }
}

impl ProcessShape {
    fn new(rng: &mut Rng, devices: &[DeviceShape], files: &[FileShape]) -> Self {
        let file = index(rng, files.len());
        let does = match rng.below(10) {
            0 | 1 => Does::ReadOn,
            2 => Does::ReadInTurns,
            3 => Does::ReadAnywhere,
            4 | 5 => Does::ReadPast,
            6 | 7 => Does::WritePast { slots: pick(rng, [1, 8, 64]) },
            8 => pick(rng, [Does::Hint, Does::Forget, Does::Forget]),
            _ => Does::Pin,
        };
        let device = &devices[files[file].device];
        let largest = match does {
            Does::ReadPast | Does::WritePast { .. } => device.most_pages().min(16) * 4096,
            Does::ReadOn
            | Does::ReadInTurns
            | Does::ReadAnywhere
            | Does::Hint
            | Does::Forget
            | Does::Pin => pick(rng, [1, 4096, 20_000, 300_000, 2 << 20, 2 << 20]),
        };
        let is_forgotten = match does {
            Does::Forget => true,
            Does::Pin => rng.below(2) == 0,
            Does::ReadOn
            | Does::ReadInTurns
            | Does::ReadAnywhere
            | Does::ReadPast
            | Does::WritePast { .. }
            | Does::Hint => false,
        };
        let classes = [Class::BestEffort, Class::RealTime, Class::Idle];
        Self {
            does,
            file: if is_forgotten { FORGOTTEN } else { file },
            times: 5 + rng.below(60),
            largest,
            think_us: pick(rng, [0, 0, 100, 5000]),
            class: if device.has_classes { pick(rng, classes) } else { Class::BestEffort },
        }
    }
}

/// The room for one.
const FILE_BYTES: u64 = 6 << 20;

/// What is turned while a run goes on.
const KNOBS: [(&str, &str); 9] = [
    ("fifo_batch", "2"),
    ("rule", "mq"),
    ("writes_starved", "0"),
    ("async_depth", "1"),
    ("rule", "2002"),
    ("writes_starved", "-2"),
    ("async_depth", "0"),
    ("rule", "4.x"),
    ("read_expire", "1"),
];
