//! Which setting to take, from what all of them gave.
//!
//! In:    trials with their runs.
//! Out:   [`FloodVerdict`]: one of them, or none: all stays as it is; and why.
//! Never: a change that is not clearly better than what is in force, measured beside it.
//!
//! What counts is how long the chain of reads takes: that is what its reader waits for. It is the
//! mean, so the few slow reads count as they do there; median and p99 must not be worse.
//!
//! **What the writers may lose.** On a disk with one head each read takes the place of a write, so
//! faster reads always mean fewer writes, and that is no fault of a setting. So writes and reads
//! together are counted: of the best one's, [`LEAST_WORK`] has to be kept. And whatever readers
//! gain, writers keep [`LEAST_WRITES`] of theirs:
//!
//! ```text
//!   one head, async_depth writes for each read     1      2      4      16
//!   the writers' part                             1/2    2/3    4/5    16/17
//!                                                  no     yes ->
//! ```

use super::mixed_load::MixedSample;
use super::trial_runs::{IN_FORCE, TrialRuns, changes, middle};

/// What to take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FloodVerdict {
    /// Which trial; None: what is in force stays.
    pub choice: Option<usize>,
    /// Why.
    pub why: String,
}

/// Judges. An incomplete measurement gives no choice.
#[must_use]
pub fn verdict(tried: &[TrialRuns], is_complete: bool) -> FloodVerdict {
    let keep = |why: String| FloodVerdict { choice: None, why };
    if !is_complete {
        return keep("stopped before enough was measured".to_owned());
    }
    if tried.iter().filter(|it| !it.runs.is_empty()).count() < 2 {
        return keep("nothing else could be tried".to_owned());
    }
    let candidates: Vec<TrialCandidate> =
        (1..tried.len()).filter_map(|index| TrialCandidate::new(tried, index)).collect();
    let is_good = |it: &&TrialCandidate| it.is_clear() && it.is_fair && it.has_no_tail(tried);
    let mut good: Vec<&TrialCandidate> = candidates.iter().filter(is_good).collect();
    // The simplest first; of equally simple ones, the best.
    good.sort_by(|a, b| {
        let simple = changes(tried, a.index).cmp(&changes(tried, b.index));
        simple.then(b.gain.total_cmp(&a.gain))
    });
    let Some((&first, rest)) = good.split_first() else {
        return keep(why_not(tried, &candidates));
    };
    let mut chosen = first;
    for &other in rest {
        // One that changes more has to be better beyond doubt.
        if other.beats(chosen, tried) {
            chosen = other;
        }
    }
    FloodVerdict { choice: Some(chosen.index), why: chosen.why(tried) }
}

/// Whether more rounds would hardly change the verdict: each is known well enough, or is no gain,
/// or clearly behind the best.
pub(super) fn is_settled(tried: &[TrialRuns]) -> bool {
    let candidates: Vec<TrialCandidate> =
        (1..tried.len()).filter_map(|index| TrialCandidate::new(tried, index)).collect();
    let fair = || candidates.iter().filter(|it| it.is_fair);
    let Some(best) = fair().max_by(|a, b| a.gain.total_cmp(&b.gain)) else { return true };
    fair().all(|it| {
        let is_no_gain = it.gain + it.doubt < GAIN.ln();
        let is_known = it.doubt < PRECISE.ln();
        let is_behind = it.index != best.index && best.beats(it, tried);
        let leads = it.index == best.index && it.is_clear();
        is_no_gain || is_known || is_behind || leads
    })
}

/// One trial beside the one in force.
struct TrialCandidate {
    index: usize,
    /// How many times as fast reads are, as a logarithm, and by how much that may be too much.
    gain: f64,
    doubt: f64,
    /// Whether device and writers still do enough.
    is_fair: bool,
}

impl TrialCandidate {
    /// None if it was not measured beside the one in force often enough.
    fn new(tried: &[TrialRuns], index: usize) -> Option<Self> {
        let (base, it) = (&tried[IN_FORCE], &tried[index]);
        let (gain, doubt) = gain(&ratios(it, base))?;
        let best = |figure: fn(&MixedSample) -> f64| {
            tried.iter().filter_map(|tried| middle(tried, figure)).fold(0.0, f64::max)
        };
        let share = |figure: fn(&MixedSample) -> f64| {
            middle(it, figure).unwrap_or(0.0) / best(figure).max(f64::MIN_POSITIVE)
        };
        Some(Self {
            index,
            gain,
            doubt,
            is_fair: share(MixedSample::work_per_s) >= LEAST_WORK
                && share(MixedSample::writes_per_s) >= LEAST_WRITES,
        })
    }

