//! One request and its copy, in tokio's paused time.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::time::sleep;

use super::*;
use crate::options::StoreOptions;

const MS: Duration = Duration::from_millis(1);

/// Traffic that has seen 1000 answers after 20 ms.
async fn learnt() -> Arc<StoreTraffic> {
    let traffic = StoreTraffic::new(&StoreOptions::default(), Arc::default());
    for _ in 0..1000 {
        let answer = first_answer(&traffic, not_joined(true), |_| async {
            sleep(20 * MS).await;
            Ok::<_, ()>(())
        });
        answer.await.unwrap();
    }
    traffic
}

/// How each copy ends: after so long, with this.
struct Copies {
    ends: Vec<(Duration, Result<u32, &'static str>)>,
    sent: RefCell<usize>,
    ended: RefCell<usize>,
}

impl Copies {
    fn new(ends: &[(u32, Result<u32, &'static str>)]) -> Self {
        let ends = ends.iter().map(|(ms, end)| (*ms * MS, *end)).collect();
        Self { ends, sent: RefCell::new(0), ended: RefCell::new(0) }
    }

    async fn send(&self) -> Result<u32, &'static str> {
        let number = self.sent.replace_with(|sent| *sent + 1);
        let (time, end) = self.ends[number];
        sleep(time).await;
        *self.ended.borrow_mut() += 1;
        end
    }

    /// The answer, when, how many copies were sent, and how many of them ended.
    async fn run(
        &self,
        traffic: &StoreTraffic,
        is_demand: bool,
    ) -> (Result<u32, &'static str>, u128, usize, usize) {
        self.run_as(traffic, not_joined(is_demand)).await
    }

    /// The same of a request to which a reader comes after so many ms.
    async fn run_joined(
        &self,
        traffic: &StoreTraffic,
        is_demand: bool,
        ms: u32,
    ) -> (Result<u32, &'static str>, u128, usize, usize) {
        self.run_as(traffic, Urgency { is_demand, joined: sleep(ms * MS) }).await
    }

    async fn run_as(
        &self,
        traffic: &StoreTraffic,
        urgency: Urgency<impl Future<Output = ()>>,
    ) -> (Result<u32, &'static str>, u128, usize, usize) {
        let started = Instant::now();
        let answer = first_answer(traffic, urgency, |_| self.send()).await;
        let ms = started.elapsed().as_millis();
        (answer, ms, *self.sent.borrow(), *self.ended.borrow())
    }
}

#[tokio::test(start_paused = true)]
async fn the_copy_of_a_late_request_answers_and_the_request_is_cancelled() {
    let copies = Copies::new(&[(200, Ok(1)), (15, Ok(2))]);
    let (answer, ms, sent, ended) = copies.run(&*learnt().await, true).await;
    assert_eq!((answer, sent, ended), (Ok(2), 2, 1));
    // 20 ms, to the end of their bucket and the next ms of the timer; then 15.
    assert!((35..=38).contains(&ms), "{ms} ms");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_answered_before_its_copy_cancels_it() {
    let copies = Copies::new(&[(30, Ok(1)), (20, Ok(2))]);
    let traffic = learnt().await;
    assert_eq!(copies.run(&traffic, true).await, (Ok(1), 30, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_request_in_time_has_no_copy() {
    let traffic = learnt().await;
    let in_time = Copies::new(&[(19, Ok(1))]);
    assert_eq!(in_time.run(&traffic, true).await, (Ok(1), 19, 1, 1));
    let ahead = Copies::new(&[(19, Ok(1))]);
    assert_eq!(ahead.run(&traffic, false).await, (Ok(1), 19, 1, 1));
}

/// The stream comes to it soon, and waits for it with all that follows.
#[tokio::test(start_paused = true)]
async fn late_read_ahead_has_a_copy_but_the_last_one_is_for_a_reader_that_waits() {
    let traffic = learnt().await;
    while traffic.take_copy(false) {}
    let ahead = Copies::new(&[(500, Ok(1))]);
    assert_eq!(ahead.run(&traffic, false).await, (Ok(1), 500, 1, 1));
    let demand = Copies::new(&[(500, Ok(1)), (15, Ok(2))]);
    assert_eq!(demand.run(&traffic, true).await.0, Ok(2));
    let traffic = learnt().await;
    let ahead = Copies::new(&[(500, Ok(1)), (15, Ok(2))]);
    let (answer, ms, sent, _) = ahead.run(&traffic, false).await;
    assert_eq!((answer, sent), (Ok(2), 2));
    assert!((35..=38).contains(&ms), "{ms} ms");
}

/// It waited for the read-ahead however late that was.
#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_to_late_read_ahead_has_a_copy() {
    let traffic = learnt().await;
    while traffic.take_copy(false) {}
    let ahead = Copies::new(&[(500, Ok(1)), (15, Ok(2))]);
    // Late already: at once.
    let (answer, ms, sent, ended) = ahead.run_joined(&traffic, false, 100).await;
    assert_eq!((answer, sent, ended), (Ok(2), 2, 1));
    assert!((115..=117).contains(&ms), "{ms} ms");
    assert!(!traffic.take_copy(true), "that was the last one");
    let ahead = Copies::new(&[(500, Ok(1))]);
    assert_eq!(ahead.run_joined(&traffic, false, 100).await, (Ok(1), 500, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_in_time_has_the_copy_when_the_request_is_late() {
    let traffic = learnt().await;
    while traffic.take_copy(false) {}
    let ahead = Copies::new(&[(500, Ok(1)), (15, Ok(2))]);
    let (answer, ms, sent, _) = ahead.run_joined(&traffic, false, 5).await;
    assert_eq!((answer, sent), (Ok(2), 2));
    assert!((35..=38).contains(&ms), "{ms} ms");
    let in_time = Copies::new(&[(19, Ok(1))]);
    assert_eq!(in_time.run_joined(&traffic, false, 5).await, (Ok(1), 19, 1, 1));
}

/// It had no copy when the budget was used up, and waited for 500 ms.
#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_asks_the_budget_again() {
    let traffic = learnt().await;
    while traffic.take_copy(true) {}
    let demand = Copies::new(&[(500, Ok(1)), (15, Ok(2))]);
    let others = async {
        sleep(50 * MS).await;
        // Requests that are answered at once pay for a copy.
        for _ in 0..60 {
            let answer = first_answer(&traffic, not_joined(true), |_| async { Ok::<_, ()>(()) });
            answer.await.unwrap();
        }
    };
    let (ended, ()) = tokio::join!(demand.run(&traffic, true), others);
    assert_eq!((ended.0, ended.2), (Ok(2), 2));
    // At 50 ms it may; it asks after 20 ms, 10 and 20 more, and the copy takes 15.
    assert!((65..=74).contains(&ended.1), "{} ms", ended.1);
    while traffic.take_copy(true) {}
    let alone = Copies::new(&[(500, Ok(1))]);
    assert_eq!(alone.run(&traffic, true).await, (Ok(1), 500, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn readers_that_come_to_read_ahead_stay_within_the_budget() {
    let traffic = learnt().await;
    let mut copies = 0;
    for number in 0..4000_u32 {
        let ms = if number % 64 == 0 { 200 } else { 20 };
        let ahead = Copies::new(&[(ms, Ok(1)), (15, Ok(2))]);
        copies += ahead.run_joined(&traffic, false, 10).await.2 - 1;
    }
    assert!((50..=63).contains(&copies), "{copies} copies, 63 are late");
    for _ in 0..4000 {
        // All are late by then.
        let ahead = Copies::new(&[(400, Ok(1)), (15, Ok(2))]);
        copies += ahead.run_joined(&traffic, false, 10).await.2 - 1;
    }
    assert!(copies <= 9000 / 50, "{copies} copies of 9000 requests");
}

#[tokio::test(start_paused = true)]
async fn an_error_counts_only_if_both_copies_fail() {
    let traffic = learnt().await;
    for (ends, expected) in [
        ([(40, Err("first")), (100, Ok(2))], Ok(2)),
        ([(100, Ok(1)), (2, Err("second"))], Ok(1)),
        ([(40, Err("first")), (100, Err("second"))], Err("first")),
        ([(100, Err("first")), (2, Err("second"))], Err("first")),
    ] {
        let (answer, _, sent, ended) = Copies::new(&ends).run(&traffic, true).await;
        assert_eq!((answer, sent, ended), (expected, 2, 2), "{ends:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_in_time_is_the_answer() {
    let traffic = learnt().await;
    let failed = Copies::new(&[(5, Err("first"))]);
    assert_eq!(failed.run(&traffic, true).await, (Err("first"), 5, 1, 1));
}

/// A copy was made of what had not been sent, and waited behind it.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_others_is_not_late() {
    let traffic = learnt().await;
    let mut others = Vec::new();
    for _ in 0..64 {
        others.push(traffic.permit(true).await);
    }
    let sent = RefCell::new(0);
    let waits = first_answer(&traffic, not_joined(true), |gate| {
        *sent.borrow_mut() += 1;
        let (traffic, number) = (&traffic, *sent.borrow());
        async move {
            let _permit = gate.permit(traffic).await;
            sleep(if number == 1 { 400 * MS } else { 15 * MS }).await;
            Ok::<_, ()>(number)
        }
    });
    let mut waits = pin!(waits);
    assert!(timeout(500 * MS, waits.as_mut()).await.is_err());
    assert_eq!(*sent.borrow(), 1);
    let started = Instant::now();
    others.clear();
    assert_eq!(waits.await, Ok(2), "once it is sent, it may be late");
    // Its delay counts from then on; and the copy.
    assert!((35..=39).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
}

/// What a future returns, and how often its task was woken for it.
async fn polls_of<F: Future>(future: F) -> (F::Output, u32) {
    let (mut future, mut polls) = (pin!(future), 0);
    let output = poll_fn(|context| {
        polls += 1;
        future.as_mut().poll(context)
    });
    (output.await, polls)
}

/// Each of them asked every 10 ms, twice: a thousand readers had their tasks woken 10^5 times a
/// second, by a store that did nothing.
#[tokio::test(start_paused = true)]
async fn a_read_that_waits_for_the_budget_asks_seldom() {
    let traffic = learnt().await;
    while traffic.take_copy(true) {}
    let slow = Copies::new(&[(30_000, Ok(1))]);
    let (ended, polls) = polls_of(slow.run(&traffic, true)).await;
    assert_eq!((ended.0, ended.2), (Ok(1), 1), "there is no copy");
    // After 20 ms, five times until 330 ms, and every 320 ms from then on.
    assert!((90..=105).contains(&polls), "{polls} in 30 s");
}

#[tokio::test(start_paused = true)]
async fn a_read_of_which_too_little_is_known_asks_seldom() {
    let traffic = StoreTraffic::new(&StoreOptions::default(), Arc::default());
    let slow = Copies::new(&[(30_000, Ok(1))]);
    let (ended, polls) = polls_of(slow.run(&traffic, true)).await;
    assert_eq!((ended.0, ended.2), (Ok(1), 1));
    assert!((90..=105).contains(&polls), "{polls} in 30 s");
}

/// It asked once for each delay, though no copy is sent of what was not sent itself.
#[tokio::test(start_paused = true)]
async fn a_read_that_waits_for_its_permit_sleeps_until_it_has_it() {
    for (traffic, is_demand) in [
        (learnt().await, true),
        (learnt().await, false),
        (StoreTraffic::new(&StoreOptions::default(), Arc::default()), true),
    ] {
        let mut others = Vec::new();
        for _ in 0..64 {
            others.push(traffic.permit(true).await);
        }
        let waits = first_answer(&traffic, not_joined(is_demand), |gate| {
            let traffic = &traffic;
            async move {
                let _permit = gate.permit(traffic).await;
                sleep(5 * MS).await;
                Ok::<_, ()>(())
            }
        });
        let end = async {
            sleep(30_000 * MS).await;
            drop(others);
        };
        let ((ended, polls), ()) = tokio::join!(polls_of(waits), end);
        assert_eq!(ended, Ok(()));
        // It is called, its delay is over, the others have ended, it is sent, it is answered.
        assert!(polls <= 8, "{polls} in 30 s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_requests_is_sent_no_copy() {
    let traffic = learnt().await;
    traffic.answered(Instant::now(), Some(503), None);
    let late = Copies::new(&[(200, Ok(1))]);
    assert_eq!(late.run(&traffic, true).await, (Ok(1), 200, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn no_copy_is_sent_where_none_is_wanted() {
    let traffic = StoreTraffic::new(
        &StoreOptions { hedge: false, ..StoreOptions::default() },
        Arc::default(),
    );
    for _ in 0..200 {
        let copies = Copies::new(&[(20, Ok(1))]);
        assert_eq!(copies.run(&traffic, true).await.0, Ok(1));
    }
    let late = Copies::new(&[(200, Ok(1))]);
    assert_eq!(late.run(&traffic, true).await, (Ok(1), 200, 1, 1));
}
