//! The cost of queueing a request, choosing it, and handling its completion.
//!
//!     cargo bench -p foreread-core --bench sched
//!
//! 128 requests are always queued, at random positions; two thirds of them are reads.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use foreread_core::sched::{Op, Origin, Payload, Request, Scheduler, SchedulerKind, Submitter};
use foreread_core::units::{Nanos, Sector, Sectors};

/// An empty payload; all adjacent requests may merge.
#[derive(Debug)]
struct Nothing;

impl Payload for Nothing {
    fn can_take(&self, _next: &Self) -> bool {
        true
    }

    fn append(&mut self, _next: Self) {}
}

const QUEUED: usize = 128;

/// Returns a request at a random position, from a linear congruential generator.
fn request(state: &mut u64, now: Nanos) -> Request<Nothing> {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let random = *state >> 33;
    let op = if random.is_multiple_of(3) { Op::Write } else { Op::Read };
    let submitter = Submitter((random % 7) as u32);
    Request {
        start: Sector(random * 8),
        sectors: Sectors(8),
        origin: Origin { op, submitter, ..Origin::default() },
        arrival: now,
        load: Nothing,
    }
}

fn schedulers(c: &mut Criterion) {
    let mut group = c.benchmark_group("add, take, completed");
    for (name, settings) in [
        ("noop", &[][..]),
        ("deadline 2002", &[("rule", "2002")]),
        ("deadline 4.x", &[("rule", "4.x")]),
        ("deadline mq", &[("rule", "mq")]),
        ("cfq", &[("slice_idle", "0")]),
    ] {
        let mut choice = SchedulerKind::from_name(name.split(' ').next().unwrap()).unwrap();
        for (name, value) in settings {
            choice.set(name, value).unwrap();
        }
        let mut queue: Box<dyn Scheduler<Nothing>> = choice.queue(Sectors(1024));
        let (mut state, mut now) = (1, Nanos(0));
        for _ in 0..QUEUED {
            queue.add(now, request(&mut state, now));
        }
        group.bench_function(name, |b| {
            b.iter(|| {
                now = Nanos(now.0 + 100_000);
                queue.add(now, request(&mut state, now));
                let request = black_box(queue.take(now)).expect("128 are queued");
                queue.completed(now, request.origin, request.arrival);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, schedulers);
criterion_main!(benches);
