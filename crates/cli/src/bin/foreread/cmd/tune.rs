//! `foreread tune`: measures the best read-ahead window of a device, or the best part size and
//! number of connections of an object store.
//!
//! Devices are never written to. Settings are restored unless `--apply` or `--remember` is given.
//!
//! docs/guide/tune.md describes the method.

mod all;
mod args;
mod ask;
mod date;
mod device_model;
mod headline;
mod html;
mod keep;
mod leave;
mod measure;
mod measured;
mod mixed;
mod model_run;
mod mounted;
mod remembered;
mod remembered_mounts;
mod remembered_stores;
mod report;
mod simulated;
#[cfg(feature = "objects")]
mod store;
mod sweep_bounds;

use foreread_tune::sysfs::SystemRoot;

pub(crate) use self::args::TuneArgs;
use self::args::TuneCommand;
use foreread_cli::output::{Failure, Printer};

pub(crate) fn run(args: &TuneArgs, out: &mut Printer) -> Result<(), Failure> {
    let sys = SystemRoot::here();
    match &args.what {
        Some(TuneCommand::Verify { json }) => remembered::verify(&sys, *json, out),
        Some(TuneCommand::Forget { device }) => remembered::forget(&sys, device, out),
        Some(TuneCommand::Follow { bdi }) => mounted::follow(&sys, bdi.as_deref(), out),
        None if args.list => remembered::list(&sys, args.json, out),
        None => measure::run(&sys, args, out),
    }
}
