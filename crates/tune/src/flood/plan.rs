//! Chooses the next trial, and ends the measurement once the result is clear.
//!
//! It needs no clock and no device. The order follows from a seed.
//!
//! ```text
//!   survey    the one in force, then each other one once, shuffled
//!   rounds    the one in force and the best few, each once a round, shuffled, until it is clear
//! ```
//!
//! Trials run in rounds because a flooded disk slows down: its cache fills, its flash needs
//! erasing. Compared settings are measured side by side, and a lucky winner of the survey has to
//! win again.

use std::collections::VecDeque;
use std::time::Duration;

use super::mixed_load::MixedSample;
use super::trial::Trial;
use super::trial_runs::{IN_FORCE, TrialRuns, changes};
use super::verdict::{LEAST_WORK, LEAST_WRITES, is_settled};
use crate::rng::Rng;
use crate::sysfs::Queue;

/// Next action.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextTrial {
    /// Runs one trial.
    Run {
        /// Index of the trial.
        index: usize,
        /// Duration of the run.
        time: Duration,
    },
    /// Nothing; the result is clear.
    Enough,
}

/// State of a measurement.
#[derive(Clone, Debug)]
pub struct TrialPlan {
    trials: Vec<Trial>,
    tried: Vec<TrialRuns>,
    budget: Duration,
    rng: Rng,
    /// Remaining trials of this round.
    line: VecDeque<usize>,
    round: u32,
    finalists: Vec<usize>,
    /// End of the last run, and the cost of a run including its start and end.
    last: Duration,
    cost: Duration,
    left_out: usize,
}

impl TrialPlan {
    /// Creates a measurement. The first trial is the one in force.
    ///
    /// # Panics
    ///
    /// If there are no trials.
    #[must_use]
    pub fn new(trials: Vec<Trial>, budget: Duration, seed: u64) -> Self {
        assert!(!trials.is_empty(), "what is in force can always be tried");
        Self {
            tried: trials.iter().cloned().map(TrialRuns::new).collect(),
            trials,
            budget,
            rng: Rng(seed),
            line: VecDeque::from([IN_FORCE]),
            round: 0,
            finalists: Vec::new(),
            last: Duration::ZERO,
            cost: Duration::ZERO,
            left_out: 0,
        }
    }

    /// Returns all trials.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Returns the results of each trial.
    #[must_use]
    pub fn tried(&self) -> &[TrialRuns] {
        &self.tried
    }

    /// Returns the next action after `spent` of the budget.
    #[must_use]
    pub fn next(&mut self, spent: Duration) -> NextTrial {
        while self.line.front().is_some_and(|&index| self.tried[index].is_dropped) {
            self.line.pop_front();
        }
        if self.line.is_empty() {
            self.begin_round(spent);
        }
        match self.line.front() {
            Some(&index) => NextTrial::Run { index, time: self.run_time() },
            None => NextTrial::Enough,
        }
    }

    /// Records the result of a trial's run.
    ///
    /// # Panics
    ///
    /// If the plan did not ask for this trial.
    pub fn add(&mut self, index: usize, sample: MixedSample, spent: Duration) {
        assert_eq!(self.line.front(), Some(&index), "the plan asked for another one");
        self.line.pop_front();
        self.tried[index].runs.push((self.round, sample));
        let cost = spent.saturating_sub(self.last);
        self.cost = if self.cost.is_zero() { cost } else { (self.cost * 3 + cost) / 4 };
        self.last = spent;
        let is_first = self.round == 0 && index == IN_FORCE;
        if is_first {
            self.survey(spent);
        }
    }

    /// Records the settings in force while a trial ran.
    pub fn describe(&mut self, index: usize, queue: Queue) {
        self.tried[index].queue = queue;
    }

    /// Drops a trial that cannot be set.
    pub fn drop_trial(&mut self, index: usize) {
        self.tried[index].is_dropped = true;
        self.line.retain(|&other| other != index);
    }

