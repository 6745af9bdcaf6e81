//! A stream's time, in equal parts.
//!
//! In:    how far a reader has come, and when.
//! Out:   [`SampleSlice`]s of a few laps each; whether the stream is long enough.
//! Never: a lap that is not a number of whole windows: it would catch a window that is on its way
//!        at one end and not at the other.

use std::time::{Duration, Instant};

use foreread_core::units::{self, ByteCount};

use super::{SampleSlice, SequentialRead};

/// A stream's laps.
#[derive(Debug)]
pub(crate) struct Laps {
    /// What instants count from.
    zero: Instant,
    asked: SequentialRead,
    began: Instant,
    /// Bytes of a lap.
    lap: u64,
    laps: Vec<Lap>,
    /// Where the lap began that is being read; None in what comes before the full window.
    open: Option<(Instant, u64)>,
    /// All that was read, whether it counts or not.
    read: u64,
    counted: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Lap {
    end: Instant,
    time: Duration,
    bytes: u64,
}

impl Laps {
    pub(crate) fn new(asked: &SequentialRead, zero: Instant, now: Instant) -> Self {
        let window = asked.window.0.max(1);
        Self {
            zero,
            asked: *asked,
            began: now,
            lap: window * LAP_BYTES.div_ceil(window).max(1),
            laps: Vec::new(),
            open: None,
            read: 0,
            counted: Duration::ZERO,
        }
    }

    /// Bytes of a lap.
    pub(crate) fn lap(&self) -> u64 {
        self.lap
    }

    /// From here on it counts: the stream has its full window.
    pub(crate) fn count_from(&mut self, now: Instant) {
        self.open = Some((now, 0));
    }

    /// The stream is interrupted, and what it has begun does not count.
    pub(crate) fn pause(&mut self) {
        self.open = None;
    }

    /// The stream is at its end: nothing is on its way, so what it has begun counts.
    pub(crate) fn close(&mut self, now: Instant) {
        if let Some((since, bytes)) = self.open.take().filter(|open| open.1 > 0 && open.0 < now) {
            self.push(since, bytes, now);
        }
    }

    /// So much more has been read.
    pub(crate) fn add(&mut self, bytes: u64, now: Instant) {
        self.read += bytes;
        let Some((since, read)) = &mut self.open else { return };
        *read += bytes;
        // Two windows can come at one moment, the first later than it should.
        if *read < self.lap || now <= *since {
            return;
        }
        let (since, read) = (*since, *read);
        self.push(since, read, now);
        self.open = Some((now, 0));
    }

    fn push(&mut self, since: Instant, bytes: u64, now: Instant) {
        let time = now.duration_since(since);
        self.laps.push(Lap { end: now, time, bytes });
        self.counted += time;
        if self.laps.len() >= LAPS_MAX {
            self.laps = self.laps.chunks(2).map(joined).collect();
            self.lap *= 2;
        }
    }

    /// Whether it is enough.
    pub(crate) fn is_enough(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= self.asked.at_most
            || (self.counted >= self.asked.time && self.bytes() >= self.asked.at_least.0)
    }

    fn bytes(&self) -> u64 {
        self.laps.iter().map(|lap| lap.bytes).sum()
    }

    /// Some laps each. A stream that had no time for a whole one is one slice of all that it did.
    pub(crate) fn slices(mut self, now: Instant) -> Vec<SampleSlice> {
        if self.laps.is_empty() && self.read > 0 {
            let (since, bytes) =
                self.open.filter(|open| open.1 > 0).unwrap_or((self.began, self.read));
            self.laps.push(Lap { end: now, time: now.duration_since(since), bytes });
        }
        let each = self.laps.len().div_ceil(SLICES_MAX).max(1);
        let slice = |lap: Lap| SampleSlice {
            at: instant(lap.end.duration_since(self.zero)),
            bytes: ByteCount(lap.bytes),
            ns: ns(lap.time),
        };
        self.laps.chunks(each).map(joined).map(slice).collect()
    }
}

fn joined(laps: &[Lap]) -> Lap {
    Lap {
        end: laps[laps.len() - 1].end,
        time: laps.iter().map(|lap| lap.time).sum(),
        bytes: laps.iter().map(|lap| lap.bytes).sum(),
    }
}

pub(crate) fn instant(since: Duration) -> units::Nanos {
    units::Nanos(ns(since))
}

pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A look at the clock costs little beside a read of so much.
const LAP_BYTES: u64 = 64 << 10;

/// Kept of one stream; a longer one has longer laps.
const LAPS_MAX: usize = 4096;

/// Enough to see a device slow down.
const SLICES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(window: u64, reads: u64, bytes: u64) -> Vec<SampleSlice> {
        let zero = crate::clock::now();
        let asked = SequentialRead {
            window: ByteCount(window),
            at_least: ByteCount(1),
            time: Duration::ZERO,
            at_most: Duration::from_secs(1000),
        };
        let mut laps = Laps::new(&asked, zero, zero);
        let at = |n: u64| zero + Duration::from_millis(n);
        laps.add(bytes, at(1));
        assert!(!laps.is_enough(at(1)), "nothing counts yet");
        laps.count_from(at(1));
        for n in 0..reads {
            laps.add(bytes, at(n + 2));
        }
        laps.slices(at(reads + 2))
    }

    #[test]
    fn slices_are_equal_and_hold_whole_windows() {
        for (window, reads) in [(4096, 100_000), (64 << 10, 320), (1 << 20, 1000), (3 << 20, 2000)]
        {
            let slices = stream(window, reads, 16 << 10);
            assert!(slices.len() <= SLICES_MAX);
            let all: u64 = slices.iter().map(|slice| slice.bytes.0).sum();
            assert!(
                all <= reads * (16 << 10) && all + window.max(LAP_BYTES * 64) > reads * (16 << 10)
            );
            for slice in &slices {
                assert_eq!(slice.bytes.0 % window, 0);
                assert_eq!(slice.ns, slice.bytes.0 / (16 << 10) * 1_000_000);
            }
            let (last, others) = slices.split_last().expect("there is one");
            assert!(others.iter().all(|slice| slice.bytes == others[0].bytes));
            assert!(others.iter().all(|slice| slice.bytes >= last.bytes));
        }
    }

    #[test]
    fn a_stream_without_a_whole_lap_is_one_slice() {
        let slices = stream(16 << 20, 10, 1 << 20);
        assert_eq!(slices.len(), 1);
        assert_eq!((slices[0].bytes.0, slices[0].ns), (10 << 20, 11_000_000));
    }
}
