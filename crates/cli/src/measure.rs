//! Measuring: what `demo` and `bench` have in common.
//!
//! In:    a target, a pattern, ways to read it.
//! Out:   runs: how many reads took how long, and what the device was asked for.
//! Never: a figure that was not measured in this process.

pub(crate) mod arm;
pub(crate) mod figures;
pub(crate) mod flood;
pub(crate) mod nbd_load;
pub(crate) mod pattern;
pub(crate) mod run;
mod slow_mount;
pub(crate) mod slow_server;
pub(crate) mod target;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_core::units::ByteCount;
use foreread_tune::hold::{TemporarySettings, restore_left_behind};
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::window_in_force;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::arm::{Arm, Course};
use self::figures::Row;
use self::pattern::Pattern;
use self::run::{Run, Work};

/// How often, and in which ways.
#[derive(Clone, Debug)]
pub(crate) struct Rounds<'a> {
    pub(crate) arms: &'a [Arm],
    pub(crate) runs: u32,
    /// Rounds before them that do not count.
    pub(crate) warm_ups: u32,
    /// Whether each way gets random pages of its own: else all of a round get the same.
    pub(crate) own_pages: bool,
    /// A run of [`Arm::Direct`] ends after so long.
    pub(crate) direct_time: Duration,
}

/// One pattern in all ways, in turns, and another way begins each round: A B C B C A C A B ..
///
/// So they meet the same moments of a busy machine, and whatever a cache below the kernel has kept
/// of the reads of one favours each of the others in its turn. Random pages differ from round to
/// round for the same reason.
pub(crate) fn measure(
    course: &Course<'_>,
    work: &Work,
    rounds: &Rounds<'_>,
    bar: &ProgressBar,
) -> io::Result<Vec<Row>> {
    let Rounds { arms, runs, warm_ups, own_pages, direct_time } = *rounds;
    let mut taken: [Vec<Run>; 3] = Default::default();
    for round in 0..(runs + warm_ups) as usize {
        for turn in 0..arms.len() {
            let arm = arms[(round + turn) % arms.len()];
            bar.inc(1);
            if !can(arm, work.pattern) {
                continue;
            }
            let Some(mut opened) = course.open(arm, work.readers())? else { continue };
            let pages = if own_pages { arm as u64 } else { 0 };
            let seed = ((round as u64) << 8 | pages) << 32;
            let mut work = Work { seed, ..*work };
            if arm == Arm::Direct {
                work.enough.time = work.enough.time.min(direct_time);
            }
            let run = work.run(&mut opened)?;
            if round >= warm_ups as usize {
                taken[arm as usize].push(run);
            }
        }
    }
    let rows = Arm::ALL.into_iter().zip(taken).filter(|(_, taken)| !taken.is_empty());
    Ok(rows.map(|(arm, taken)| Row::new(course, work.pattern, arm, taken)).collect())
}

/// Whether an arm can run a pattern: direct reads have no cache that a hot set could stay in, and
/// only foreread pins pages.
pub(crate) fn can(arm: Arm, pattern: Pattern) -> bool {
    match arm {
        Arm::Foreread => true,
        Arm::Buffered => !pattern.is_pinned(),
        Arm::Direct => pattern.hot_set().is_none(),
    }
}

/// Starts the process that restores the system's settings when we have ended: this program, by a
/// verb of its own.
pub(crate) fn holder() -> io::Result<TemporarySettings> {
    // What a run has left that was killed, and its holder with it.
    let _ = restore_left_behind(&SystemRoot::here());
    let mut holder = Command::new(std::env::current_exe()?);
    holder.arg(HOLD);
    TemporarySettings::new(holder, &SystemRoot::here())
}

/// The body of that process. It ignores the signals that stop us, which a service manager sends to
/// all processes of a unit: it ends when we have ended, and not before.
pub(crate) fn hold() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    foreread_tune::hold::serve(&SystemRoot::here())
}

/// The verb that starts it, which no help shows.
pub(crate) const HOLD: &str = "hold-settings";

/// The largest window that the kernel has for what lies at a path, in bytes, where it says so.
pub(crate) fn kernel_window(path: &Path) -> Option<ByteCount> {
    let (device, _) = target::device_of(&File::open(path).ok()?).ok()?;
    let number = (rustix::fs::major(device), rustix::fs::minor(device));
    let kib: u64 = window_in_force(&SystemRoot::here(), number)?.value.parse().ok()?;
    kib.checked_mul(1024).map(ByteCount)
}

/// A bar of so many steps on a terminal, nothing elsewhere.
pub(crate) fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
    ProgressBar::new(steps).with_style(style.expect("a fixed template"))
}

/// The one clock of the command line.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}
