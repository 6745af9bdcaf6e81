//! Plans the reads of each pattern, so that no run reads past the end and hot sets stay cached.
//!
//! Patterns that do not fit are refused if named, and otherwise left out with a note.

use foreread_core::units::ByteCount;

use super::plan::{PatternSelection, ReadPlan};
use foreread_cli::measure::method::{AccessMethod, can};
use foreread_cli::measure::pattern::{AccessPattern, PAGE};
use foreread_cli::measure::run::{BenchWork, RunLimit};
use foreread_cli::measure::testbed::Testbed;
use foreread_cli::output::Failure;
use foreread_core::sizes::Exact;

/// Reads of all patterns that fit.
pub(super) struct PlannedWork {
    pub(super) works: Vec<BenchWork>,
    /// Patterns that were left out, with the reason.
    pub(super) notes: Vec<String>,
}

/// Plans the reads of each pattern.
pub(super) fn planned_work(plan: &ReadPlan, testbed: &Testbed<'_>) -> Result<PlannedWork, Failure> {
    check_what_holds_for_all(plan, testbed)?;

    let mut planned = PlannedWork { works: Vec::new(), notes: Vec::new() };
    let (patterns, is_asked) = match &plan.patterns {
        PatternSelection::Named(patterns) => (&patterns[..], true),
        PatternSelection::Fitting => (&AccessPattern::ALL[..], false),
    };
    for (at, pattern) in patterns.iter().enumerate() {
        if patterns[..at].contains(pattern) {
            continue;
        }
        if !is_asked && plan.delay.is_some() && pattern.hot_set().is_some() {
            let name = pattern.name();
            planned.notes.push(format!(
                "{LEFT_OUT}{name}: a cached read does not meet the slow device; name it to have it"
            ));
            continue;
        }
        match work(plan, testbed, *pattern) {
            Ok(work) => planned.works.push(work),
            Err(why) if is_asked => return Err(Failure::WrongUse(why)),
            Err(why) => planned.notes.push(format!("{LEFT_OUT}{why}")),
        }
    }
    if let Some(note) = planned.notes.first()
        && planned.works.is_empty()
    {
        let why = note.strip_prefix(LEFT_OUT).unwrap_or(note);
        return Err(Failure::WrongUse(format!("no pattern fits: {why}")));
    }
    Ok(planned)
}

fn check_what_holds_for_all(plan: &ReadPlan, testbed: &Testbed<'_>) -> Result<(), Failure> {
    let target = testbed.target;
    let pages = target.len / PAGE;
    if plan.amount == Some(ByteCount(0)) {
        let line = "--amount 0: give at least one read, such as 4K";
        return Err(Failure::WrongUse(line.to_owned()));
    }
    if pages == 0 {
        return Err(Failure::WrongUse(format!(
            "{}: {} bytes are less than a page; give a larger file",
            plan.target.path().display(),
            target.len
        )));
    }
    if plan.start_page >= pages {
        return Err(Failure::WrongUse(format!(
            "--start-page {}: {} ends before page {pages}; give a smaller one",
            plan.start_page,
            plan.target.path().display()
        )));
    }
    if !plan.methods.iter().any(|method| testbed.has(*method)) {
        let why = match plan.methods[0] {
            AccessMethod::Direct => target.buffered.unwrap_or_default().to_owned(),
            AccessMethod::Buffered | AccessMethod::Foreread | AccessMethod::Memory => {
                testbed.notes().concat()
            }
        };
        return Err(Failure::WrongUse(format!(
            "{}: {why}; give another --method",
            plan.target.path().display()
        )));
    }
    Ok(())
}

fn work(
    plan: &ReadPlan,
    testbed: &Testbed<'_>,
    pattern: AccessPattern,
) -> Result<BenchWork, String> {
    if !plan.methods.iter().any(|method| can(*method, pattern)) {
        let others = if pattern.is_pinned() { "foreread" } else { "buffered or foreread" };
        let name = pattern.name();
        return Err(format!("{name}: not for this --method, see --help; add --method {others}"));
    }
    if let Some(set) = pattern.hot_set() {
        check_memory(plan, testbed, pattern, set)?;
    }
    let block = pattern.block();
    let threads = pattern.own_threads().unwrap_or(plan.threads);
    let wanted = plan.amount.unwrap_or(default_amount(pattern, testbed)).0.div_ceil(block);
    let reads = match pattern.is_shared() {
        true => wanted,
        false => wanted.next_multiple_of(threads.into()),
    };
    let mut work = BenchWork {
        pattern,
        len: testbed.target.len,
        shift: plan.start_page * PAGE,
        hot_set: None,
        threads,
        seed: 0,
        limit: RunLimit { reads, time: plan.time, look: LOOK },
    };
    let room = work.room();
    let needed = if plan.amount.is_some() { reads } else { reads.min(FEWEST * u64::from(threads)) };
    if room < needed {
        return Err(too_small(plan, &work, room, needed));
    }
    work.limit.reads = reads.min(room);
    Ok(work)
}