    /// Whether median and p99 are not worse.
    fn has_no_tail(&self, tried: &[TrialRuns]) -> bool {
        let (ours, theirs) = (tried[self.index].latencies(), tried[IN_FORCE].latencies());
        let is_tail_known = ours.reads.min(theirs.reads) >= TAIL_READS;
        let has_tail = is_tail_known && ours.p99_us > theirs.p99_us * WORSE_TAIL;
        ours.median_us <= theirs.median_us && !has_tail
    }

    /// Whether its reads are faster than another one's, by more than luck and by more than nothing.
    fn beats(&self, other: &Self, tried: &[TrialRuns]) -> bool {
        let gain = gain(&ratios(&tried[self.index], &tried[other.index]));
        gain.is_some_and(|(gain, doubt)| gain > TIE.ln() && gain > doubt * TIE_DOUBT)
    }

    fn is_clear(&self) -> bool {
        self.gain > GAIN.ln() && self.gain > self.doubt
    }

    fn why(&self, tried: &[TrialRuns]) -> String {
        let (base, it) = (&tried[IN_FORCE], &tried[self.index]);
        let (before, after) = (base.latencies(), it.latencies());
        let mb = |tried: &TrialRuns| middle(tried, MixedSample::written_mb_per_s).unwrap_or(0.0);
        format!(
            "beside a flood of writes a read takes {} instead of {}; writers get {:.1} MB/s, not \
             {:.1}",
            shown(after.median_us),
            shown(before.median_us),
            mb(it),
            mb(base),
        )
    }
}

/// The logarithm of the ratio of one trial's read rate to the other's, for each round in which both
/// ran. Round 0 does not count: it selected the trials, partly by chance.
fn ratios(one: &TrialRuns, other: &TrialRuns) -> Vec<f64> {
    let rate_in = |tried: &TrialRuns, round: u32| {
        let run = tried.runs.iter().find(|(number, _)| *number == round);
        run.map(|(_, sample)| sample.reads_per_s()).filter(|rate| *rate > 0.0)
    };
    let rounds = one.runs.iter().map(|(round, _)| *round).filter(|round| *round > 0);
    rounds.filter_map(|round| Some((rate_in(one, round)? / rate_in(other, round)?).ln())).collect()
}

/// The mean, and by how much it may be wrong. None of fewer than three: their spread is unknown.
fn gain(ratios: &[f64]) -> Option<(f64, f64)> {
    let &t = T_995.get(ratios.len().checked_sub(3)?).unwrap_or(&T_995[T_995.len() - 1]);
    let count = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let spread = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((mean, t * (spread / count).sqrt()))
}

fn why_not(tried: &[TrialRuns], candidates: &[TrialCandidate]) -> String {
    let best = candidates.iter().max_by(|a, b| a.gain.total_cmp(&b.gain));
    let Some(best) = best else {
        return "too few rounds fitted the time to tell".to_owned();
    };
    let name = &tried[best.index].trial;
    let percent = (best.gain.exp() - 1.0) * 100.0;
    if !best.is_clear() {
        format!("nothing that was tried is clearly faster: the best, {name}, {percent:+.0} %")
    } else if !best.is_fair {
        format!("{name} is {percent:+.0} % faster, but at too high a price for writers")
    } else {
        format!("{name} is {percent:+.0} % faster, but its slow reads are slower")
    }
}

fn shown(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1000.0) }
}

/// A change has to be worth its explanation.
const GAIN: f64 = 1.10;

/// Closer together than that, the one that changes less.
const TIE: f64 = 1.05;

/// Between two good ones a wrong choice costs little: less doubt is asked for than for a change.
const TIE_DOUBT: f64 = 0.6;

/// Knowing it better than that changes nothing.
const PRECISE: f64 = 1.05;

/// Of the best one's requests a second: a setting that loses more keeps the device idle.
pub(super) const LEAST_WORK: f64 = 0.8;

/// Of the best one's writes. At half, a depth of 1 on one head would be a matter of luck, and a
/// copy of a file beside the reader would take twice as long.
pub(super) const LEAST_WRITES: f64 = 0.65;

/// With fewer reads p99 is the slowest one, and luck.
const TAIL_READS: usize = 200;

/// By so much p99 may seem worse: it is known to no better than that.
const WORSE_TAIL: f64 = 1.25;

/// Student's t, 99.5 %, one-sided, for 3 rounds, 4, ..: several are compared, after each round.
const T_995: [f64; 14] =
    [9.92, 5.84, 4.6, 4.03, 3.71, 3.5, 3.36, 3.25, 3.17, 3.11, 3.05, 3.01, 2.98, 2.95];
