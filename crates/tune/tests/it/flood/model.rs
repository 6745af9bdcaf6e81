//! A device under the mixed load, in virtual time, with settings that behave as Linux' do.
//!
//! In:    what each setting gives readers and writers; noise, a seed.
//! Out:   [`Model`], which answers as a real device does.
//! Never: real time, a file.
//!
//! What Linux does, as seen on a loop device of Linux 6.18: a scheduler comes with its own tunables
//! and its own `nr_requests`; `nr_requests` sets `async_depth`, too; without a scheduler it is the
//! number of the device's tags, which stay when a scheduler comes, while another number is shown;
//! and setting the number that is shown does nothing.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};
use foreread_tune::flood::{MixedLoad, MixedSample, TunableQueue};
use foreread_tune::probe::Stopped;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::{Queue, SchedulerAttribute};

/// All settings, also what sysfs does not show.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) scheduler: String,
    pub(crate) nr_requests: u64,
    pub(crate) tags: u64,
    pub(crate) tunables: BTreeMap<String, u64>,
}

/// What a setting gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) read_us: f64,
    pub(crate) writes_per_s: f64,
}

/// When something goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Trouble {
    Never,
    /// The call of this number, of runs.
    Run(u32),
    /// The call of this number, of sets.
    Set(u32),
    /// No set is allowed.
    ReadOnly,
}

/// A device.
pub(crate) struct Model<'a> {
    pub(crate) state: State,
    pub(crate) figures: &'a dyn Fn(&State) -> Figures,
    pub(crate) noise: f64,
    /// By how much it slows down with each run.
    pub(crate) drift: f64,
    /// What a run costs beside its time.
    pub(crate) overhead: Duration,
    pub(crate) has_async_depth: bool,
    pub(crate) trouble: Trouble,
    pub(crate) runs: u32,
    pub(crate) sets: u32,
    now_ns: u64,
    rng: Rng,
}

impl State {
    /// Linux' defaults, with so many tags.
    pub(crate) fn new(scheduler: &str, tags: u64) -> Self {
        let mut state =
            Self { scheduler: "none".into(), nr_requests: tags, tags, tunables: BTreeMap::new() };
        state.switch(scheduler, true);
        state
    }

    pub(crate) fn with(mut self, name: &str, value: u64) -> Self {
        assert!(self.tunables.insert(name.to_owned(), value).is_some(), "no {name}");
        self
    }

    fn switch(&mut self, scheduler: &str, has_async_depth: bool) {
        if scheduler == self.scheduler {
            return;
        }
        scheduler.clone_into(&mut self.scheduler);
        self.nr_requests = if scheduler == "none" { MOST_TAGS } else { 2 * MOST_TAGS };
        let tunables: &[(&str, u64)] = match scheduler {
            "mq-deadline" => {
                &[("fifo_batch", 16), ("read_expire", 500), ("async_depth", 2 * MOST_TAGS)]
            }
            "bfq" => &[("low_latency", 1)],
            _ => &[],
        };
        self.tunables = tunables.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        if !has_async_depth {
            self.tunables.remove("async_depth");
        }
    }

    fn set(&mut self, attribute: &str, value: &str, has_async_depth: bool) -> io::Result<()> {
        let number = value.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        match attribute {
            "queue/scheduler" => self.switch(value, has_async_depth),
            "queue/nr_requests" if number.as_ref().ok() == Some(&self.nr_requests) => {}
            "queue/nr_requests" => {
                self.nr_requests = number?;
                if self.scheduler == "none" {
                    self.tags = self.nr_requests;
                }
                if let Some(depth) = self.tunables.get_mut("async_depth") {
                    *depth = self.nr_requests;
                }
            }
            _ => {
                let name = attribute.strip_prefix("queue/iosched/").unwrap_or(attribute);
                let tunable = self.tunables.get_mut(name);
                *tunable.ok_or(io::Error::from(io::ErrorKind::NotFound))? = number?;
            }
        }
        Ok(())
    }
}

impl<'a> Model<'a> {
    pub(crate) fn new(state: State, figures: &'a dyn Fn(&State) -> Figures, seed: u64) -> Self {
        Self {
            state,
            figures,
            noise: 0.0,
            drift: 0.0,
            overhead: Duration::from_millis(100),
            has_async_depth: true,
            trouble: Trouble::Never,
            runs: 0,
            sets: 0,
            now_ns: 0,
            rng: Rng(seed),
        }
    }

    pub(crate) fn offer(&self) -> TunableQueue {
        TunableQueue {
            device: "vdz".into(),
            scheduler: Some(self.state.scheduler.clone()),
            choices: ["none", "mq-deadline", "bfq"].map(str::to_owned).to_vec(),
            nr_requests: Some(self.state.nr_requests),
            is_async_depth_of_queue: false,
            has_own_tags: self.state.scheduler == "none",
            may_set: true,
            notes: Vec::new(),
        }
    }
}

impl MixedLoad for Model<'_> {
    fn now(&self) -> Nanos {
        Nanos(self.now_ns)
    }

    fn queue(&self) -> Queue {
        let State { scheduler, nr_requests, tunables, .. } = &self.state;
        let tunables = tunables.iter().map(|(name, value)| (name.clone(), value.to_string()));
        Queue {
            nr_requests: Some(*nr_requests),
            scheduler: Some(SchedulerAttribute {
                chosen: scheduler.clone(),
                choices: self.offer().choices,
                tunables: tunables.collect(),
            }),
            ..Queue::default()
        }
    }

    fn set(&mut self, setting: &DeviceSetting) -> io::Result<()> {
        assert_eq!(setting.device, "vdz");
        self.sets += 1;
        if self.trouble == Trouble::Set(self.sets) {
            return Err(io::Error::other("the device is busy"));
        }
        if self.trouble == Trouble::ReadOnly {
            return Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem));
        }
        self.state.set(&setting.attribute, &setting.value, self.has_async_depth)
    }

    fn run(&mut self, time: Duration) -> Result<MixedSample, Stopped> {
        self.runs += 1;
        if self.trouble == Trouble::Run(self.runs) {
            return Err(Stopped::Interrupted);
        }
        let Figures { read_us, writes_per_s } = (self.figures)(&self.state);
        let slowed = (1.0 + self.drift).powi(i32::try_from(self.runs).expect("few runs"));
        let factor = (1.0 + self.noise * self.rng.normal()).max(0.2) * slowed;
        let mut sample = MixedSample::default();
        while sample.ns < u64::try_from(time.as_nanos()).expect("short")
            || sample.reads_ns.len() < 3
        {
            let read_us = read_us * factor * (0.9 + 0.2 * self.rng.unit());
            let ns = Duration::from_secs_f64(read_us / 1e6).as_nanos();
            let ns = u64::try_from(ns).expect("short");
            sample.reads_ns.push(ns);
            sample.ns += ns;
        }
        let writes = writes_per_s / factor * sample.ns as f64 / 1e9;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let writes = writes.round() as u64;
        sample.written = ByteCount(writes * 65536);
        self.now_ns += sample.ns + u64::try_from(self.overhead.as_nanos()).expect("short");
        Ok(sample)
    }
}

/// `SplitMix64`: a seed is a whole measurement.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to just under 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Near enough to the normal distribution.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// What a loop device shows, whatever it has.
pub(crate) const MOST_TAGS: u64 = 128;
