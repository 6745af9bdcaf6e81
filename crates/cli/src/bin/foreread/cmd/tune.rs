//! `foreread tune`: measures the best read-ahead window of a device, or the best part size and
//! number of connections of an object store.
//!
//! Devices are never written to. Settings are restored unless `--apply` or `--remember` is given.
//!
//! docs/guide/tune.md describes the method.

mod all;
mod apply;
mod args;
mod confirm;
mod date;
mod device_model;
mod headline;
mod html;
mod model_run;
mod mounted;
mod outcome;
mod plan;
mod remembered;
mod remembered_mounts;
mod remembered_stores;
mod report;
mod restore;
mod run;
mod scheduler_test;
mod simulated;
#[cfg(feature = "objects")]
mod store;
mod sweep_progress;

use foreread_tune::sysfs::SystemRoot;

pub(crate) use self::args::TuneArgs;
use self::plan::TunePlan;
use foreread_cli::output::{Failure, Printer};

pub(crate) fn run(args: TuneArgs, out: &mut Printer) -> Result<(), Failure> {
    let sys = SystemRoot::here();
    match args.plan()? {
        TunePlan::Devices(plan) => run::measure_devices(&sys, &plan, out),
        TunePlan::Model(plan) => model_run::measure_model(&plan, out),
        #[cfg(feature = "objects")]
        TunePlan::Store(plan) => store::measure_store(&plan, out),
        TunePlan::List { is_json } => remembered::list(&sys, is_json, out),
        TunePlan::Verify { is_json } => remembered::verify(&sys, is_json, out),
        TunePlan::Forget { name } => remembered::forget(&sys, &name, out),
        TunePlan::Follow { bdi } => mounted::follow(&sys, bdi.as_deref(), out),
    }
}
