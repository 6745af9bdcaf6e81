//! Device models: the service time of a command, and the order in which queued commands are served.
//!
//! `params` defines the parameters and `model` the interface. Each kind of device is one file. The
//! models and the data they were fitted to: docs/lab/simulator.md.

mod flash;
mod hdd;
pub mod known;
mod limits;
mod mapped;
mod model;
mod params;
mod store;

pub(crate) use model::after_transfer;
pub use model::{BlockDevice, CommandEnd, CommandPieces, DeviceCommand, StoreTotals};
pub use params::{BioSource, DeviceParams, Flash, Hdd, Mapped, ModelChoice, Pick, Store};

use flash::Chips;
use hdd::SpinningDisk;
use mapped::Mapping;
use store::StoreLink;

use crate::rng::DEFAULT_SEED;

impl DeviceParams {
    /// Creates an idle model with these parameters.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range, and its range.
    pub fn build(&self) -> Result<Box<dyn BlockDevice>, String> {
        self.build_in(DEFAULT_SEED)
    }

    /// Like [`Self::build`], with the seed of the run for random variation.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range, and its range.
    pub fn build_in(&self, run_seed: u64) -> Result<Box<dyn BlockDevice>, String> {
        match self {
            Self::Hdd(disk) => Ok(Box::new(SpinningDisk::new(disk.clone())?)),
            Self::Flash(chips) => Ok(Box::new(Chips::new(chips.clone(), run_seed)?)),
            Self::Store(store) => Ok(Box::new(StoreLink::new(store.clone(), run_seed)?)),
            Self::Mapped(mapped) => {
                mapped.check_on()?;
                let below = mapped.on.model.build_in(run_seed);
                let below = below.map_err(|why| format!("on: {why}"))?;
                Ok(Box::new(Mapping::new(mapped, below)?))
            }
        }
    }
}
