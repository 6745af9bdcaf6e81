//! Settings of `deadline`, by name.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::sched::{InvalidSetting, Op, setting};
use crate::units::Nanos;

/// Settings of `deadline`. Each can be changed while requests are queued.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeadlineSettings {
    /// Rule that chooses the next request.
    pub rule: DeadlineRule,
    /// Deadline of a read in milliseconds; an expired read goes before other reads.
    pub read_expire_ms: u64,
    /// Deadline of a write in milliseconds; an expired write goes before other writes. 2002 has
    /// none.
    pub write_expire_ms: u64,
    /// Batches of reads before a batch of waiting writes. 0: writes always go first, and reads may
    /// starve. -k: a batch of reads after k batches of writes.
    pub writes_starved: i32,
    /// Size of a batch: requests or, in 2002, their cost.
    pub fifo_batch: u32,
    /// Allows front merges.
    pub front_merges: bool,
    /// Rule 2002: cost of a request that does not begin at the end of the previous one; others cost
    /// 1.
    pub seek_cost: u32,
    /// Rule mq: reproduces unintended behaviour of Linux.
    pub quirks: bool,
    /// Rule mq: age in milliseconds at which a request goes before those of higher classes.
    pub prio_aging_expire_ms: u64,
    /// Most writes queued or in flight; further ones wait outside. 0: no limit.
    pub async_depth: u32,
    /// Most reads in flight. 0: no limit.
    pub reads_in_flight: u32,
    /// Most writes in flight.
    pub writes_in_flight: WriteLimit,
    /// With a learnt limit: time in milliseconds after a completed read during which the next one
    /// is expected.
    pub read_hold_ms: u64,
    /// Age in milliseconds of a read in flight at which dispatching stops until it completes. 0:
    /// never.
    pub read_drain_ms: u64,
    /// Starts the queue in the state after a used-up batch of reads. It makes no difference after
    /// the first request.
    pub warm: bool,
}

/// Limit of writes in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteLimit {
    /// Fixed limit; 0: no limit.
    Fixed(u32),
    /// Learnt limit, which leaves room for reads while there are reads.
    Learnt,
}

/// Rule that chooses the next request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DeadlineRule {
    /// Original rule of September 2002: batches by cost.
    R2002,
    /// Linux 2.6.16 to 4.20: batches by number of requests.
    #[default]
    Linux4,
    /// Current Linux, `mq-deadline`: the same for each priority class.
    Mq,
}

impl DeadlineSettings {
    /// Names of all settings.
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
    /// If the setting does not exist, or the value is invalid.
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

    /// Returns all settings in the form that [`Self::set`] takes.
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

    /// Returns the deadline of a request with this arrival time.
    pub(super) fn expiry(&self, op: Op, arrival: Nanos) -> Nanos {
        let ms = match op {
            Op::Read => self.read_expire_ms,
            Op::Write => self.write_expire_ms,
        };
        Nanos(arrival.0.saturating_add(setting::ns(ms)))
    }
}

impl Default for DeadlineSettings {
    /// Returns the kernel's defaults, with rule 4.x; features that the kernel lacks are off.
    ///
    /// `fifo_batch` was 64 at first, 32 a day later, and 16 since then, in all rules.
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
    /// All rules, oldest first.
    pub const ALL: [Self; 3] = [Self::R2002, Self::Linux4, Self::Mq];

    /// Returns the name on the command line and in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::R2002 => "2002",
            Self::Linux4 => "4.x",
            Self::Mq => "mq",
        }
    }

    /// Returns the rule of this name.
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
