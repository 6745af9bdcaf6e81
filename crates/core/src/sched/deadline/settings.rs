//! What can be set of `deadline`.
//!
//! In:    a name and a value.
//! Out:   the settings with it.
//! Never: an effect: that is the queue's.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::sched::{InvalidSetting, Op, setting};
use crate::units::Nanos;

/// The settings of `deadline`. Each may change while requests are queued.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeadlineSettings {
    /// How the next request is chosen.
    pub rule: DeadlineRule,
    /// The age, in milliseconds, at which a read goes first among reads.
    pub read_expire_ms: u64,
    /// The age, in milliseconds, at which a write goes first among writes; 2002 has none.
    pub write_expire_ms: u64,
    /// After how many batches of reads a batch of writes that wait has its turn. 0: writes always
    /// go first, and reads may starve. -k: after k batches of writes a batch of reads has its turn.
    pub writes_starved: i32,
    /// How much a batch may have: requests, or in 2002 what they cost.
    pub fifo_batch: u32,
    /// Whether a request may grow at its front.
    pub front_merges: bool,
    /// Rule 2002: what a request costs that does not begin where the one before it ended; others
    /// cost 1.
    pub seek_cost: u32,
    /// Rule mq: whether it does what Linux does and does not mean to.
    pub quirks: bool,
    /// Rule mq: the age, in milliseconds, at which a request goes before those of higher classes.
    pub prio_aging_expire_ms: u64,
    /// How many writes may be queued or in flight; the others wait in a line. 0: no limit.
    pub async_depth: u32,
    /// How many reads may be in flight. 0: no limit.
    pub reads_in_flight: u32,
    /// How many writes may be in flight.
    pub writes_in_flight: WriteLimit,
    /// With a learnt limit: for how long after a read ended, in milliseconds, the next one is
    /// expected.
    pub read_hold_ms: u64,
    /// The age, in milliseconds, of a read in flight at which nothing more is sent until it ends.
    /// 0: never.
    pub read_drain_ms: u64,
    /// Whether the queue begins as after a batch of reads that is used up; after the first request
    /// it makes no difference.
    pub warm: bool,
}

/// How many writes may be in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteLimit {
    /// So many; 0: no limit.
    Fixed(u32),
    /// As many as leave room for reads while there are reads, by what was learnt of the device.
    Learnt,
}

/// How `deadline` chooses the next request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DeadlineRule {
    /// The first one, of September 2002: batches by what they cost.
    R2002,
    /// Linux 2.6.16 to 4.20: batches of so many requests.
    #[default]
    Linux4,
    /// Linux today, `mq-deadline`: the same for each class.
    Mq,
}

impl DeadlineSettings {
    /// The names of all settings.
    pub const NAMES: &'static [&'static str] = &[
        "rule",
        "read_expire",
        "write_expire",
        "writes_starved",
        "fifo_batch",
        "front_merges",
        "seek_cost",
        "quirks",
        "prio_aging_expire",
        "async_depth",
        "reads_in_flight",
        "writes_in_flight",
        "read_hold",
        "read_drain",
        "warm",
    ];

    /// Changes one setting.
    ///
    /// # Errors
    ///
    /// If there is no such setting, or the value makes no sense for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        let ms = || setting::number(name, value, setting::MS);
        let count = || setting::number(name, value, setting::COUNT);
        let switch = || setting::switch(name, value);
        match name {
            "rule" => {
                self.rule = DeadlineRule::from_name(value).ok_or_else(|| bad_rule(name, value))?;
            }
            "read_expire" => self.read_expire_ms = ms()?,
            "write_expire" => self.write_expire_ms = ms()?,
            "writes_starved" => self.writes_starved = setting::number(name, value, BATCHES)?,
            "fifo_batch" => self.fifo_batch = count()?,
            "front_merges" => self.front_merges = switch()?,
            "seek_cost" => self.seek_cost = count()?,
            "quirks" => self.quirks = switch()?,
            "prio_aging_expire" => self.prio_aging_expire_ms = ms()?,
            "async_depth" => self.async_depth = count()?,
            "reads_in_flight" => self.reads_in_flight = count()?,
            "writes_in_flight" => {
                self.writes_in_flight = match value {
                    "learn" => WriteLimit::Learnt,
                    _ => WriteLimit::Fixed(setting::number(name, value, COUNT_OR_LEARN)?),
                }
            }
            "read_hold" => self.read_hold_ms = ms()?,
            "read_drain" => self.read_drain_ms = ms()?,
            "warm" => self.warm = switch()?,
            _ => return Err(setting::unknown(name, Self::NAMES)),
        }
        Ok(())
    }

    /// All of them, as they are: each can be set to what is said here.
    #[must_use]
    pub fn list(&self) -> Vec<(&'static str, String)> {
        let value = |name: &str| match name {
            "rule" => self.rule.name().to_string(),
            "read_expire" => self.read_expire_ms.to_string(),
            "write_expire" => self.write_expire_ms.to_string(),
            "writes_starved" => self.writes_starved.to_string(),
            "fifo_batch" => self.fifo_batch.to_string(),
            "front_merges" => setting::on_off(self.front_merges),
            "seek_cost" => self.seek_cost.to_string(),
            "quirks" => setting::on_off(self.quirks),
            "prio_aging_expire" => self.prio_aging_expire_ms.to_string(),
            "async_depth" => self.async_depth.to_string(),
            "reads_in_flight" => self.reads_in_flight.to_string(),
            "writes_in_flight" => match self.writes_in_flight {
                WriteLimit::Fixed(count) => count.to_string(),
                WriteLimit::Learnt => "learn".to_string(),
            },
            "read_hold" => self.read_hold_ms.to_string(),
            "read_drain" => self.read_drain_ms.to_string(),
            "warm" => setting::on_off(self.warm),
            _ => unreachable!("{name} is among the names"),
        };
        Self::NAMES.iter().map(|name| (*name, value(name))).collect()
    }

    /// When a request that arrived then expires.
    pub(super) fn expiry(&self, op: Op, arrival: Nanos) -> Nanos {
        let ms = match op {
            Op::Read => self.read_expire_ms,
            Op::Write => self.write_expire_ms,
        };
        Nanos(arrival.0.saturating_add(setting::ns(ms)))
    }
}

impl Default for DeadlineSettings {
    /// The kernel's, with rule 4.x; what the kernel does not have is off.
    ///
    /// `fifo_batch` was 64 at first, 32 a day later, and 16 from then on, in all rules since.
    fn default() -> Self {
        Self {
            rule: DeadlineRule::default(),
            read_expire_ms: 500,
            write_expire_ms: 5000,
            writes_starved: 2,
            fifo_batch: 16,
            front_merges: true,
            seek_cost: 16,
            quirks: true,
            prio_aging_expire_ms: 10_000,
            async_depth: 0,
            reads_in_flight: 0,
            writes_in_flight: WriteLimit::Fixed(0),
            read_hold_ms: 50,
            read_drain_ms: 0,
            warm: false,
        }
    }
}

impl DeadlineRule {
    /// All rules, in the order of their age.
    pub const ALL: [Self; 3] = [Self::R2002, Self::Linux4, Self::Mq];

    /// What it is called on the command line and in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::R2002 => "2002",
            Self::Linux4 => "4.x",
            Self::Mq => "mq",
        }
    }

    /// The rule of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

fn bad_rule(name: &str, value: &str) -> InvalidSetting {
    setting::bad(name, value, "2002, 4.x or mq")
}

const COUNT_OR_LEARN: &str = "a number from 0 to 4294967295, or learn";
const BATCHES: &str = "a number of batches; negative ones prefer writes";
