//! `foreread tune --device`: a known device, in virtual time.
//!
//! In:    the name of a model.
//! Out:   the same report as of a real device.
//! Never: a setting of this machine.

use foreread_sim::device::DeviceParams;
use foreread_tune::advice::{self, DeviceFacts};
use foreread_tune::device_fit::DeviceLimits;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sweep::Sweep;

use super::device_model::{self, ModelFile};
use super::outcome::{MeasuredDevice, ended};
use super::plan::{ModelPlan, TuneAction};
use super::restore::interrupts;
use super::simulated;
use super::sweep_progress::{progress, show, write_page};
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;

/// Measures a device in virtual time, and reports it.
pub(super) fn measure_model(plan: &ModelPlan, out: &mut Printer) -> Result<(), Failure> {
    let (model, output) = (plan.name.as_str(), &plan.output);
    let mut outputs = CommandOutputs::beside(&[]);
    let page = HtmlFile::prepare(output.html.as_deref(), output.is_json, &mut outputs)?;
    let interrupted = interrupts()?;
    let model_file = ModelFile::prepare(output.model.as_deref(), &interrupted, &mut outputs)?;
    let no_such = || Failure::WrongUse(format!("--device {model}: no such model"));
    let mut probe = simulated::SimulatedDevice::find(model, interrupted).ok_or_else(no_such)?;
    if model_file.is_some() {
        refuse_store(model, probe.model())?;
    }
    let size = probe.size();
    let facts = DeviceFacts::of_model(model, size);
    let bar = progress();
    let outcome = Sweep::new(plan.time.sweep_settings(size))
        .run(&mut probe, &mut |progress| show(&bar, model, progress));
    bar.finish_and_clear();
    let mut report = advice::report(&facts, &outcome, plan.profile);
    report.restored = true;
    let (parallel, stopped) =
        device_model::at_once(plan.time.parallel, &mut probe, outcome.stopped);
    report.parallel = parallel;
    let geometry = probe.model().geometry();
    let (max_io, depth) = (geometry.max_io.bytes(), u64::from(geometry.depth));
    let window = DeviceSetting::read_ahead_kb(model, 0);
    let mut one = MeasuredDevice {
        report,
        flood: None,
        device_model: None,
        limits: DeviceLimits::new(size, Some(max_io), Some(depth)),
        ext4: Vec::new(),
        before: Vec::new(),
        stopped,
        window,
        mount: None,
        instance: None,
    };
    let modelled = one.write_model(model_file, None);
    if output.is_json {
        out.json("tune", [&one])?;
    } else {
        one.print(TuneAction::Report, out)?;
    }
    write_page(page, TuneAction::Report, std::slice::from_ref(&one), out)?;
    ended(&one).and(modelled)
}

/// Refuses --device-model for the model of a store, which is a model already: a fit to figures of
/// devices yields a disk or flash.
fn refuse_store(name: &str, model: &DeviceParams) -> Result<(), Failure> {
    match model {
        DeviceParams::Store(_) => Err(Failure::WrongUse(format!(
            "--device-model: {name} is a model of a store, and is one already: give its name to \
             replay --device or to a scenario; for a model of a store of yours, give tune the URL \
             of an object in place of --device"
        ))),
        DeviceParams::Hdd(_) | DeviceParams::Flash(_) | DeviceParams::Mapped(_) => Ok(()),
    }
}
