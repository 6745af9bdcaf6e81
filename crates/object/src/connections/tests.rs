//! Rules for connections, at times that the test chooses.

use super::*;

const HERE: Host = Host(1);

/// Time left of a moved request, whose deadline is far.
const FAR: Option<Duration> = Some(Duration::from_secs(3600));

/// Requests waited on connections that a server with few threads never looked at, while those
/// that it served were idle.
#[test]
fn a_server_is_sent_as_many_requests_as_it_serves_connections() {
    let (mut connections, now) = (Connections::default(), Instant::now());
    let mut sent: Vec<_> = (0..64).map(|_| connections.sent(HERE, None, now)).collect();
    assert!(sent.iter().all(|on| on.is_fresh));
    assert_eq!(connections.idle_since(&sent[5], now), None);
    for on in &mut sent[..2] {
        connections.answered(on, HERE, now);
        connections.ended(on, true, true, now);
    }
    assert_eq!(connections.idle_since(&sent[5], now), Some(now));
    assert_eq!(connections.most(), u32::MAX);
    assert!(connections.idle_since(&sent[2], now).is_some());
    for on in &sent[2..] {
        connections.not_served(on);
        assert!(connections.is_replaced(on), "all are given up");
        connections.ended(on, false, false, now);
    }
    assert_eq!(connections.most(), 2);
    for _ in 0..PROBE_AFTER_MIN {
        let mut on = connections.sent(HERE, None, now);
        assert_eq!(on.client, 1, "of another client");
        connections.answered(&mut on, HERE, now);
        connections.ended(&on, true, true, now);
    }
    assert_eq!(connections.most(), 3, "one more is tried");
}

/// The limit was learnt from objects that never answer, and stayed: the others of the server
/// waited behind one of them.
#[test]
fn a_moved_request_that_hangs_lifts_the_limit_until_a_moved_one_is_answered() {
    let (mut connections, now) = (Connections::default(), Instant::now());
    let idle_beside = |connections: &mut Connections, moved| {
        let (hung, mut other) =
            (connections.sent(HERE, moved, now), connections.sent(HERE, None, now));
        connections.answered(&mut other, HERE, now);
        connections.ended(&other, true, true, now);
        hung
    };
    let hung = idle_beside(&mut connections, None);
    assert_eq!(hung.hangs_after(), None, "its connection may not be served");
    connections.not_served(&hung);
    assert_eq!(connections.most(), 1);
    let mut hung = connections.sent(HERE, FAR, now);
    assert_eq!(hung.hangs_after(), Some(PATIENCE * HANG_FACTOR));
    connections.hangs();
    assert_eq!(connections.most(), u32::MAX);
    connections.answered(&mut hung, HERE, now + PATIENCE * HANG_FACTOR);
    connections.ended(&hung, true, false, now);
    let hung = idle_beside(&mut connections, None);
    connections.not_served(&hung);
    assert_eq!(connections.most(), u32::MAX, "another one that hangs teaches nothing");
    let mut moved = connections.sent(HERE, FAR, now);
    connections.answered(&mut moved, HERE, now);
    connections.ended(&moved, true, false, now);
    let waits = idle_beside(&mut connections, None);
    connections.not_served(&waits);
    assert_eq!(connections.most(), 1, "a moved one was answered: connections are few");
}

#[test]
fn a_connection_that_was_idle_for_long_is_gone() {
    let (mut connections, now) = (Connections::default(), Instant::now());
    let mut on = connections.sent(HERE, None, now);
    connections.answered(&mut on, HERE, now);
    connections.ended(&on, true, true, now);
    assert!(!connections.sent(HERE, None, now).is_fresh);
    connections.ended(&on, true, true, now);
    assert!(connections.sent(HERE, None, now + IDLE_MAX).is_fresh);
}

/// Connections of a link with long round trips would all have been taken for ones that are not
/// served.
#[test]
fn a_server_far_away_is_given_more_time() {
    let (mut connections, now) = (Connections::default(), Instant::now());
    let mut on = connections.sent(HERE, None, now);
    assert_eq!(on.patience, PATIENCE_FRESH);
    connections.answered(&mut on, HERE, now + Duration::from_secs(1));
    assert_eq!(connections.sent(HERE, None, now).patience, Duration::from_secs(4));
}

/// A request to a mirror that was slow to connect was abandoned, because the connection to the
/// redirector, or to another mirror, was idle.
#[test]
fn an_idle_connection_to_another_host_serves_no_request_of_this_one() {
    let (mut connections, now) = (Connections::default(), Instant::now());
    let [redirector, mirror, other] = [1, 2, 3].map(Host);
    let mut first = connections.sent(redirector, None, now);
    connections.answered(&mut first, mirror, now);
    connections.ended(&first, true, true, now);
    let waits = connections.sent(other, None, now);
    assert_eq!(connections.idle_since(&waits, now), None, "it is idle at the mirror");
    let mut next = connections.sent(mirror, None, now);
    assert!(!next.is_fresh, "the redirect led there");
    let waits = connections.sent(mirror, None, now);
    connections.answered(&mut next, other, now);
    connections.ended(&next, true, true, now);
    assert_eq!(connections.idle_since(&waits, now), None, "the mirror is not that one");
    assert_eq!(connections.hosts[&mirror].served, 0);
    let unserved = connections.sent(redirector, None, now);
    connections.not_served(&unserved);
    assert!(connections.sent(other, None, now).is_fresh, "all are closed with the client");
}

#[test]
fn a_host_is_told_by_scheme_name_and_port() {
    let host = Host::of("http://Mirror:80/a?b=c");
    assert_eq!(host, Host::of("HTTP://mirror:80"));
    for other in ["https://mirror:80/a", "http://mirror:81/a", "http://mirror/a"] {
        assert_ne!(host, Host::of(other), "{other}");
    }
}

/// With a deadline of a few seconds it was over before the request counted as hung: the others
/// waited behind it until then, and behind the next one again.
#[test]
fn a_request_hangs_while_the_others_have_time_left() {
    let (mut connections, now) = (Connections::default(), Instant::now());
    let left = Duration::from_secs(3);
    assert_eq!(connections.sent(HERE, Some(left), now).hangs_after(), Some(left / 2));
    let usual = Some(PATIENCE * HANG_FACTOR);
    assert_eq!(connections.sent(HERE, FAR, now).hangs_after(), usual);
    assert_eq!(connections.sent(HERE, None, now).hangs_after(), None);
}
