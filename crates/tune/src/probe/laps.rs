//! Divides a stream's time into equal parts.
//!
//! A lap is a whole number of windows. Otherwise it would include a window in flight at one end and
//! not at the other.

use std::time::{Duration, Instant};

use foreread_core::units::{self, ByteCount};

use super::{SampleSlice, SequentialRead};

/// The laps of a stream.
#[derive(Debug)]
pub(crate) struct Laps {
    /// Origin of instants.
    zero: Instant,
    asked: SequentialRead,
    began: Instant,
    /// Bytes in a lap.
    lap: u64,
    laps: Vec<Lap>,
    /// Start of the current lap; None during ramp-up.
    open: Option<(Instant, u64)>,
    /// Bytes read, including those that do not count.
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

    /// Returns the bytes in a lap.
    pub(crate) fn lap(&self) -> u64 {
        self.lap
    }

    /// Starts counting: the stream has reached its full window.
    pub(crate) fn count_from(&mut self, now: Instant) {
        self.open = Some((now, 0));
    }

    /// Discards the current lap when the stream is interrupted.
    pub(crate) fn pause(&mut self) {
        self.open = None;
    }

    /// Ends the stream. Nothing is in flight, so the current lap counts.
    pub(crate) fn close(&mut self, now: Instant) {
        if let Some((since, bytes)) = self.open.take().filter(|open| open.1 > 0 && open.0 < now) {
            self.push(since, bytes, now);
        }
    }

    /// Adds bytes that have been read.
    pub(crate) fn add(&mut self, bytes: u64, now: Instant) {
        self.read += bytes;
        let Some((since, read)) = &mut self.open else { return };
        *read += bytes;
        // Two windows can arrive at once, the first of them late.
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

    /// Returns whether the stream is long enough.
    pub(crate) fn is_enough(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= self.asked.at_most
            || (self.counted >= self.asked.time && self.bytes() >= self.asked.at_least.0)
    }

    fn bytes(&self) -> u64 {
        self.laps.iter().map(|lap| lap.bytes).sum()
    }

    /// Returns slices of several laps each. A stream without a complete lap becomes one slice.
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

/// Reading the clock costs little compared with a read of this size.
const LAP_BYTES: u64 = 64 << 10;

/// Most laps kept for a stream; a longer stream has longer laps.
const LAPS_MAX: usize = 4096;

/// Enough to show a device that slows down.
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
