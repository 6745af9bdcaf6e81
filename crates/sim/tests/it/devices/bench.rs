//! A device with nothing in front of it but a queue, and requests that end at times to look at.

use std::cell::RefCell;
use std::rc::Rc;

use foreread_core::path::{Config, DeviceId};
use foreread_core::prefetch::Rules;
use foreread_core::sched::{Op, SchedulerKind};
use foreread_core::units::{ByteCount, Nanos, Pages, Sector, Sectors};
use foreread_sim::device::DeviceParams;
use foreread_sim::policy;
use foreread_sim::record::RecordMode;
use foreread_sim::run::{RunOutcome, SimRun};

/// A model, from the TOML that a scenario would have.
pub(crate) fn model(text: &str) -> DeviceParams {
    toml::from_str(text).expect("a model")
}

/// A run with this device.
pub(crate) fn run(model: &DeviceParams) -> (SimRun, DeviceId) {
    let config = Config {
        memory: ByteCount(64 << 20),
        policy: policy::LINUX_2_6_31,
        max_window: Pages(32),
        rules: Rules::default(),
    };
    let mut run = SimRun::new(config, 1, RecordMode::Hash).expect("memory enough");
    let device = run.device("device", model, &SchedulerKind::Noop).expect("a possible model");
    (run, device)
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) start: u64,
    pub(crate) sectors: u64,
    /// How long its process waits before it asks, in us.
    pub(crate) think_us: u64,
}

pub(crate) fn read(start: u64, sectors: u64) -> Request {
    Request { op: Op::Read, start, sectors, think_us: 0 }
}

pub(crate) fn write(start: u64, sectors: u64) -> Request {
    Request { op: Op::Write, ..read(start, sectors) }
}

pub(crate) fn after(think_us: u64, request: Request) -> Request {
    Request { think_us, ..request }
}

/// When each request ended, in us: each asked when the one before has ended.
pub(crate) fn in_turn(model: &DeviceParams, requests: &[Request]) -> Vec<f64> {
    ends(model, &[requests.to_vec()]).into_iter().map(|(_, end)| end).collect()
}

/// The index of each request's process and when it ended, in the order of their ends.
pub(crate) fn ends(model: &DeviceParams, processes: &[Vec<Request>]) -> Vec<(usize, f64)> {
    let (mut run, device) = run(model);
    let ends = Rc::new(RefCell::new(Vec::new()));
    for (index, requests) in processes.iter().enumerate() {
        let (requests, ends) = (requests.clone(), Rc::clone(&ends));
        run.spawn(&index.to_string(), async move |process| {
            for Request { op, start, sectors, think_us } in requests {
                process.pass_ns(think_us * 1000).await;
                let done = process.direct(device, op, Sector(start), Sectors(sectors)).await;
                done.expect("models do not fail");
                ends.borrow_mut().push((index, us(process.now())));
            }
        });
    }
    let _: RunOutcome = finish(run);
    ends.take()
}

pub(crate) fn finish(mut run: SimRun) -> RunOutcome {
    run.go(Nanos(u64::MAX));
    let ran = run.end();
    assert_eq!(ran.unfinished, 0, "all processes end");
    ran
}

fn us(at: Nanos) -> f64 {
    f64::from(u32::try_from(at.0).expect("tests are short")) / 1e3
}

/// Times are in whole ns, and sums of several differ by a few.
#[track_caller]
pub(crate) fn assert_us(got: &[f64], want: &[f64]) {
    let near = |(got, want): (&f64, &f64)| (got - want).abs() < 0.01;
    let same = got.len() == want.len() && got.iter().zip(want).all(near);
    assert!(same, "ends at {got:?} us, wanted {want:?}");
}
