//! A stream of a store whose requests arrive in pieces: what is learnt of it, and how soon.

use foreread_core::prefetch::{Policy, Without};
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos};
use foreread_sim::record::RecordMode;
use foreread_sim::rivals::PolicySetup;
use foreread_sim::scenario::Scenario;

const SCENARIO: &str = include_str!("../../scenarios/object-store.toml");

/// One stream of 1 GiB.
#[derive(Debug)]
struct Outcome {
    mb_per_s: f64,
    requests: u64,
    /// How long the first half took, and the second.
    halves_s: (f64, f64),
}

fn go(text: &str, max_window: Option<u64>) -> Outcome {
    let mut scenario = Scenario::parse(text).unwrap();
    let max_window = max_window.map(ByteCount);
    PolicySetup { policy: Policy::Adaptive, max_window, without: Without::default() }
        .set(&mut scenario);
    let mut run = scenario.build(RecordMode::Hash).unwrap().run;
    let until = scenario.until();
    while run.totals().processes[0].bytes < 1 << 29 && run.go_some(1, until) {}
    let middle = run.now();
    run.go(until);
    let ran = run.end();
    let (reader, store) = (&ran.processes[0], &ran.devices[0]);
    assert_eq!((ran.unfinished, reader.bytes.0), (0, 1 << 30));
    assert_eq!(store.bytes(Op::Read).0, 1 << 30, "each byte is requested once");
    let seconds = |from: Nanos, to: Nanos| Nanos(to.0 - from.0).0 as f64 / 1e9;
    Outcome {
        mb_per_s: reader.mb_per_s(ran.end),
        requests: store.requests(Op::Read),
        halves_s: (seconds(Nanos(0), middle), seconds(middle, ran.end)),
    }
}

/// The reader takes the last byte of a request before its end is reported. No reader waits at that
/// end, so it did not count: the cost of a request was never known, a window was one request, and a
/// stream of 64 KiB reads got 12 MB/s of 1050, one of 1 MiB reads 63.
#[test]
fn a_stream_learns_from_requests_that_arrive_in_pieces() {
    for read in ["64K", "1M"] {
        let text = SCENARIO.replace("\"64K\"", &format!("{read:?}"));
        let (learnt, set) = (go(&text, None), go(&text, Some(32 << 20)));
        assert!(learnt.mb_per_s > 0.45 * set.mb_per_s, "{learnt:?} {set:?}");
        assert!(learnt.halves_s.1 < 1.1 * set.halves_s.1, "{learnt:?} {set:?}");
        assert!(learnt.requests < 1100, "{learnt:?}");
    }
}
