//! Turns of clients: threads of which one runs at a time, in an order that follows from a seed.
//!
//! In:    clients; their word that another one may go on.
//! Out:   the same order of events each time.
//! Never: two clients at once.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;

use foreread_sim::rng::Rng;

thread_local! {
    static CLIENT: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
}

struct Turns {
    threads: OnceLock<Vec<Thread>>,
    /// Number of the client that runs.
    turn: AtomicUsize,
    /// Clients that have not ended; random numbers.
    line: Mutex<(Vec<usize>, Rng)>,
}

/// Lets another client go on, and returns when it is this one's turn again. Returns whether the
/// thread is a client at all.
pub(super) fn pass() -> bool {
    let client = CLIENT.with_borrow(Clone::clone);
    client.is_some_and(|(turns, number)| {
        turns.give();
        turns.wait_for(number);
        true
    })
}

/// Runs clients to their ends.
pub(super) fn run<C: FnOnce() + Send>(seed: u64, clients: Vec<C>) {
    let line = ((0..clients.len()).collect(), Rng::named(seed, "turns"));
    let turn = AtomicUsize::new(usize::MAX);
    let turns = Arc::new(Turns { threads: OnceLock::new(), turn, line: Mutex::new(line) });
    std::thread::scope(|scope| {
        let begin = |(number, client): (usize, C)| {
            let turns = Arc::clone(&turns);
            scope.spawn(move || {
                turns.wait_for(number);
                // Also of a client that panics.
                let _turn = LastTurn(&turns, number);
                CLIENT.set(Some((Arc::clone(&turns), number)));
                client();
                CLIENT.set(None);
            })
        };
        let threads: Vec<_> = clients.into_iter().enumerate().map(begin).collect();
        let threads = threads.iter().map(|it| it.thread().clone()).collect();
        turns.threads.set(threads).expect("set once");
        turns.give();
    });
}

struct LastTurn<'t>(&'t Turns, usize);

impl Drop for LastTurn<'_> {
    fn drop(&mut self) {
        self.0.line.lock().expect("no panic").0.retain(|it| *it != self.1);
        self.0.give();
    }
}

impl Turns {
    fn give(&self) {
        let mut line = self.line.lock().expect("no panic");
        let (left, rng) = &mut *line;
        if left.is_empty() {
            return;
        }
        let next = left[usize::try_from(rng.below(left.len() as u64)).expect("an index")];
        drop(line);
        if self.turn.swap(next, Ordering::AcqRel) != next {
            self.threads.get().expect("set before the first turn")[next].unpark();
        }
    }

    fn wait_for(&self, number: usize) {
        while self.turn.load(Ordering::Acquire) != number {
            std::thread::park();
        }
    }
}
