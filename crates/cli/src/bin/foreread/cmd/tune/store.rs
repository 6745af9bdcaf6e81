//! `foreread tune URL`: measures part sizes, connections and latency of an object store.
//!
//! Never writes to a store. The maximum cost is printed before the first request of the sweep. On
//! request, the result is kept for the next run of `serve` and `mount`.
//!
//! `foreread_tune::store_sweep` chooses the steps: docs/guide/tune.md.

mod html;
mod measure;
mod model;
mod remember;
mod report;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use foreread_core::units::ByteCount;
use foreread_object::{MeasuredObject, StoreOptions, Stores};
use foreread_tune::probe::Stopped;
use foreread_tune::store_sweep::{
    ClientSettings, ForereadSettings, PlannedSweep, SMALLEST_OBJECT, StoreFindings, StoreSweepEnd,
    StoreSweepSettings, client_settings,
};
use serde::Serialize;

use super::device_model::{ModelFile, WrittenModel};
use super::plan::{StoreAction, StorePlan};
use super::restore::interrupts;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::store::{self, StoreClient, money};

/// Measures the store of an object, and reports it.
pub(super) fn measure_store(plan: &StorePlan, out: &mut Printer) -> Result<(), Failure> {
    let StorePlan { url, prices, action, output, .. } = plan;
    let mut outputs = CommandOutputs::beside(&[]);
    let page = HtmlFile::prepare(output.html.as_deref(), output.is_json, &mut outputs)?;
    let interrupted = interrupts()?;
    let model = ModelFile::prepare(output.model.as_deref(), &interrupted, &mut outputs)?;
    let options = StoreOptions {
        deadline: DEADLINE,
        retries: RETRIES,
        hedge: false,
        ..StoreOptions::default()
    };
    let (object, stores) = StoreClient::measured(url, options, *prices)?;
    let settings = settings_of(plan, &object)?;
    let planned = settings.plan();
    let most = store::cost(*prices, planned.requests, planned.bytes);
    if *action == StoreAction::Estimate {
        return dry_run(plan, &object, (&planned, most), out);
    }
    first_read(url, &object, &stores, settings.object)?;
    out.notes(&[report::most(&planned, most)])?;
    let swept = measure::sweep(&stores, &object, settings, &interrupted);
    let mut tuned = TunedStore::of(plan, &object, swept.findings);
    let is_over = swept.stopped.is_none();
    let is_kept = *action == StoreAction::Remember && is_over;
    let kept = is_kept.then(|| remember::remember(&object, &tuned));
    tuned.remembered = kept.as_ref().and_then(|kept| kept.as_ref().ok()).cloned();
    let modelled = model.filter(|_| is_over).map(|file| model::write(file, &tuned, *prices));
    let modelled = modelled.transpose().map(|written| tuned.device_model = written);
    store::set_said();
    if output.is_json {
        out.json("tune", [&tuned])?;
    } else {
        report::print(out, &tuned)?;
    }
    let of_model = tuned.device_model.as_ref().map(WrittenModel::text);
    out.notes(&tuned.findings.notes.iter().cloned().chain(of_model).collect::<Vec<_>>())?;
    if let Some(page) = page {
        out.flush()?;
        page.write(html::page(&tuned))?;
    }
    ended(&tuned, swept.stopped)?;
    kept.transpose().map(drop).and(modelled)
}

/// Reads one small range, to detect errors before the measurement.
fn first_read(
    url: &str,
    object: &MeasuredObject,
    stores: &Stores,
    size: ByteCount,
) -> Result<(), Failure> {
    let read = object.small_reads(vec![size.0 / 2], 1, DEADLINE, &Arc::default());
    match read {
        Ok(_) => Ok(()),
        Err(_) if stores.counters().throttled > 0 => Err(store::refuses(url)),
        Err(error) => Err(Failure::WrongUse(error.to_string())),
    }
}

/// A measured store.
#[derive(Serialize)]
struct TunedStore {
    url: String,
    /// Bucket and endpoint.
    device: String,
    size: u64,
    etag: Option<String>,
    #[serde(flatten)]
    findings: StoreFindings,
    /// Cost of all requests; None without a price.
    cost: Option<f64>,
    foreread: Option<ForereadSettings>,
    clients: Vec<ClientSettings>,
    /// Model written to a file.
    device_model: Option<WrittenModel>,
    /// Record kept for serve and mount.
    remembered: Option<PathBuf>,
}

