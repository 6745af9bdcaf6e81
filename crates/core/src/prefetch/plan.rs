//! Turns a question to a policy into a plan: the advice and the rules around the policy, the
//! decision, and the pages to read for it.

use core::ops::Range;

use super::decision::{
    Allotment, Ask, Decided, Decision, Pattern, Residency, Trigger, WindowLimits,
};
use super::policy::Policy;
use super::policy::rules::Rules;
use super::stream_state::{Advice, StreamState};
use super::streams::Streams;
use crate::units::{PageIndex, Pages};

/// Pages to read for one decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// Question.
    pub ask: Ask,
    /// Answer. The window of a random read is clipped at the end of the file.
    pub decision: Decision,
    /// Pages to read, clipped at the end of the file; for a window with gaps, from the first piece
    /// on.
    pub pages: Range<PageIndex>,
    /// Page whose use requests the next window.
    pub marker: Option<PageIndex>,
    /// Pages of the last window to protect from eviction, because one of them was evicted too
    /// early.
    pub rescue: Option<Range<PageIndex>>,
}

/// State kept between reads: policies use either the stream's or the file's.
#[derive(Debug)]
pub struct PolicyMemory<'m> {
    /// State of the stream; each reader has its own.
    pub stream: &'m mut StreamState,
    /// State of the file, shared by all its readers.
    pub file: &'m mut Streams,
}

/// A policy, with the rules that apply before and after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuledPolicy {
    pub(super) policy: Policy,
    pub(super) rules: Rules,
}

impl Plan {
    /// Returns the plan and its outcome as one line of a trace.
    #[must_use]
    pub fn decided(&self, submitted: Pages) -> Decided {
        Decided { ask: self.ask, decision: self.decision, submitted }
    }
}

impl RuledPolicy {
    /// Returns the limits of the window for this question, given those of small reads.
    pub(super) fn limits_of(self, ask: Ask, common: WindowLimits) -> WindowLimits {
        self.policy.limits_for(ask, common)
    }

    /// Returns a decision that precedes the policy's: by advice, or by a rule.
    pub(super) fn without_policy(
        self,
        stream: &StreamState,
        ask: Ask,
        advice: Advice,
        limits: WindowLimits,
    ) -> Option<Decision> {
        if advice == Advice::Random && ask.trigger == Trigger::Miss {
            return Some(Decision::random(ask, ask.count));
        }
        self.rules.before(stream, ask, limits)
    }

    /// Asks the policy, within the stream's part of the shared memory.
    pub(super) fn decide(
        self,
        memory: PolicyMemory<'_>,
        ask: Ask,
        limits: WindowLimits,
        allotment: Allotment,
        end: PageIndex,
        cache: &impl Residency,
    ) -> Option<Decision> {
        let PolicyMemory { stream, file } = memory;
        let max = allotment.max;
        let limits = WindowLimits { max, ..limits };
        let decision = self.policy.decide_within(stream, file, ask, limits, allotment, cache)?;
        let max = if self.policy == Policy::None { Pages::ZERO } else { max };
        Some(self.rules.after(decision, stream, ask, max, end))
    }

    /// Returns the pages to read for a decision, and stores it in the stream's state.
    pub(super) fn plan(
        self,
        stream: &mut StreamState,
        ask: Ask,
        mut decision: Decision,
        end: PageIndex,
    ) -> Plan {
        let is_lost = decision.pattern == Pattern::Thrash;
        let rescue = is_lost.then(|| ask.page..stream.fetched.end().min(end));
        if decision.is_remembered() {
            stream.window = decision.window;
        }
        stream.fetched = decision.window;
        let marker = self.policy.marker(decision.window, end);
        let window = decision.window.clipped(end);
        debug_assert!(marker.is_none_or(|marker| marker < end), "a marker is in its file");
        if decision.pattern == Pattern::Random {
            decision.window = window;
        }
        Plan { ask, decision, pages: window.start..window.end(), marker, rescue }
    }
}

impl StreamState {
    /// Records the number of pages of a plan that were requested.
    pub(super) fn submitted(&mut self, pages: Pages) {
        if pages > Pages::ZERO {
            self.seeked = false;
        }
    }
}
