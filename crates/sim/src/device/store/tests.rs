//! Hedging of requests, one command at a time.

use foreread_core::sched::Op;
use foreread_core::units::{Sector, Sectors};

use super::*;
use crate::rng::DEFAULT_SEED;

const MS: u64 = 1_000_000;

fn store() -> StoreLink {
    let text = "capacity = '1G'\nlatency_ms = 20.0\nslow_factor = 10.0\nconnections = 64\n\
                connection_mb_per_s = 80.0\nlink_mb_per_s = 1000.0\n";
    StoreLink::new(toml::from_str(text).unwrap(), DEFAULT_SEED).unwrap()
}

/// Returns the end of the next command, if it is known by then.
fn end_by(link: &mut StoreLink, until: Nanos) -> Option<CommandEnd> {
    loop {
        let at = link.next_wake().filter(|at| *at <= until)?;
        if let Some(end) = link.wake(at) {
            return Some(end);
        }
    }
}

fn command(number: u64, is_ahead: bool) -> DeviceCommand {
    let (tag, start) = (Tag::from_bits(number), Sector(0));
    DeviceCommand { tag, op: Op::Read, start, sectors: Sectors(8), is_ahead }
}

/// Creates a store that has answered a thousand requests, and returns the time.
fn learnt() -> (StoreLink, Nanos) {
    let (mut link, mut now) = (store(), Nanos(0));
    for number in 0..1000 {
        assert!(link.submit(now, command(number, true)).is_none(), "it ends later");
        now = end_by(&mut link, Nanos(u64::MAX)).unwrap().at;
    }
    (link, now)
}

/// Sends another request, which is slow.
fn submit_slow(link: &mut StoreLink, now: Nanos, is_ahead: bool) {
    link.params.slow_share = 1.0;
    assert!(link.submit(now, command(1000, is_ahead)).is_none(), "it ends later");
    link.params.slow_share = 0.0;
}

/// Returns the time of the first byte of a read-ahead request, in ms. The request would take 200
/// ms, demand reads have left one copy in the budget, and a reader joins after `joined_ms`.
fn first_byte_ms(joined_ms: Option<u64>) -> u64 {
    let (mut link, now) = learnt();
    while link.hedging.take_copy(false) {}
    submit_slow(&mut link, now, true);
    if let Some(ms) = joined_ms {
        let at = Nanos(now.0 + ms * MS);
        assert!(end_by(&mut link, at).is_none());
        link.joined(at, Tag::from_bits(1000));
    }
    let end = end_by(&mut link, Nanos(u64::MAX)).unwrap();
    assert_eq!(link.totals.hedged, u64::from(joined_ms.is_some()));
    (end.pieces.unwrap().from.0 - now.0) / MS
}

#[test]
fn read_ahead_that_a_reader_comes_to_is_sent_again_when_it_is_late() {
    assert_eq!(first_byte_ms(None), 200);
    assert_eq!(first_byte_ms(Some(100)), 120, "it is late already");
    // 20 ms to the end of their bucket, and 20 for the copy.
    assert_eq!(first_byte_ms(Some(5)), 40);
}

/// Each event scheduled for its copy led to others, every 10 ms.
#[test]
fn a_read_that_waits_for_the_budget_asks_seldom_however_many_readers_come_to_it() {
    for (is_ahead, joined_ms) in [(false, &[][..]), (true, &[5]), (true, &[5, 50]), (false, &[50])]
    {
        let (mut link, now) = learnt();
        while link.hedging.take_copy(true) {}
        link.params.slow_factor = 1000.0;
        submit_slow(&mut link, now, is_ahead);
        for ms in joined_ms {
            let at = Nanos(now.0 + ms * MS);
            assert!(end_by(&mut link, at).is_none());
            link.joined(at, Tag::from_bits(1000));
        }
        let mut wakes = 0;
        while let Some(at) = link.next_wake() {
            wakes += 1;
            if link.wake(at).is_some() {
                break;
            }
        }
        assert_eq!(link.totals.hedged, 0);
        // Five times until 330 ms, and every 320 ms from then on.
        assert!((60..=70).contains(&wakes), "{wakes} in 20 s, joined after {joined_ms:?} ms");
    }
}
