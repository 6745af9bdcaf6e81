//! A thousand clients at once.

mod support;

use foreread_serve::ServerLimits;
use foreread_serve::client::{ReplyPiece, Session};
use rustix::process::{Resource, getrlimit, setrlimit};
use support::{Random, check, read, serve};

const LEN: u64 = 2 << 20;
const CLIENTS: usize = 1000;

/// Resident memory of this process, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a file of the kernel");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a figure");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_thousand_clients_are_served_at_once_and_cost_little() {
    const NAME: &str = "a_thousand_clients_are_served_at_once_and_cost_little";
    let wanted = 4 * CLIENTS as u64;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < wanted) {
        eprintln!("SKIP {NAME}: fewer than {wanted} descriptors");
        return;
    }
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit).expect("no more than the hard limit");

    let running = serve(LEN, 4 << 20, ServerLimits::default());
    let mut random = Random(2);
    let before = resident_kib();
    let mut sessions: Vec<Session> = (0..CLIENTS).map(|_| running.session(true)).collect();
    assert_eq!(running.meter.counters().connections, CLIENTS as u64);
    for _ in 0..3 {
        let offsets: Vec<u64> = sessions.iter().map(|_| random.below(LEN - 9000)).collect();
        for (session, offset) in sessions.iter_mut().zip(&offsets) {
            let asks = [(read(1, *offset, 4096), &[][..]), (read(2, *offset, 9000), &[][..])];
            session.send(&asks).expect("it is there");
        }
        for (session, offset) in sessions.iter_mut().zip(&offsets) {
            let mut done = 0;
            while done < 2 {
                let answer = |_, answer: ReplyPiece<'_>| match answer {
                    ReplyPiece::Data(at, data) => {
                        assert_eq!(at, *offset);
                        check(at, data);
                    }
                    ReplyPiece::Done => {}
                    other @ (ReplyPiece::Zeroes(..)
                    | ReplyPiece::Extents(_)
                    | ReplyPiece::Error(_)) => {
                        panic!("{other:?}")
                    }
                };
                done += session.receive(answer).expect("it is there");
            }
        }
    }
    // Clients and server are one process here: both sides' buffers, as far as they were touched.
    let each_kib = resident_kib().saturating_sub(before) / CLIENTS as u64;
    assert!(each_kib < 200, "{each_kib} KiB for each client");
    drop(sessions);
    assert!(running.stop().is_empty());
}
