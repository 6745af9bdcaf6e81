//! Chooses a setting from the results of all trials.
//!
//! A change has to be clearly better than the setting in force, measured side by side. Otherwise
//! the verdict is to keep the setting in force.
//!
//! The criterion is the duration of the chain of reads, which its reader waits for. It is a mean,
//! so slow reads count in full; median and p99 must not get worse.
//!
//! **Limit on the loss of writers.** On a disk with one head each read displaces a write, so faster
//! reads always mean fewer writes, and a setting is not to blame for that. Reads and writes are
//! therefore counted together, and [`LEAST_WORK`] of the best total has to be kept. In addition,
//! writers keep at least [`LEAST_WRITES`] of their throughput:
//!
//! ```text
//!   one head, async_depth writes for each read     1      2      4      16
//!   the writers' part                             1/2    2/3    4/5    16/17
//!                                                  no     yes ->
//! ```

use super::mixed_load::MixedSample;
use super::trial_runs::{IN_FORCE, TrialRuns, changes, middle};

/// The chosen setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FloodVerdict {
    /// Index of the trial; None to keep the setting in force.
    pub choice: Option<usize>,
    /// Reason.
    pub why: String,
}

/// Judges the trials. An incomplete measurement gives no choice.
#[must_use]
pub fn verdict(tried: &[TrialRuns], is_complete: bool) -> FloodVerdict {
    let keep = |why: String| FloodVerdict { choice: None, why };
    if !is_complete {
        return keep("stopped with too few measurements".to_owned());
    }
    if tried.iter().filter(|it| !it.runs.is_empty()).count() < 2 {
        return keep("nothing else could be tried".to_owned());
    }
    let candidates: Vec<TrialCandidate> =
        (1..tried.len()).filter_map(|index| TrialCandidate::new(tried, index)).collect();
    let is_good = |it: &&TrialCandidate| it.is_clear() && it.is_fair && it.has_no_tail(tried);
    let mut good: Vec<&TrialCandidate> = candidates.iter().filter(is_good).collect();
    // The simplest first; among equally simple ones, the best.
    good.sort_by(|a, b| {
        let simple = changes(tried, a.index).cmp(&changes(tried, b.index));
        simple.then(b.gain.total_cmp(&a.gain))
    });
    let Some((&first, rest)) = good.split_first() else {
        return keep(why_not(tried, &candidates));
    };
    let mut chosen = first;
    for &other in rest {
        // A trial that changes more settings must be significantly better.
        if other.beats(chosen, tried) {
            chosen = other;
        }
    }
    FloodVerdict { choice: Some(chosen.index), why: chosen.why(tried) }
}

/// Returns whether more rounds would hardly change the verdict: each trial is known well enough, or
/// brings no gain, or is clearly behind the best.
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

/// A trial compared with the one in force.
struct TrialCandidate {
    index: usize,
    /// Logarithm of the read speed-up, and its uncertainty.
    gain: f64,
    doubt: f64,
    /// True if device and writers still do enough work.
    is_fair: bool,
}

impl TrialCandidate {
    /// Returns None if it was not measured often enough side by side with the one in force.
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

    /// Returns whether median and p99 are no worse.
    fn has_no_tail(&self, tried: &[TrialRuns]) -> bool {
        let (ours, theirs) = (tried[self.index].latencies(), tried[IN_FORCE].latencies());
        let is_tail_known = ours.reads.min(theirs.reads) >= TAIL_READS;
        let has_tail = is_tail_known && ours.p99_us > theirs.p99_us * WORSE_TAIL;
        ours.median_us <= theirs.median_us && !has_tail
    }

    /// Returns whether its reads are faster than another's, by more than luck and by more than a
    /// tie.
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
            "under a flood of writes a read takes {} instead of {}; writers get {:.1} MB/s \
             instead of {:.1}",
            shown(after.median_us),
            shown(before.median_us),
            mb(it),
            mb(base),
        )
    }
}

/// Returns the logarithms of the ratio of read rates, for each round in which both trials ran.
/// Round 0 does not count: it selected the trials, partly by chance.
fn ratios(one: &TrialRuns, other: &TrialRuns) -> Vec<f64> {
    let rate_in = |tried: &TrialRuns, round: u32| {
        let run = tried.runs.iter().find(|(number, _)| *number == round);
        run.map(|(_, sample)| sample.reads_per_s()).filter(|rate| *rate > 0.0)
    };
    let rounds = one.runs.iter().map(|(round, _)| *round).filter(|round| *round > 0);
    rounds.filter_map(|round| Some((rate_in(one, round)? / rate_in(other, round)?).ln())).collect()
}

/// Returns the mean and its uncertainty. None for fewer than three ratios, whose spread is unknown.
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
        return "too few rounds fit the time to compare the settings".to_owned();
    };
    let name = &tried[best.index].trial;
    let percent = (best.gain.exp() - 1.0) * 100.0;
    if !best.is_clear() {
        format!("no setting is clearly faster: the best, {name}, {percent:+.0} %")
    } else if !best.is_fair {
        format!("{name} is {percent:+.0} % faster, but slows writers too much")
    } else {
        format!("{name} is {percent:+.0} % faster, but its slow reads are slower")
    }
}

fn shown(us: f64) -> String {
    if us < 1000.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1000.0) }
}

/// Gain that makes a change worth explaining.
const GAIN: f64 = 1.10;

/// Factor within which the trial with fewer changes wins.
const TIE: f64 = 1.05;

/// Between two good trials a wrong choice costs little, so less certainty is required than for a
/// change.
const TIE_DOUBT: f64 = 0.6;

/// Precision at which a trial needs no more runs: more would not change the verdict.
const PRECISE: f64 = 1.05;

/// Share of the best trial's requests per second: a setting below it leaves the device idle.
pub(super) const LEAST_WORK: f64 = 0.8;

/// Share of the best trial's writes. At half, a depth of 1 on one head would pass or fail by luck,
/// and a file copy during the reads would take twice as long.
pub(super) const LEAST_WRITES: f64 = 0.65;

/// Fewest reads for p99: with fewer, it is a single read, which is luck.
const TAIL_READS: usize = 200;

/// p99 may seem worse by this factor: it is known no better than that.
const WORSE_TAIL: f64 = 1.25;

/// Student's t, 99.5 %, one-sided, for 3 rounds, 4, ..: several trials are compared after each
/// round.
const T_995: [f64; 14] =
    [9.92, 5.84, 4.6, 4.03, 3.71, 3.5, 3.36, 3.25, 3.17, 3.11, 3.05, 3.01, 2.98, 2.95];