/// Describes the target size, or the amount, that would suffice.
fn too_small(plan: &ReadPlan, work: &BenchWork, room: u64, needed: u64) -> String {
    let mut larger = *work;
    // Rounded up; an exact multiple of the pattern's minimum is not needed.
    larger.len = larger.len.next_power_of_two().max(1 << 20);
    while larger.room() < needed && larger.len < 1 << 62 {
        larger.len *= 2;
    }
    let name = work.pattern.name();
    let (has, needs) = (Exact(ByteCount(work.len)), Exact(ByteCount(larger.len)));
    let most = room * work.pattern.block();
    let less = if most > 0 && plan.amount.is_some() {
        format!(" or --amount {}", Exact(ByteCount(most)))
    } else {
        String::new()
    };
    let earlier = if plan.start_page > 0 { " or a smaller --start-page" } else { "" };
    let unit = if work.len.is_multiple_of(1 << 10) { "" } else { " bytes" };
    format!(
        "{name}: {} is too small with {has}{unit}; give a target of {needs}{less}{earlier}",
        plan.target.path().display()
    )
}

/// Checks that the hot set and the windows it is read in fit the cache.
fn check_memory(
    plan: &ReadPlan,
    testbed: &Testbed<'_>,
    pattern: AccessPattern,
    set: u64,
) -> Result<(), String> {
    if !plan.methods.contains(&AccessMethod::Foreread) {
        return Ok(());
    }
    let needed = (set + 4 * testbed.window) / PAGE * BYTES_PER_FRAME;
    if plan.memory.0 >= needed {
        return Ok(());
    }
    Err(format!(
        "{}: {} MiB do not stay cached in --memory {}; give at least {}M",
        pattern.name(),
        set >> 20,
        Exact(plan.memory),
        needed.div_ceil(1 << 20)
    ))
}

/// Returns the amount that takes 0.2 to 0.5 s at 1 GB/s, 30,000 reads per second and 1 us per
/// cached page, so that all runs of all patterns end within two minutes.
///
/// Streams read at least many of their largest windows: they need up to eight steps to reach it,
/// and pages prefetched beyond the end of a run are wasted. On a slow disk, the time limit ends
/// runs first.
fn default_amount(pattern: AccessPattern, testbed: &Testbed<'_>) -> ByteCount {
    let fast_disk = match pattern {
        AccessPattern::Seq4k
        | AccessPattern::Seq64k
        | AccessPattern::Seq1m
        | AccessPattern::Coop8 => 256 << 20,
        AccessPattern::Inter2 | AccessPattern::Inter2By64k | AccessPattern::Inter8 => 128 << 20,
        AccessPattern::Inter200 => 512 << 20,
        AccessPattern::Rand4k | AccessPattern::Stride | AccessPattern::Back => 16 << 20,
        AccessPattern::Rand16k => 32 << 20,
        AccessPattern::Rand64k | AccessPattern::Scans => 128 << 20,
        AccessPattern::Hot4k | AccessPattern::HotSmall | AccessPattern::HotPin => 1 << 30,
        AccessPattern::Hot64k | AccessPattern::Hot1m => 4 << 30,
    };
    ByteCount((pattern.streams() * MANY_WINDOWS * testbed.window).max(fast_disk))
}

/// Windows per stream, so that the prefetched pages at the end of a run, up to two windows, are at
/// most an eighth.
const MANY_WINDOWS: u64 = 16;

/// Reads between two checks of the clock, each of which costs up to a twentieth of a cached read.
const LOOK: u64 = 16;

/// Minimum of reads per thread.
const FEWEST: u64 = 16;

/// Prefix of notes on patterns left out.
const LEFT_OUT: &str = "left out: ";

/// Bytes per frame: a page, its metadata, and a reserve.
const BYTES_PER_FRAME: u64 = 4800;
