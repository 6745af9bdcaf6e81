//! Recommends settings from measurements.
//!
//! In:    facts of the device, the outcome of a sweep, the intended use of the device.
//! Out:   [`Report`].
//! Never: a figure that was not measured; a window slower than the one in force.
//!
//! ```text
//!   plateau --> profile: cost to the load --> guard: no slower than the window in force
//!                                                               |
//!              report <-- refusals: certain enough to apply? <--'
//! ```

mod guard;
mod refusal;
mod tradeoff;

use foreread_core::geometry::{LimitRule, readahead_limit};
use foreread_core::units::ByteCount;

use crate::kernel_default::{KernelDefault, Reason, kernel_default};
use crate::plateau::{Plateau, SHARE};
use crate::probe::Stopped;
use crate::report::{Compared, Latency, Method, Profile, Recommended, Report, WindowResult};
use crate::sweep::SweepOutcome;
use crate::sysfs::SystemRoot;
use crate::target::TuneTarget;

pub use tradeoff::{Tradeoff, tradeoffs};

/// Facts about a device that are available before any measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFacts {
    /// Name of the device; for a mount, its mount point; for a model, the model's name.
    pub name: String,
    /// Capacity. 0 for a mount, because the size of a mount implies nothing about its windows.
    pub size: ByteCount,
    /// Method by which windows are measured.
    pub method: Method,
    /// Window in force.
    pub now_kib: Option<u64>,
    /// The kernel's default; None for a model.
    pub kernel: Option<KernelDefault>,
    /// True if an ext4 is mounted here; then inode tables are considered too.
    pub has_ext4: bool,
    /// Evidence that a cache below answers in place of the device, if there is any.
    pub cached_below: Option<String>,
}

impl DeviceFacts {
    /// Collects the facts about a real device.
    #[must_use]
    pub fn of(sys: &SystemRoot, target: &TuneTarget, method: Method) -> Self {
        let device = &target.device;
        let release = sys.text("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = match &target.mount {
            None => Some(kernel_default(device, &release)),
            Some(mount) => mount
                .kernel_kib
                .map(|window_kib| KernelDefault { window_kib, reason: Reason::Constant }),
        };
        Self {
            name: target.mount.as_ref().map_or(&device.name, |mount| &mount.point).clone(),
            size: device.size,
            method,
            now_kib: device.queue.read_ahead_kib,
            kernel,
            has_ext4: !target.ext4.is_empty(),
            cached_below: target.cached_below.clone(),
        }
    }

    /// Describes a model. No kernel has made settings for it.
    #[must_use]
    pub fn of_model(name: &str, size: ByteCount) -> Self {
        let (method, name) = (Method::Simulated, name.to_owned());
        let cached_below = None;
        Self { name, size, method, now_kib: None, kernel: None, has_ext4: false, cached_below }
    }
}

/// Builds the complete report. It assumes that settings have not been restored; the caller corrects
/// that.
#[must_use]
pub fn report(facts: &DeviceFacts, outcome: &SweepOutcome, profile: Profile) -> Report {
    let kernel_kib = facts.kernel.map(|kernel| kernel.window_kib);
    // The rounding rule does not penalise a device that is sold in decimal megabytes.
    let size_rule = readahead_limit(facts.size, LimitRule::Rounding).map(|limit| limit.0 >> 10);
    let mut notes = outcome.notes.clone();
    notes.extend(outcome.stopped.as_ref().map(note_of_stop));
    let recommended = recommended(facts, outcome, profile);
    let against = |to: &Recommended| refusal::refusals(facts, outcome, to);
    Report {
        refusals: recommended.as_ref().map(against).unwrap_or_default(),
        device: facts.name.clone(),
        seconds: outcome.seconds,
        method: facts.method,
        sweep: outcome.rows.clone(),
        random: outcome.random.clone(),
        parallel: Vec::new(),
        plateau_kib: outcome.plateau.map(|plateau| plateau.window.0 >> 10),
        plateau_between_kib: outcome
            .plateau
            .map(|plateau| [plateau.low.0 >> 10, plateau.high.0 >> 10]),
        best_kib: outcome.plateau.map(|plateau| plateau.best.0 >> 10),
        recommended,
        compared: Compared { now_kib: facts.now_kib, kernel_kib, size_rule_kib: size_rule },
        notes,
        restored: false,
    }
}