    /// Returns notes on trials that did not fit the time.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let slow = (self.left_out > 0).then(|| {
            format!("the device is slow: {} more settings did not fit the time", self.left_out)
        });
        slow.into_iter().collect()
    }

    /// Plans the rest of the survey: as many trials as its part of the budget allows, the most
    /// promising first.
    fn survey(&mut self, spent: Duration) {
        let others = self.trials.len() - 1;
        let left = self.budget.mul_f64(SURVEY_PART).saturating_sub(spent);
        let fit = others.min(self.runs_in(left).max(LEAST_SURVEYED));
        self.left_out = others - fit;
        let mut line: Vec<usize> = (1..=fit).collect();
        self.rng.shuffle(&mut line);
        self.line = line.into();
    }

    fn begin_round(&mut self, spent: Duration) {
        if self.round == 0 {
            self.finalists = self.choose_finalists(spent);
        }
        let is_alone = self.finalists.len() < 2 || self.tried[IN_FORCE].is_dropped;
        let is_clear = self.round >= LEAST_ROUNDS && is_settled(&self.tried);
        let is_late = self.runs_in(self.budget.saturating_sub(spent)) < self.finalists.len();
        // On a device slower than it seemed, a few extra rounds are better than no answer.
        let is_too_late = spent > self.budget * 2;
        let most = if is_alone { ROUNDS_ALONE } else { MOST_ROUNDS };
        if is_clear || self.round >= most || (is_late && self.round >= 3) || is_too_late {
            return;
        }
        self.round += 1;
        let mut line = self.finalists.clone();
        self.rng.shuffle(&mut line);
        self.line = line.into();
    }

    /// Chooses the trial in force, and those with the fastest readers whose writers still make
    /// progress.
    fn choose_finalists(&self, spent: Duration) -> Vec<usize> {
        let all = || (0..self.tried.len()).filter(|&index| !self.tried[index].is_dropped);
        let sample = |index: usize| self.tried[index].runs.first().map(|(_, sample)| sample);
        let best = |figure: fn(&MixedSample) -> f64| {
            all().filter_map(sample).map(figure).fold(0.0, f64::max)
        };
        let (work, writes) = (best(MixedSample::work_per_s), best(MixedSample::writes_per_s));
        let mut others: Vec<(usize, f64)> = all()
            .filter(|&index| index != IN_FORCE)
            .filter_map(|index| sample(index).map(|sample| (index, sample)))
            .filter(|(_, sample)| sample.work_per_s() >= LEAST_WORK * SURVEY_SLACK * work)
            .filter(|(_, sample)| sample.writes_per_s() >= LEAST_WRITES * SURVEY_SLACK * writes)
            .map(|(index, sample)| (index, sample.reads_per_s()))
            .collect();
        let fit = self.runs_in(self.budget.saturating_sub(spent)) / LEAST_ROUNDS as usize;
        let seats = fit.saturating_sub(1).clamp(1, MOST_FINALISTS);
        others.sort_by(|a, b| b.1.total_cmp(&a.1));
        if seats == 1 {
            // There is no time to separate the best from its neighbours, so prefer the one that
            // changes least.
            let best = others.first().map_or(0.0, |(_, reads)| *reads);
            others.retain(|(_, reads)| *reads >= best * SURVEY_SLACK);
            others.sort_by_key(|(index, _)| (changes(&self.tried, *index), *index));
        }
        let chosen = others.into_iter().take(seats).map(|(index, _)| index);
        let in_force = (!self.tried[IN_FORCE].is_dropped).then_some(IN_FORCE);
        in_force.into_iter().chain(chosen).collect()
    }

    /// Returns the number of runs that fit into a time.
    fn runs_in(&self, time: Duration) -> usize {
        let runs = time.as_nanos() / self.cost.as_nanos().max(1);
        usize::try_from(runs).unwrap_or(usize::MAX)
    }

    /// Returns the counted duration of one run.
    fn run_time(&self) -> Duration {
        (self.budget / RUNS_IN_BUDGET).clamp(SHORTEST, LONGEST)
    }
}

/// Share of the budget for trying each setting once; the following rounds decide.
const SURVEY_PART: f64 = 0.45;

/// Minimum even on the slowest device: the two settings that matter in the simulator's seeds.
const LEAST_SURVEYED: usize = 2;

/// Possible error of a single run, as a factor.
const SURVEY_SLACK: f64 = 0.85;

/// Largest number of finalists, in addition to the settings in force.
const MOST_FINALISTS: usize = 3;

/// Rounds needed to separate spread from luck.
const LEAST_ROUNDS: u32 = 4;

/// A gain that is still unclear by then is not worth a change.
const MOST_ROUNDS: u32 = 16;

/// Rounds if there is nothing to compare with.
const ROUNDS_ALONE: u32 = 4;

/// Ten in the survey, four in each of ten rounds.
const RUNS_IN_BUDGET: u32 = 50;

/// About ten reads on a rotating disk, a thousand on flash.
const SHORTEST: Duration = Duration::from_millis(100);

/// Longer runs add no information.
const LONGEST: Duration = Duration::from_secs(1);
