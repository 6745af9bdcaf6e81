//! Probes that lie: no answer ends in a panic or in a sweep without an end.
//!
//! In:    probes whose answers and clock are drawn from a seed.
//! Out:   a sweep that ends, with rows that are numbers.
//! Never: a real second.

use foreread_core::units::{ByteCount, Nanos};
use foreread_tune::advice::{self, DeviceFacts};
use foreread_tune::probe::{Probe, ProbeSample, RandomReads, SampleSlice, SequentialRead, Stopped};
use foreread_tune::report::Profile;
use foreread_tune::sweep::{Sweep, SweepSettings};

/// How many questions any sweep may ask: the longest has 60 s, and a step of it 50 ms.
const QUESTIONS_MAX: u32 = 20_000;

struct Liar {
    state: u64,
    now: u64,
    asked: u32,
    /// How the clock goes on: not at all, backwards, by leaps.
    clock: u64,
    bytes: u64,
    ns: u64,
}

impl Liar {
    fn any(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.state >> 33
    }

    fn pick(&mut self, kind: u64, usual: u64) -> u64 {
        match kind {
            0 => 0,
            1 => usual,
            2 => [0, 1, usual, usual * 1000, 1 << 50][usize::try_from(self.any() % 5).unwrap_or(0)],
            _ => self.any() % (usual + 1),
        }
    }

    fn goes_on(&mut self, at_most_ns: u64) {
        self.asked += 1;
        assert!(self.asked < QUESTIONS_MAX, "a sweep without an end");
        self.now = match self.clock {
            0 => self.now,
            1 => self.now.saturating_sub(1_000_000),
            2 => self.now + 3 * at_most_ns,
            3 => self.now + self.any() % (at_most_ns + 1),
            _ => self.any() << 10,
        };
    }
}

impl Probe for Liar {
    fn now(&self) -> Nanos {
        Nanos(self.now)
    }

    fn sequential(&mut self, ask: &SequentialRead) -> Result<ProbeSample, Stopped> {
        self.goes_on(u64::try_from(ask.at_most.as_nanos()).unwrap_or(u64::MAX >> 20));
        let mut slices = Vec::new();
        for _ in 0..self.any() % 20 {
            slices.push(SampleSlice {
                at: Nanos(self.now),
                bytes: ByteCount(self.pick(self.bytes, ask.window.0)),
                ns: self.pick(self.ns, 1_000_000),
            });
        }
        Ok(ProbeSample { slices, read_before: ByteCount(self.any()) })
    }

    fn random(&mut self, ask: &RandomReads) -> Result<Vec<u64>, Stopped> {
        self.goes_on(u64::try_from(ask.at_most.as_nanos()).unwrap_or(u64::MAX >> 20));
        Ok((0..self.any() % 5).map(|_| self.pick(self.ns, 1_000_000)).collect())
    }
}

#[test]
fn a_sweep_of_nonsense_ends() {
    let sizes = [0, 4096, 1 << 20, 64 << 30, u64::MAX];
    for seed in 0..3000_u64 {
        let (bytes, ns, clock) = (seed % 4, seed / 4 % 4, seed / 16 % 5);
        let mut probe = Liar { state: seed * 977 + 1, now: 1 << 40, asked: 0, clock, bytes, ns };
        let size = ByteCount(sizes[usize::try_from(seed / 80 % 5).unwrap_or(0)]);
        let settings = if seed / 400 % 2 == 0 {
            SweepSettings::quick(size)
        } else {
            SweepSettings::full(size)
        };
        let outcome = Sweep::new(settings).run(&mut probe, &mut |_| ());
        for row in &outcome.rows {
            assert!(row.mb_per_s.is_finite() && row.mb_per_s > 0.0, "seed {seed}: {row:?}");
        }
        for profile in Profile::ALL {
            let report = advice::report(&DeviceFacts::of_model("liar", size), &outcome, profile);
            assert!(report.recommended.is_none_or(|it| !it.why.is_empty()), "seed {seed}");
        }
    }
}
