//! Scenarios in which a rival beats `adaptive`, and by how much.
//!
//! For each scenario and measure this is the rival furthest ahead; if its readers wait longer, also
//! the furthest one whose readers do not. A rival counts only if it serves as well: reading less in
//! the same time takes fewer requests.

use std::fmt;

use foreread_core::prefetch::Policy;

use super::row::RivalRow;

/// A figure in which a rival is ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Scenario.
    pub scenario: &'static str,
    /// Measure.
    pub measure: &'static str,
    /// True if larger is better.
    pub more_is_better: bool,
    /// The policy that is ahead, with its largest window.
    pub rival: String,
    /// Figure of the rival.
    pub rivals: f64,
    /// Figure of `adaptive`.
    pub ours: f64,
}

/// Returns all losses above 2 %.
#[must_use]
pub fn losses(rows: &[RivalRow]) -> Vec<Loss> {
    let mut all = Vec::new();
    for ours in rows_of_adaptive(rows) {
        let rivals = rivals_of(ours, rows);
        all.extend(MEASURES.iter().flat_map(|measure| measure.losses(ours, &rivals)));
    }
    all
}

/// Returns the rows of `adaptive` with all parts enabled.
pub(super) fn rows_of_adaptive(rows: &[RivalRow]) -> impl Iterator<Item = &RivalRow> {
    rows.iter().filter(|row| row.policy == Policy::Adaptive.name() && row.without.is_empty())
}

/// Returns the rows of the other policies in the same scenario, with the same eviction policy.
pub(super) fn rivals_of<'r>(ours: &RivalRow, rows: &'r [RivalRow]) -> Vec<&'r RivalRow> {
    let is_rival = |row: &&RivalRow| {
        let is_beside = (row.scenario, row.eviction) == (ours.scenario, ours.eviction);
        is_beside && row.policy != ours.policy
    };
    rows.iter().filter(is_rival).collect()
}

/// Returns true if a policy delivers the same throughput, and its rate to at least as many clients.
pub(super) fn serves_as_well(row: &RivalRow, ours: &RivalRow) -> bool {
    row.mb_per_s >= ours.mb_per_s * SAME && row.at_rate >= ours.at_rate
}

/// Returns true if a figure is significantly less than another.
fn is_less(less: f64, more: f64, least: f64) -> bool {
    less < more * SAME && more - less >= least
}

struct LossMetric {
    name: &'static str,
    of: fn(&RivalRow) -> f64,
    more_is_better: bool,
    /// Smallest absolute difference that counts, regardless of the ratio.
    least: f64,
}

#[expect(clippy::cast_precision_loss, reason = "ratios")]
const MEASURES: [LossMetric; 6] = [
    LossMetric { name: "MB/s", of: |row| row.mb_per_s, more_is_better: true, least: 0.01 },
    LossMetric {
        name: "s waited",
        of: |row| row.waited_s,
        more_is_better: false,
        least: LEAST_WAITED_S,
    },
    LossMetric {
        name: "s of device time",
        of: |row| row.device_s,
        more_is_better: false,
        least: 0.1,
    },
    LossMetric {
        name: "requests",
        of: |row| row.requests as f64,
        more_is_better: false,
        least: 10.0,
    },
    LossMetric {
        name: "bytes per byte wanted",
        of: |row| row.amplification,
        more_is_better: false,
        least: 0.005,
    },
    LossMetric {
        name: "unread pages evicted",
        of: |row| row.evicted_unread as f64,
        more_is_better: false,
        least: 1.0,
    },
];

impl LossMetric {
    fn losses(&self, ours: &RivalRow, rivals: &[&RivalRow]) -> Vec<Loss> {
        // A policy that reads less evicts less: only policies that serve as well can be ahead.
        let mut serving = rivals.to_vec();
        serving.retain(|row| serves_as_well(row, ours));
        let furthest = self.best(&serving);
        serving.retain(|row| !is_less(ours.waited_s, row.waited_s, LEAST_WAITED_S));
        let without_waits = self.best(&serving);
        let is_another = |row: &&RivalRow| furthest.is_none_or(|first| !std::ptr::eq(first, *row));
        let all = furthest.into_iter().chain(without_waits.filter(is_another));
        all.filter_map(|rival| self.loss(ours, rival)).collect()
    }

