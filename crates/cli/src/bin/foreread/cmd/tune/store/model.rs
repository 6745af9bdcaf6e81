//! A store as a model that replays and scenarios take.
//!
//! In:    a store as it was measured.
//! Out:   its model in a file.
//! Never: a model without a latency, or without the rate of a connection.

use foreread_core::units::ByteCount;
use foreread_object::StorePrices;
use foreread_tune::device_fit::{
    FittedDevice, FittedStore, ModelError, StorePrices as ModelPrices,
};

use super::TunedStore;
use crate::cmd::tune::date;
use crate::cmd::tune::device_model::{ChosenModel, ModelFile, WrittenModel};
use foreread_cli::output::Failure;

/// Writes the model of a store.
pub(super) fn write(
    file: ModelFile,
    tuned: &TunedStore,
    prices: Option<StorePrices>,
) -> Result<WrittenModel, Failure> {
    let chosen = chosen(tuned, prices).ok_or_else(|| {
        Failure::Check(format!(
            "{}: no model was written: too little was measured of it; give it more with --seconds \
             and --max-bytes",
            tuned.url
        ))
    })?;
    let TunedStore { url, size, findings, .. } = tuned;
    let seconds = findings.seconds;
    let what = format!("{url} ({size} bytes), {}, {seconds:.0} s, over HTTP", date::today());
    file.write(&tuned.device, &chosen, what, &findings.notes)
}

fn chosen(tuned: &TunedStore, prices: Option<StorePrices>) -> Option<ChosenModel> {
    let prices = prices.map_or(ModelPrices::default(), |prices| ModelPrices {
        per_1000_requests: prices.per_1000_requests,
        per_gb: prices.per_gb,
    });
    let store = FittedStore::of(&tuned.findings, ByteCount(tuned.size), prices)?;
    let points = store.points(&tuned.findings);
    let error = ModelError::of(&points)?;
    Some(ChosenModel { device: FittedDevice::Store(store), points, error })
}
