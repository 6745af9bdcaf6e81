//! Which trial is run next, and when it is enough.
//!
//! In:    trials, a budget of time; what each run gave and how long it took.
//! Out:   [`NextTrial`].
//! Never: a clock, a device. The order comes from a seed.
//!
//! ```text
//!   survey    the one in force, then each other one once, shuffled
//!   rounds    the one in force and the best few, each once a round, shuffled, until it is clear
//! ```
//!
//! In rounds, because a disk that is flooded slows down: its cache fills, its flash has to be
//! erased. What is compared is measured side by side, and a survey's lucky winner proves itself
//! again.

use std::collections::VecDeque;
use std::time::Duration;

use super::mixed_load::MixedSample;
use super::trial::Trial;
use super::trial_runs::{IN_FORCE, TrialRuns, changes};
use super::verdict::{LEAST_WORK, LEAST_WRITES, is_settled};
use crate::rng::Rng;
use crate::sysfs::Queue;

/// What to do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextTrial {
    /// One run.
    Run {
        /// Of this trial,
        index: usize,
        /// so long.
        time: Duration,
    },
    /// Nothing more.
    Enough,
}

/// The course of a measurement.
#[derive(Clone, Debug)]
pub struct TrialPlan {
    trials: Vec<Trial>,
    tried: Vec<TrialRuns>,
    budget: Duration,
    rng: Rng,
    /// What is left of this round.
    line: VecDeque<usize>,
    round: u32,
    finalists: Vec<usize>,
    /// When the last run had ended, and what a run costs with its start and end.
    last: Duration,
    cost: Duration,
    left_out: usize,
}

impl TrialPlan {
    /// A measurement that has not begun. The first trial is the one in force.
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

    /// All trials.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// What each gave.
    #[must_use]
    pub fn tried(&self) -> &[TrialRuns] {
        &self.tried
    }

    /// What to do after `spent` of the budget.
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

    /// Takes what the run of this trial gave.
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

    /// What was in force while a trial ran.
    pub fn describe(&mut self, index: usize, queue: Queue) {
        self.tried[index].queue = queue;
    }

    /// This one cannot be set: never again.
    pub fn drop_trial(&mut self, index: usize) {
        self.tried[index].is_dropped = true;
        self.line.retain(|&other| other != index);
    }

    /// What could not be done in time.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let slow = (self.left_out > 0).then(|| {
            format!("a slow device: {} more settings did not fit the time", self.left_out)
        });
        slow.into_iter().collect()
    }

    /// The rest of the survey: as much as fits its part of the budget, what promises most first.
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
        // On a device that is slower than it seemed a few rounds more are better than no answer.
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

    /// The one in force, and of those whose writers still work the ones with the fastest readers.
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
            // There is no time to tell the best from those near it: then what changes least.
            let best = others.first().map_or(0.0, |(_, reads)| *reads);
            others.retain(|(_, reads)| *reads >= best * SURVEY_SLACK);
            others.sort_by_key(|(index, _)| (changes(&self.tried, *index), *index));
        }
        let chosen = others.into_iter().take(seats).map(|(index, _)| index);
        let in_force = (!self.tried[IN_FORCE].is_dropped).then_some(IN_FORCE);
        in_force.into_iter().chain(chosen).collect()
    }

    /// How many runs fit.
    fn runs_in(&self, time: Duration) -> usize {
        let runs = time.as_nanos() / self.cost.as_nanos().max(1);
        usize::try_from(runs).unwrap_or(usize::MAX)
    }

    /// How long one run counts.
    fn run_time(&self) -> Duration {
        (self.budget / RUNS_IN_BUDGET).clamp(SHORTEST, LONGEST)
    }
}

/// Of the budget, for trying each once: the rounds after it decide.
const SURVEY_PART: f64 = 0.45;

/// Even on the slowest device: the two settings that the seeds of this project show to matter.
const LEAST_SURVEYED: usize = 2;

/// One run each may be wrong by so much.
const SURVEY_SLACK: f64 = 0.85;

/// Beside the one in force.
const MOST_FINALISTS: usize = 3;

/// From so many on a spread can be told from luck.
const LEAST_ROUNDS: u32 = 4;

/// What is not clear by then is not worth a change.
const MOST_ROUNDS: u32 = 16;

/// With nothing to compare with.
const ROUNDS_ALONE: u32 = 4;

/// Ten in the survey, four in each of ten rounds.
const RUNS_IN_BUDGET: u32 = 50;

/// Some ten reads on a disk that rotates, on flash a thousand.
const SHORTEST: Duration = Duration::from_millis(100);

/// More says nothing new.
const LONGEST: Duration = Duration::from_secs(1);