    fn best<'r>(&self, rows: &[&'r RivalRow]) -> Option<&'r RivalRow> {
        let key =
            |row: &RivalRow| if self.more_is_better { -(self.of)(row) } else { (self.of)(row) };
        rows.iter().copied().min_by(|a, b| key(a).total_cmp(&key(b)))
    }

    fn loss(&self, ours: &RivalRow, rival: &RivalRow) -> Option<Loss> {
        let (mine, theirs) = ((self.of)(ours), (self.of)(rival));
        let (less, more) = if self.more_is_better { (mine, theirs) } else { (theirs, mine) };
        is_less(less, more, self.least).then(|| Loss {
            scenario: ours.scenario,
            measure: self.name,
            more_is_better: self.more_is_better,
            rival: rival.label(),
            rivals: theirs,
            ours: mine,
        })
    }
}

/// Smallest difference in the total wait of all readers that counts.
const LEAST_WAITED_S: f64 = 0.5;

/// Ratio above which two figures count as equal.
pub(super) const SAME: f64 = 0.98;

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, measure, rival, rivals, ours, .. } = self;
        let digits = if rivals.max(*ours) < 10.0 { 3 } else { 1 };
        write!(f, "{scenario}: {ours:.digits$} {measure}, {rival} {rivals:.digits$}")?;
        let (less, more) = if self.more_is_better { (ours, rivals) } else { (rivals, ours) };
        if *less <= 0.0 {
            return Ok(());
        }
        let percent = if self.more_is_better {
            (1.0 - less / more) * 100.0
        } else {
            (more / less - 1.0) * 100.0
        };
        let word = if self.more_is_better { "less" } else { "more" };
        write!(f, " ({percent:.0} % {word})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &'static str, mb_per_s: f64, requests: u64, at_rate: usize) -> RivalRow {
        RivalRow {
            scenario: "one",
            policy,
            eviction: "two-lists",
            max_window: (policy != "adaptive").then_some(128 << 10),
            without: Vec::new(),
            elapsed_s: 1.0,
            requests,
            device_s: 1.0,
            amplification: 1.0,
            evicted_unread: 0,
            waited_s: 0.0,
            optimum_requests: None,
            fewest_requests: None,
            fewest_bytes: None,
            device_bytes: 0,
            mb_per_s,
            streams: 2,
            at_rate,
        }
    }

    #[test]
    fn the_rival_that_is_furthest_ahead_is_named_with_both_figures() {
        let rows = [
            row("linux-6", 110.0, 120, 2),
            row("none", 125.0, 1000, 2),
            row("adaptive", 100.0, 150, 2),
        ];
        let said: Vec<_> = losses(&rows).iter().map(ToString::to_string).collect();
        let speed = "one: 100.0 MB/s, none 125.0 (20 % less)";
        assert_eq!(said, [speed, "one: 150.0 requests, linux-6 128K 120.0 (25 % more)"]);
    }

    #[test]
    fn a_policy_that_serves_fewer_or_is_slower_is_not_ahead() {
        let ours = row("adaptive", 100.0, 150, 2);
        assert_eq!(losses(&[row("linux-6", 90.0, 10, 2), ours.clone()]), []);
        assert_eq!(losses(&[row("linux-6", 100.0, 10, 1), ours.clone()]), []);
        assert_eq!(losses(&[row("linux-6", 100.0, 149, 2), ours]), [], "a hundredth is nothing");
    }

    /// Regression: a policy that made its readers wait hid another one that was ahead without
    /// waits.
    #[test]
    fn where_the_readers_of_the_furthest_wait_longer_one_whose_do_not_is_named_too() {
        let waits = |waited_s, row: RivalRow| RivalRow { waited_s, ..row };
        let ours = waits(45.7, row("adaptive", 315.1, 150, 2));
        let patient = waits(95.1, row("none", 368.0, 150, 2));
        let ahead = waits(46.1, row("distance", 327.3, 150, 2));
        let behind = waits(45.0, row("linux-6", 316.0, 150, 2));
        let said =
            |rows: &[RivalRow]| losses(rows).iter().map(ToString::to_string).collect::<Vec<_>>();
        let none = "one: 315.1 MB/s, none 368.0 (14 % less)";
        let both = [none, "one: 315.1 MB/s, distance 128K 327.3 (4 % less)"];
        assert_eq!(said(&[patient.clone(), ahead.clone(), behind.clone(), ours.clone()]), both);
        assert_eq!(said(&[patient, behind, ours.clone()]), [none], "a hundredth is nothing");
        assert_eq!(said(&[ahead, ours]), both[1..], "and once if it is the furthest");
    }

    #[test]
    fn what_is_left_of_adaptive_without_a_part_is_no_rival() {
        let mut part = row("adaptive", 200.0, 10, 2);
        part.without = vec!["law"];
        assert_eq!(part.label(), "adaptive -law");
        assert_eq!(losses(&[part, row("adaptive", 100.0, 150, 2)]), []);
    }
}
