//! Which clients are admitted, by the address that they come from.
//!
//! In:    clients of invented addresses that connect, finish their handshake, or do not.
//! Out:   those that are served, and those that are closed.
//! Never: a network.

use std::os::unix::net::UnixStream;

use super::*;

/// Connections of a server, by number, with the other ends of their sockets.
struct ConnectionBench {
    open: OpenConnections,
    next: u32,
    others: Vec<UnixStream>,
}

impl ConnectionBench {
    fn new(max: usize) -> Self {
        Self { open: OpenConnections::new(max), next: 1, others: Vec::new() }
    }

    /// A client from this address connects; None: it is refused.
    fn connect(&mut self, from: &str) -> Option<u32> {
        let (socket, other) = UnixStream::pair().expect("sockets");
        self.others.push(other);
        let addr = format!("{from}:7").parse().expect("an address");
        let socket = Arc::new(Socket::tcp(socket.into(), addr));
        let number = self.next;
        self.next += 1;
        match self.open.admit(number, &socket, ClientKind::Network) {
            Admission::Admitted | Admission::Replaced(_) => Some(number),
            Admission::Full => None,
        }
    }

    /// The same with its handshake; says whether it is served.
    fn serve(&mut self, from: &str) -> bool {
        let number = self.connect(from);
        let start = number.map(|number| (number, self.open.begin_service(number)));
        if let Some((number, ServiceStart::Full | ServiceStart::Evicted)) = start {
            self.open.remove(number);
        }
        matches!(start, Some((_, ServiceStart::Served)))
    }
}

/// Counts were taken by a scan of all connections; now each change of phase updates them.
#[test]
fn counts_agree_with_a_recount_after_any_changes() {
    let mut bench = ConnectionBench::new(12);
    let mut rng = foreread_sim::rng::Rng::named(7, "connections");
    let mut evicted = 0;
    for _ in 0..3000 {
        let number = u32::try_from(rng.below(u64::from(bench.next) + 1)).expect("below a u32");
        match rng.below(4) {
            0 | 1 => drop(bench.connect(&format!("10.0.0.{}", rng.below(6)))),
            2 => evicted += u32::from(bench.open.begin_service(number) == ServiceStart::Evicted),
            _ => bench.open.remove(number),
        }
        assert_eq!(counts(&bench.open.kinds), counts(&recounted(&bench.open)));
    }
    assert!(evicted > 0, "some handshakes were closed for newer ones");
    (0..bench.next).for_each(|number| bench.open.remove(number));
    assert!(bench.open.kinds.iter().all(|kind| kind.open == 0 && kind.peers.is_empty()));
}

fn recounted(open: &OpenConnections) -> [KindCounts; 2] {
    let mut kinds: [KindCounts; 2] = Default::default();
    for (number, client) in &open.all {
        kinds[client.kind as usize].add(*number, client);
    }
    kinds
}

fn counts(kinds: &[KindCounts; 2]) -> Vec<String> {
    let mut lines: Vec<_> = kinds.iter().map(|it| format!("{} {}", it.open, it.served)).collect();
    let peers = kinds.iter().flat_map(|kind| &kind.peers);
    lines.extend(peers.map(|(network, counts)| format!("{network:?}: {counts:?}")));
    lines.sort();
    lines
}

/// One host that opened all connections kept out all others.
#[test]
fn a_peer_with_all_connections_keeps_out_no_other() {
    let mut bench = ConnectionBench::new(40);
    let greedy = (0..100).filter(|_| bench.serve("10.0.0.1")).count();
    assert_eq!(greedy, 40);
    let other = (0..100).filter(|_| bench.serve("10.0.0.2")).count();
    assert_eq!(other, PEER_FEW);
    let third = (0..100).filter(|_| bench.serve("10.0.0.3")).count();
    assert_eq!(third, PEER_FEW);
    assert!(!bench.serve("10.0.0.1"));
    // A quarter of all, and no more.
    let rest = (4..50).filter(|host| bench.serve(&format!("10.0.0.{host}"))).count();
    assert_eq!(rest, 10 - 2 * PEER_FEW);
}

#[test]
fn a_peer_with_many_connections_closes_no_handshake_of_another() {
    let mut bench = ConnectionBench::new(8);
    for _ in 0..8 {
        assert!(bench.serve("10.0.0.1"));
    }
    let waiting = bench.connect("10.0.0.2").expect("there is room for others");
    for _ in 0..50 {
        assert_eq!(bench.connect("10.0.0.1"), None);
    }
    assert_eq!(bench.open.begin_service(waiting), ServiceStart::Served);

    // Handshakes that never end are those that are closed, whichever came first.
    let mut bench = ConnectionBench::new(8);
    let waiting = bench.connect("10.0.0.2").expect("there is room");
    for _ in 0..50 {
        bench.connect("10.0.0.1").expect("in the place of its own older one");
    }
    assert_eq!(bench.open.begin_service(waiting), ServiceStart::Served);
}

#[test]
fn a_host_may_have_all_addresses_of_its_network() {
    let mut bench = ConnectionBench::new(40);
    let from = |host: u32| format!("[2001:db8:0:1::{host:x}]");
    assert_eq!((0..100).filter(|host| bench.serve(&from(*host))).count(), 40);
    assert!(bench.serve("[2001:db8:0:2::1]"));
    // The same host by IPv4, and by IPv4 in IPv6.
    let peer = |text: &str| PeerNetwork::of(Peer::Tcp(text.parse().expect("an address")));
    assert_eq!(peer("10.0.0.1:1"), peer("[::ffff:10.0.0.1]:2"));
    assert_ne!(peer("10.0.0.1:1"), peer("10.0.0.2:1"));
}

/// `--connections 1` stays one.
#[test]
fn few_connections_have_no_room_beyond_them() {
    for max in 1..4 {
        let mut bench = ConnectionBench::new(max);
        assert_eq!((0..9).filter(|_| bench.serve("10.0.0.1")).count(), max);
        assert!(!bench.serve("10.0.0.2"));
    }
}
