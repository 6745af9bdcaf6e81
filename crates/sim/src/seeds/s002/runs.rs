//! Runs of seed 002: random reads of one size, and tree walks with windows of one size.

use foreread_core::sched::Op;
use foreread_core::units::ByteCount;

use crate::meter::ProcessMeter;
use crate::record::RecordMode;
use crate::run::RunOutcome;
use crate::scenario::Scenario;
use crate::seeds::table::SeedProgress;
use crate::size::Size;
use crate::workload::Workload;
use crate::workload::mount::{EntryOrder, InodeReadahead, WINDOWS};

/// Random reads of one size.
pub(super) struct FioFigures {
    pub(super) kib: u64,
    pub(super) iops: f64,
    pub(super) meter: ProcessMeter,
}

/// A `find` with windows of one size.
pub(super) struct FindFigures {
    pub(super) blocks: u64,
    pub(super) seconds: f64,
    pub(super) reads: u64,
    pub(super) windows: f64,
}

pub(super) fn run_fio(progress: SeedProgress<'_>) -> Vec<FioFigures> {
    let base = Scenario::built_in(include_str!("../../../scenarios/002-fio.toml"));
    let run = |kib: u64| {
        progress(&format!("002 fio {kib}K"));
        let mut scenario = base.clone();
        if let Workload::Random(random) = scenario.process[0].run.get_mut() {
            random.read = Size(ByteCount(kib << 10));
        }
        let ran = go(&scenario);
        let meter = ran.processes[0].clone();
        FioFigures { kib, iops: meter.ops as f64 / meter.seconds(ran.end), meter }
    };
    [4, 8, 16, 32, 64, 128, 256].map(run).into()
}

pub(super) fn run_find(progress: SeedProgress<'_>) -> Vec<FindFigures> {
    let base = Scenario::built_in(include_str!("../../../scenarios/002-find.toml"));
    let run = |bits: u32| {
        progress(&format!("002 find {} blocks", 1_u64 << bits));
        find(&base, 1_u64 << bits, EntryOrder::Htree)
    };
    (0..10).map(run).collect()
}

pub(super) fn find(base: &Scenario, blocks: u64, order: EntryOrder) -> FindFigures {
    let mut scenario = base.clone();
    if let Workload::Find(find) = scenario.process[0].run.get_mut() {
        find.mount.inode_readahead_blks = InodeReadahead::Fixed(blocks);
        find.order = order;
    }
    let ran = go(&scenario);
    let meter = &ran.processes[0];
    let seconds = meter.seconds(ran.end);
    FindFigures {
        blocks,
        seconds,
        reads: ran.devices[0].requests(Op::Read),
        windows: meter.other[WINDOWS],
    }
}

pub(super) fn go(scenario: &Scenario) -> RunOutcome {
    let mut building = scenario
        .build(RecordMode::Hash)
        .expect("the scenario is part of the program and was checked");
    building.run.go(scenario.until());
    building.run.end()
}