/// Returns the recommended window; None if the plateau is unknown.
#[must_use]
pub fn recommended(
    facts: &DeviceFacts,
    outcome: &SweepOutcome,
    profile: Profile,
) -> Option<Recommended> {
    let plateau = outcome.plateau?;
    let (rows, random) = (&outcome.rows[..], &outcome.random[..]);
    let choice = |plateau: Plateau| match profile {
        Profile::Streaming => streaming(plateau, rows),
        Profile::Mixed => mixed(plateau, rows),
        Profile::Database => database(plateau, rows, random),
    };
    let (chosen_kib, mut why) = choice(plateau);
    // The ends of the interval, as seen by this load: windows that do not justify their memory do
    // not widen the uncertainty.
    let end_kib = |window| choice(Plateau { window, ..plateau }).0;
    let ends = [end_kib(plateau.low), end_kib(plateau.high), chosen_kib];
    let between_kib = ends.iter().min().copied().zip(ends.iter().max().copied());
    let guarded = guard::guarded(chosen_kib, facts.now_kib, outcome, profile);
    if let Some(instead) = &guarded.why {
        why = format!("{instead} ({why})");
    }
    if let Some(faster) = faster_in_table(guarded.window_kib, rows) {
        why += &faster;
    }
    let inodes = inode_blocks(random).filter(|_| facts.has_ext4);
    if let Some((blocks, reason)) = &inodes {
        why += &format!("; inode_readahead_blks {blocks}: {reason}");
    }
    Some(Recommended {
        read_ahead_kb: guarded.window_kib,
        between_kib: between_kib.map(|(low, high)| [low, high]),
        inode_readahead_blks: inodes.map(|(blocks, _)| blocks),
        scheduler: Vec::new(),
        profile,
        why,
    })
}

/// Returns a remark for the reason if a window in the table is more than 2 % faster than the
/// recommended one: a difference beyond the error of both is a price, a smaller one is noise.
fn faster_in_table(to_kib: u64, rows: &[WindowResult]) -> Option<String> {
    let to = guard::row_now(rows, to_kib)?;
    let fastest = rows.iter().max_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s))?;
    if to.mb_per_s >= SHARE * fastest.mb_per_s {
        return None;
    }
    let what = format!(
        "; {} KiB were measured {} {} KiB",
        fastest.window_kib,
        beside(fastest.mb_per_s, to.mb_per_s),
        to.window_kib
    );
    let is_noise = fastest.low <= to.high;
    Some(if is_noise { what + ", and both intervals overlap: it may be noise" } else { what })
}

/// Compares two throughputs in words: `44 % faster than`, `as fast as`.
#[must_use]
pub fn beside(one: f64, other: f64) -> String {
    let percent = 100.0 * (one / other - 1.0);
    match percent {
        ..=-0.5 => format!("{:.0} % slower than", -percent),
        0.5.. => format!("{percent:.0} % faster than"),
        _ => "as fast as".to_owned(),
    }
}

/// Limit for a mixed load, unless a larger window gains more than [`MIXED_GAIN`]: each stream keeps
/// two windows in memory, and a fault in a mapped file reads one.
const MIXED_MOST_KIB: u64 = 2048;

/// Gain that justifies a window above [`MIXED_MOST_KIB`].
const MIXED_GAIN: f64 = 1.20;

fn streaming(plateau: Plateau, rows: &[WindowResult]) -> (u64, String) {
    let (window_kib, best_kib) = (plateau.window.0 >> 10, plateau.best.0 >> 10);
    let at = speed_at(rows, window_kib);
    let (Some(at), Some(best), Some(last)) = (at, speed_at(rows, best_kib), rows.last()) else {
        return (window_kib, "the plateau".into());
    };
    let share = 100.0 * at / best;
    let is_fastest = rows.iter().all(|row| row.mb_per_s <= best);
    let why = if window_kib == last.window_kib {
        format!("the largest tried: {at:.3} MB/s; larger ones may be faster")
    } else if window_kib == best_kib && !is_fastest {
        format!("no window is clearly faster: {at:.1} MB/s; no smaller one reaches 98 % of it")
    } else if window_kib == best_kib {
        format!("the fastest window: {at:.1} MB/s; no smaller one reaches 98 % of it")
    } else if !is_fastest {
        format!(
            "the smallest window that reaches 98 % of {best_kib} KiB, which none clearly beats: \
             {at:.1} MB/s, {share:.0} %"
        )
    } else {
        format!(
            "the smallest window that reaches 98 % of the fastest, {best_kib} KiB: {at:.1} MB/s, \
             {share:.0} %"
        )
    };
    (window_kib, why)
}