impl TunedStore {
    fn of(plan: &StorePlan, object: &MeasuredObject, mut findings: StoreFindings) -> Self {
        // Includes the opening request and aborted ones.
        if let Some(asked) = store::asked_so_far() {
            findings.asked.requests = asked.requests;
            findings.asked.bytes = asked.bytes;
            findings.asked.throttled = asked.throttled;
        }
        let object = object.object();
        Self {
            url: plan.url.clone(),
            device: object.device_name().to_owned(),
            size: object.meta().size,
            etag: object.meta().e_tag.clone(),
            cost: store::cost(plan.prices, findings.asked.requests, findings.asked.bytes),
            foreread: ForereadSettings::of(&findings),
            clients: client_settings(&findings),
            device_model: None,
            remembered: None,
            findings,
        }
    }
}

fn settings_of(plan: &StorePlan, object: &MeasuredObject) -> Result<StoreSweepSettings, Failure> {
    let size = ByteCount(object.object().meta().size);
    if size < SMALLEST_OBJECT {
        return Err(Failure::WrongUse(format!(
            "{}: it has {} bytes, and parts are read over up to {CONNECTIONS_MAX} connections: \
             give an object of at least 8M, or better of 512M or more, in the same bucket",
            plan.url, size.0
        )));
    }
    Ok(StoreSweepSettings {
        budget: plan.time,
        bytes: plan.bytes,
        object: size,
        connections_max: CONNECTIONS_MAX,
        // Each run starts at another offset, as earlier reads may be cached.
        seed: size.0 ^ u64::from(std::process::id()) << 32,
    })
}

/// JSON of `--dry-run`.
#[derive(Serialize)]
struct DryRun<'r> {
    url: &'r str,
    device: &'r str,
    size: u64,
    plan: &'r PlannedSweep,
    cost: Option<f64>,
}

fn dry_run(
    StorePlan { url, output, .. }: &StorePlan,
    object: &MeasuredObject,
    (plan, cost): (&PlannedSweep, Option<f64>),
    out: &mut Printer,
) -> Result<(), Failure> {
    let (device, size) = (object.object().device_name(), object.object().meta().size);
    store::set_said();
    if output.is_json {
        return out.json("tune", [DryRun { url, device, size, plan, cost }]);
    }
    out.entry("", &format!("{url}: {size} bytes; nothing was measured"))?;
    let list = |numbers: &mut dyn Iterator<Item = String>| numbers.collect::<Vec<_>>().join(", ");
    let connections = list(&mut plan.connections.iter().map(ToString::to_string));
    let parts = list(&mut plan.parts_kib.iter().map(|kib| report::size(*kib)));
    out.entry("connections  ", &format!("{connections}, as far as more of them give more"))?;
    out.entry("parts        ", &format!("{parts}; smaller ones of a slow store"))?;
    out.entry("small reads  ", &format!("up to {}, one at a time", plan.small_reads))?;
    out.entry("bounds       ", &report::most(plan, cost))?;
    Ok(())
}

/// Returns an error if the sweep was stopped or has no result.
fn ended(tuned: &TunedStore, stopped: Option<Stopped>) -> Result<(), Failure> {
    let url = &tuned.url;
    match stopped {
        Some(Stopped::Interrupted) => Err(Failure::Check("interrupted".to_owned())),
        Some(Stopped::Failed(why)) => Err(Failure::Check(why)),
        None if tuned.findings.chosen.is_some() => Ok(()),
        None if tuned.findings.ended == Some(StoreSweepEnd::Throttled) => Err(store::refuses(url)),
        None => Err(Failure::Check(format!(
            "{url}: the time or the bytes were over before there was an answer; give it more with \
             --seconds and --max-bytes"
        ))),
    }
}

/// Connections per object; the limit of the client.
const CONNECTIONS_MAX: u32 = 64;

/// Deadline of a request; the sweep itself stops earlier.
const DEADLINE: Duration = Duration::from_secs(30);

/// Retries of a refused request; fewer than for a reader, which would rather wait.
const RETRIES: usize = 3;
