//! A made block trace, of the shape that a virtual machine's disk has: small and large requests,
//! streams side by side, places that are read again, bursts.
//!
//! In:    the number of requests, a seed.
//! Out:   a trace in VMware's vscsi format, the same on every machine.
//! Never: a part of a recorded trace: the shares below are its shape alone.

use foreread_sim::rng::Rng;

/// Makes a trace of so many requests.
pub(crate) fn block_trace(requests: u32, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut streams = [0; STREAMS].map(|_: u64| rng.below(SECTORS));
    let mut begins = Vec::new();
    let mut at_us = 0.0;
    let mut trace = Vec::new();
    for serial in 0..requests {
        let is_burst = rng.below(10) < 9;
        at_us += rng.exponential(if is_burst { IN_BURST_US } else { BETWEEN_BURSTS_US });
        let length = length(&mut rng);
        let stream = pick(&mut rng, STREAMS);
        if rng.below(10) < 3 {
            let again = if begins.is_empty() { 0 } else { pick(&mut rng, begins.len()) };
            let is_again = rng.below(10) < 6;
            streams[stream] = match begins.get(again) {
                Some(place) if is_again => *place,
                Some(_) | None => rng.below(SECTORS) / 8 * 8,
            };
            begins.push(streams[stream]);
        }
        let command: u16 = if rng.below(10) < 4 { READ_10 } else { WRITE_10 };
        trace.extend(serial.to_le_bytes());
        trace.extend(length.to_le_bytes());
        trace.extend(1_u32.to_le_bytes());
        trace.extend(command.to_le_bytes());
        trace.extend(VSCSI_1.to_le_bytes());
        trace.extend(streams[stream].to_le_bytes());
        trace.extend(whole(at_us).to_le_bytes());
        streams[stream] = (streams[stream] + u64::from(length / 512)) % SECTORS;
    }
    trace
}

/// A length in bytes: a third of them are 64 KiB, a third at most 8 KiB.
fn length(rng: &mut Rng) -> u32 {
    match rng.below(100) {
        0..=6 => 512,
        7..=20 => 4 << 10,
        21..=38 => 8 << 10,
        39..=43 => 16 << 10,
        44..=49 => 32 << 10,
        50..=55 => 60 << 10,
        56..=89 => 64 << 10,
        90.. => 68 << 10,
    }
}

fn pick(rng: &mut Rng, of: usize) -> usize {
    let drawn = rng.below(u64::try_from(of).expect("a count fits"));
    usize::try_from(drawn).expect("it is below a count")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in us")]
fn whole(time_us: f64) -> u64 {
    time_us as u64
}

/// 32 GiB.
const SECTORS: u64 = 1 << 26;

const STREAMS: usize = 16;

/// 31 ms from a request to the next in the mean.
const IN_BURST_US: f64 = 1_000.0;
const BETWEEN_BURSTS_US: f64 = 300_000.0;

const READ_10: u16 = 0x28;
const WRITE_10: u16 = 0x2a;

/// The version, in the upper byte.
const VSCSI_1: u16 = 0x100;