/// Chooses the plateau or a bounded window, because memory and mapped files pay for each window.
///
/// ```text
///   MB/s |            o  o   8M gains less than a fifth over the best up to 2M:
///        |      o  o         then the smallest with 98 % of that
///        |   o
///        +-------------|--------> window
///                      2M
/// ```
fn mixed(plateau: Plateau, rows: &[WindowResult]) -> (u64, String) {
    let (window_kib, why) = streaming(plateau, rows);
    if window_kib <= MIXED_MOST_KIB {
        return (window_kib, why);
    }
    let below = rows.iter().filter(|row| row.window_kib <= MIXED_MOST_KIB);
    // The largest window below the bound is not always the fastest.
    let best = below.clone().max_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s));
    let (Some(at), Some(best)) = (speed_at(rows, window_kib), best) else {
        return (MIXED_MOST_KIB, why);
    };
    let beside = beside(at, best.mb_per_s);
    if at > MIXED_GAIN * best.mb_per_s {
        return (window_kib, format!("{why}; {beside} {} KiB", best.window_kib));
    }
    let is_enough = |row: &&WindowResult| row.mb_per_s >= SHARE * best.mb_per_s;
    let chosen = below.into_iter().find(is_enough).unwrap_or(best).window_kib;
    let mut why = format!(
        "the plateau is {window_kib} KiB, {beside} {} KiB and no more, and each stream holds two \
         windows",
        best.window_kib
    );
    if chosen < best.window_kib {
        why += &format!("; {chosen} KiB reach 98 % of {} KiB", best.window_kib);
    }
    (chosen, why)
}

/// Doubles the window while a stream gains at least as many percent as a random read of that size
/// loses. Both are percentages of the throughput and latency of one page (docs/design/itable.md has
/// the tables from which the rule is derived).
fn database(plateau: Plateau, rows: &[WindowResult], random: &[Latency]) -> (u64, String) {
    let most_kib = plateau.window.0 >> 10;
    let Some(latency) = tradeoff::LatencyLine::through(random) else {
        let (kib, why) = mixed(plateau, rows);
        return (kib, format!("{why}; random reads were not measured"));
    };
    let upto: Vec<&WindowResult> = rows.iter().filter(|row| row.window_kib <= most_kib).collect();
    let Some(first) = upto.first() else { return (most_kib, "the plateau".into()) };
    let mut chosen = first.window_kib;
    for pair in upto.windows(2) {
        let time = |row: &WindowResult| 100.0 * first.mb_per_s / row.mb_per_s;
        let gain = time(pair[0]) - time(pair[1]);
        let loss = latency.percent_between(pair[0].window_kib, pair[1].window_kib);
        if gain < loss {
            let why = format!(
                "from {} to {} KiB a stream gains {gain:.1} % and a random read loses {loss:.1} \
                 %, relative to {} KiB",
                pair[0].window_kib, pair[1].window_kib, first.window_kib
            );
            return (chosen, why);
        }
        chosen = pair[1].window_kib;
    }
    (
        chosen,
        format!("the plateau: up to {chosen} KiB a stream gains more than a random read loses"),
    )
}

/// Returns the number of inode-table blocks to read at once: the most that make the read at most a
/// fifth slower than a read of one block.
///
/// A reader of one inode pays that fifth; a walk through a directory saves all the other reads. On
/// the disk of the published table that is 32, the kernel's default since: 128 KiB took 16 % longer
/// than 4 KiB, 256 KiB 31 %.
fn inode_blocks(random: &[Latency]) -> Option<(u64, String)> {
    let latency = tradeoff::LatencyLine::through(random)?;
    let longer = |blocks: u64| latency.at(4 * blocks) / latency.at(4) - 1.0;
    let mut blocks = 1;
    while blocks < INODE_BLOCKS_MOST && longer(2 * blocks) <= INODE_BLOCKS_COST {
        blocks *= 2;
    }
    let percent = 100.0 * longer(blocks);
    Some((blocks, format!("reading {blocks} takes {percent:.0} % longer than one")))
}

/// Accepted extra cost of a read of several inode blocks over a read of one.
const INODE_BLOCKS_COST: f64 = 0.2;

/// 1 MiB of a table: no known measurement gains from more.
const INODE_BLOCKS_MOST: u64 = 256;

fn speed_at(rows: &[WindowResult], window_kib: u64) -> Option<f64> {
    rows.iter().find(|row| row.window_kib == window_kib).map(|row| row.mb_per_s)
}

fn note_of_stop(why: &Stopped) -> String {
    match why {
        Stopped::Interrupted => "interrupted: these are partial results".into(),
        Stopped::Failed(what) => format!("{what}: these are partial results"),
    }
}

#[cfg(test)]
mod tests;
